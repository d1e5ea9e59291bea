"""Targets that a loop tells in another unit than its loss compares them in."""

import torch
from torch import nn

import stepscope

STEPS, SCALE, SHIFT = 12, 4e4, 1e5


def _told(loss_function, *, told=None):
    """The evidence of a regression whose loop tells outputs and targets in a unit of their own, or ``told``."""
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Tanh(), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(STEPS):
            inputs = torch.randn(16, 4)
            targets = inputs.sum(1, keepdim=True)
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = loss_function(outputs, targets)
            said = {"outputs": outputs * SCALE + SHIFT, "targets": targets * SCALE + SHIFT} if told is None else told
            loss.backward()
            session.step(loss, **said)
            optimizer.step()
        return session.evidence()


def test_what_the_loss_compares_counts_where_targets_are_told_in_another_unit():
    evidence = _told(nn.functional.mse_loss)
    assert evidence["targets/std"].values.max() < 10
    assert evidence["outputs/std"].values.max() < 10
    assert evidence["baseline_loss"].last < 10


def test_told_targets_count_where_the_loss_is_not_known():
    evidence = _told(lambda outputs, targets: ((outputs - targets) / 3).cosh().log().mean())
    assert evidence["targets/std"].values.min() > 1000
    assert evidence["outputs/std"].values.min() > 1000


def test_told_targets_of_another_number_count():
    evidence = _told(nn.functional.mse_loss, told={"targets": torch.full((3,), 7.0)})
    assert (evidence["targets/mean"].values == 7).all()
