"""Trains on several ranks whose clocks differ by minutes, from a checkpoint where there is one, and adds to the truth.

Started by torchrun: ``resumed_ranks.py FOLDER KIND FIRST_STEP STEPS``. Kinds are ``fsdp``, ``ddp`` and
``ddp, out of step``. The run is ``FOLDER/run``, which the first start makes and the others continue.
"""

import json
import os
import sys
import time
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import stepscope

MUCH = [f"much/{number}" for number in range(100)]


def whole(tensor):
    return tensor.full_tensor() if hasattr(tensor, "full_tensor") else tensor


def set_clock(ahead_s):
    clock_ns, clock = time.time_ns, time.time
    time.time_ns = lambda: clock_ns() + ahead_s * 10**9
    time.time = lambda: clock() + ahead_s


def main():
    set_clock((0, 7 * 60, -11 * 60, 3600)[int(os.environ["RANK"])])
    folder, kind, first_step, steps = Path(sys.argv[1]), sys.argv[2], int(sys.argv[3]), int(sys.argv[4])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    rank, ranks, checkpoint = dist.get_rank(), dist.get_world_size(), folder / f"{first_step}.pt"
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 15), nn.Tanh(), nn.Linear(15, 3))
    if first_step:
        model.load_state_dict(torch.load(checkpoint, weights_only=True))
    if kind == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (ranks,)))
    wrapped = model if kind == "fsdp" else nn.parallel.DistributedDataParallel(model)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    told = folder / "truth.json"
    truth = json.loads(told.read_text()) if told.exists() else {}
    run = stepscope.open_run(folder / "run", sinks=["local"] if rank == 0 else [], resume=True, system_metrics=False)
    watch = stepscope.watch(wrapped, optimizer, run=run, first_step=first_step, histogram_every=4, max_overhead=None)
    with run, watch:
        for step in range(first_step, first_step + steps):
            generator = torch.Generator().manual_seed(1000 * step + rank)
            inputs = torch.randn(16, 8, generator=generator)
            optimizer.zero_grad()
            nn.functional.cross_entropy(wrapped(inputs), inputs[:, :3].argmax(1)).backward()
            if kind == "ddp, out of step" and rank == 1 and step == first_step + steps // 2:
                model[2].weight.data.view(-1)[:1].add_(1e-3)
            truth[str(step)] = {name: whole(one.grad).double().norm().item() for name, one in model.named_parameters()}
            optimizer.step()
            run.scalars(MUCH, [float(step)] * len(MUCH), step=step)
            saved = {name: whole(one) for name, one in model.state_dict().items()}
            if rank == 0 and step % 10 == 4:  # what a start that begins with the next step goes on with
                torch.save(saved, folder / f"{step + 1}.pt")
    dist.barrier()
    if rank == 0:
        told.write_text(json.dumps(truth))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
