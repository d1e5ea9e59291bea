"""Trains on two ranks, alone and watched with everything on, and writes what each rank saw as JSON.

Started by torchrun: ``watched_ranks.py FOLDER KINDS``, where these are a JSON list of ``ddp``, ``fsdp`` and others.
"""

import json
import sys
from contextlib import nullcontext
from pathlib import Path

import torch
import torch.distributed as dist
from torch import nn
from torch.distributed.device_mesh import init_device_mesh
from torch.distributed.fsdp import fully_shard

import stepscope

STEPS = 25


def collectives():
    """How many collectives the default group has begun."""
    return dist.distributed_c10d._get_default_group()._get_sequence_number_for_group()


def train(kind, folder):
    """Trains on this rank's data; returns the losses, the weights, how many collectives it took, and the session."""
    rank = dist.get_rank()
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.BatchNorm1d(16), nn.ReLU(), nn.Dropout(0.1), nn.Linear(16, 3))
    inputs = torch.randn(512, 8)
    targets = inputs[:, :3].argmax(1)
    if kind == "fsdp":
        fully_shard(model, mesh=init_device_mesh("cpu", (dist.get_world_size(),)))
    wrapped = nn.parallel.DistributedDataParallel(model) if kind.startswith("ddp") else model
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    torch.manual_seed(1 + rank)
    before = collectives()
    with nullcontext() if folder is None else stepscope.open_run(folder / kind, sinks=[]) as run:
        watch = None if folder is None else stepscope.watch(wrapped, optimizer, run=run, config="full")
        losses = []
        for step in range(STEPS):
            rows = torch.randint(len(inputs), (32,))
            optimizer.zero_grad()
            loss = nn.functional.cross_entropy(wrapped(inputs[rows]), targets[rows])
            loss.backward()
            if kind == "ddp, out of step" and rank == 1 and step == 20:
                model[0].weight.data.mul_(1.01)
            nn.utils.clip_grad_norm_(model.parameters(), 5.0)
            optimizer.step()
            losses.append(loss.item())
        taken = collectives() - before
        report = None if watch is None else watch.close()
        told = {} if report is None else {
            "causes": [cause.code for cause in report.causes],
            "findings": [finding.kind for finding in report.findings if finding.level != "info"],
            "failures": len(report.failures),
            "summary": report.summary(),
            "evidence": watch.evidence().facts.world_size,
        }  # fmt: skip
    whole = [p.full_tensor() if hasattr(p, "full_tensor") else p for p in model.parameters()]
    return told | {"losses": losses, "weights": [p.tolist() for p in whole], "collectives": taken}


def main():
    folder, kinds = Path(sys.argv[1]), json.loads(sys.argv[2])
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    told = {kind: [train(kind, None), train(kind, folder)] for kind in kinds}
    (folder / f"{dist.get_rank()}.json").write_text(json.dumps(told))
    dist.barrier()
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
