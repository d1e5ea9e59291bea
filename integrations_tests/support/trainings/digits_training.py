"""A small convolutional network that learns digits under a session."""

import math

import torch
from digits_data import digits_data
from torch import nn
from tracker_adapters.testing import MemoryEmitter

import stepscope

PRESETS = ["economy", "standard", "full"]


def load():
    """Pictures (N, 1, 8, 8), and their labels."""
    pictures, labels = digits_data()
    return torch.tensor(pictures / 16, dtype=torch.float32).unflatten(1, (1, 8, 8)), torch.tensor(labels)


def network():
    """(N, 1, 8, 8) to (N, 10); the bias of the first layer gets no gradient, because of the batch norm behind it."""
    return nn.Sequential(
        nn.Conv2d(1, 8, 3, padding=1), nn.BatchNorm2d(8), nn.ReLU(), nn.Conv2d(8, 8, 3, stride=2), nn.ReLU(),
        nn.Flatten(), nn.Linear(72, 10),
    )  # fmt: skip


def train(digits, *, seed=0, lr=1e-2, config="standard", steps=40, prepare=lambda model: None, nan_at=None, **options):
    """Returns the report and what was emitted; ``prepare(model)`` may return the parameters that are trained."""
    torch.manual_seed(seed)
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(prepare(model) or model.parameters(), lr=lr, momentum=0.9)
    options = {"on_error": "raise", **options}
    with stepscope.DebugSession(model, optimizer, run=emitter, config=config, **options) as session:
        for step in range(steps):
            chosen = torch.randint(0, len(digits[0]), (32,))
            loss = nn.functional.cross_entropy(model(digits[0][chosen]), digits[1][chosen])
            optimizer.zero_grad()
            (loss * math.nan if step == nan_at else loss).backward()
            session.step(loss)
            if step != nan_at:
                optimizer.step()
    return session.report(), emitter


def alerts_of(emitter):
    """The alerts among what was emitted."""
    return [item for item in emitter.artifacts if item.kind == "alert"]
