"""A classifier whose loop forgets to zero its gradients: what is wrong, since when, why, and what to try."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import stepscope


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    digits = load_digits()
    images = torch.from_numpy(digits.data).float() / 16
    labels = torch.from_numpy(digits.target)
    for _ in range(6):
        for batch in torch.randperm(1500).split(100):
            nn.functional.cross_entropy(model(images[batch]), labels[batch]).backward()
            optimizer.step()  # optimizer.zero_grad() is missing


def main(folder: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.open_run(folder, sinks=[]) as run, stepscope.watch(model, optimizer, run=run) as session:
        train(model, optimizer)
    for cause in session.report().causes:
        print(cause)
        for sign in cause.evidence:
            print("  +", sign)
        print("  try:", cause.advice)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/sick")
