"""DistributedDataParallel on two ranks of this machine: each rank writes a store, and one run holds both."""

import os
import sys
from pathlib import Path

import torch
from sklearn.datasets import load_digits
from torch import nn
from torch.nn.parallel import DistributedDataParallel

import stepscope


def train(rank: int, folder: str) -> None:
    os.environ |= {"RANK": str(rank), "LOCAL_RANK": str(rank), "WORLD_SIZE": "2"}  # as torchrun does
    meeting = Path(f"{folder}_meeting").absolute()
    torch.distributed.init_process_group("gloo", init_method=f"file://{meeting}", rank=rank, world_size=2)
    torch.manual_seed(0)
    digits = load_digits()
    images = torch.from_numpy(digits.data).float()[rank:1500:2] / 16  # every second digit
    labels = torch.from_numpy(digits.target)[rank:1500:2]
    model = DistributedDataParallel(nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    with stepscope.open_run(folder, sinks=["local"]) as run, stepscope.watch(model, optimizer, run=run):
        for _ in range(8):
            for batch in torch.randperm(750).split(50):
                optimizer.zero_grad()
                nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
                optimizer.step()
    torch.distributed.destroy_process_group()


def main(folder: str) -> None:
    Path(folder).parent.mkdir(parents=True, exist_ok=True)
    torch.multiprocessing.start_processes(train, (folder,), nprocs=2, start_method="fork")  # on GPUs: "spawn"
    with stepscope.read_run(folder) as record:
        print("ranks", record.ranks)
        for rank in record.ranks:
            losses = record.scalars("loss", rank).values
            norms = record.scalars("total_norm/gradients", rank).values
            print(
                f"rank {rank}: loss {losses[-1]:.3f} of its own digits, norm {norms[-1]:.4f} of the averaged gradients"
            )


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/two_ranks")
