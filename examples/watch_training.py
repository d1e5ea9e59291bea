"""An unchanged training loop, watched in one line: gradients, updates, activations, and what is wrong with them."""

import sys

import torch
from sklearn.datasets import load_digits
from torch import nn

import stepscope


def train(model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
    digits = load_digits()
    images = torch.from_numpy(digits.images).float()[:, None] / 16
    labels = torch.from_numpy(digits.target)
    for _ in range(3):
        for batch in torch.randperm(1500).split(100):
            loss = nn.functional.cross_entropy(model(images[batch]), labels[batch])
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()


def main(folder: str) -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 8, 3), nn.ReLU(), nn.Flatten(), nn.Linear(8 * 36, 32), nn.ReLU())
    model.append(nn.Linear(32, 10))
    with torch.no_grad():
        model[3].bias[:20] = -10.0  # 20 of 32 hidden units never fire: what the report is about
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    config = stepscope.DebugConfig.preset("full", max_overhead=None)
    with stepscope.open_run(folder, sinks=["tensorboard", "local"]) as run:
        with stepscope.watch(model, optimizer, run=run, config=config) as session:
            train(model, optimizer)
        print(session.report().summary())
    names = stepscope.read_run(folder).names()
    print(f"{len(names)} names, such as {', '.join(sorted(name.name for name in names)[:3])}")


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "runs/watched")
