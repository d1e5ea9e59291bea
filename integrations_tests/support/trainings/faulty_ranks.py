"""Trains on several ranks, soundly and with one planted fault after another, watched, and writes the whole truth.

Started by torchrun: ``faulty_ranks.py FOLDER KINDS STEPS``, where kinds are a JSON list. The truth is what collectives
of this program, and no one else's, say of the gradients of all ranks together.
"""

import json
import os
import sys
import threading
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn

import stepscope

AT = 12
"""The step of a fault that has one."""


def model_of(kind):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 15), nn.Tanh(), nn.Linear(15, 3))
    if "fsdp" in kind or "hsdp" in kind:  # seconds of imports, which every worker of the tests would spend
        from torch.distributed.device_mesh import init_device_mesh
        from torch.distributed.fsdp import fully_shard
    if kind == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    if kind == "hsdp, desync":
        fully_shard(
            model, mesh=init_device_mesh("cpu", (2, dist.get_world_size() // 2), mesh_dim_names=("dp", "shard"))
        )
    plain = kind.startswith(("fsdp", "hsdp"))
    return model, model if plain else nn.parallel.DistributedDataParallel(model)


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def truth_of(model, step):
    """Norms of the whole gradients, and extremes of the first one."""
    gradients = {name: whole(parameter.grad).double() for name, parameter in model.named_parameters()}
    first = next(iter(gradients.values()))
    return {
        "step": step,
        "norms": {name: gradient.norm().item() for name, gradient in gradients.items()},
        "total": torch.cat([gradient.flatten() for gradient in gradients.values()]).norm().item(),
        "first": [first.numel(), first.min().item(), first.max().item(), first.mean().item()],
    }


def train(kind, folder, steps):
    rank, last = dist.get_rank(), dist.get_world_size() - 1
    model, wrapped = model_of(kind)
    faulty = rank == last
    rate = 0.02 if kind == "configuration" and faulty else 0.01
    optimizer = torch.optim.AdamW(model.parameters(), lr=rate)
    generator = torch.Generator().manual_seed(1 + (0 if kind == "same batch" else rank))
    late, truth = threading.Event(), []
    with stepscope.open_run(folder / kind, sinks=[]) as run, stepscope.watch(wrapped, optimizer, run=run):
        for step in range(steps):
            inputs = torch.randn(16, 8, generator=generator)
            labels = inputs[:, :3].argmax(1)
            if kind == "nan" and faulty and step == AT:
                inputs[0, 0] = torch.nan
            if kind == "straggler" and faulty:
                late.wait(0.03)
            if kind == "hang" and faulty and step == AT:
                stall(run.path)
            optimizer.zero_grad()
            used = model if kind == "bypass" and step >= AT else wrapped
            nn.functional.cross_entropy(used(inputs), labels).backward()
            if "desync" in kind and faulty and step == AT:
                whole_part = model[2].weight.data
                getattr(whole_part, "_local_tensor", whole_part).view(-1)[:1].add_(1e-3)
            if kind in ("ddp", "fsdp"):
                truth.append(truth_of(model, step))
            optimizer.step()
    return truth


def stall(path):
    """Waits, as a rank that is stuck, until both have said where they are; then the job ends as if it were killed."""
    threading.Thread(target=end_when_said, args=(path,)).start()
    threading.Event().wait()


def end_when_said(path):
    never = threading.Event()
    while not said_where(path):
        never.wait(0.05)
    os._exit(1)


def said_where(path):
    with stepscope.read_run(path) as record:
        return all(any(info.name == "stepscope/stack" for info in record.names(rank)) for rank in record.ranks)


def main():
    folder, kinds, steps = Path(sys.argv[1]), json.loads(sys.argv[2]), int(sys.argv[3])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told = {kind: train(kind, folder, steps) for kind in kinds}
    if dist.get_rank() == 0:
        (folder / "truth.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
