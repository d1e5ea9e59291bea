"""A small training to be watched, and what was emitted of it."""

import torch
from module_hooks import hook_count
from torch import nn

import stepscope

FULL = stepscope.DebugConfig.preset("full")
EVERY_STEP = stepscope.DebugConfig(max_overhead=None)


def network():
    """(N, 6) to (N, 3), with a batch norm, a dropout and an operation in place."""
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.ReLU(inplace=True), nn.Linear(16, 3))


def adamw(model):
    """An optimizer for all of a model's parameters."""
    return torch.optim.AdamW(model.parameters(), lr=1e-2)


def loss_of(model):
    """The loss of a random batch."""
    return nn.functional.cross_entropy(model(torch.randn(8, 6)), torch.randint(3, (8,)))


def train(model, optimizer, step, *, steps=20, micro_batches=1):
    """Trains and returns the losses; ``step(loss)`` comes before each optimizer step."""
    torch.manual_seed(2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(micro_batches):
            loss = loss_of(model) / micro_batches
            loss.backward()
        step(loss)
        optimizer.step()
        losses.append(loss.item())
    return losses


def names_of(emitter, kind):
    """The names under which artifacts of a kind were emitted."""
    return {artifact.name for artifact in emitter.artifacts if artifact.kind == kind}


def steps_of(emitter, kind, name):
    """The steps at which artifacts of a kind and name were emitted, in order."""
    return [artifact.step for artifact in emitter.artifacts if artifact.kind == kind and artifact.name == name]


def hooks_on(model, optimizer):
    """How many hooks there are on a model's modules and the optimizer."""
    return hook_count(model) + len(optimizer._optimizer_step_pre_hooks) + len(optimizer._optimizer_step_post_hooks)
