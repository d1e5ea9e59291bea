"""A step of an optimizer whose class calls that of its parent is one step, for all that hangs on it."""

import math

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.instrumentation.hooks import Hooks


def derived(parent):
    class Derived(parent):
        def step(self, closure=None):
            return super().step(closure)

    return Derived


def optimizer_of(model):
    """One whose own ``step`` and that of its parent have the hooks called, each."""
    parent = derived(torch.optim.SGD)
    for kind in (torch.optim.SGD, parent):
        kind([nn.Parameter(torch.ones(1))], lr=0.1)
    return derived(parent)(model.parameters(), lr=0.1)


@pytest.mark.parametrize("with_closure", [False, True])
def test_functions_are_called_once_also_after_a_step_that_raised(with_closure):
    model = nn.Linear(2, 2)
    optimizer, seen = optimizer_of(model), []

    def closure():
        seen.append("closure")
        optimizer.zero_grad()
        loss = model(torch.ones(1, 2)).sum()
        loss.backward()
        return loss

    def fail():
        raise RuntimeError("out of memory")

    closure()
    with Hooks() as hooks:
        hooks.add_optimizer_pre_step(optimizer, lambda _: seen.append("before"))
        hooks.add_gradients_ready(optimizer, lambda _: seen.append("ready"))
        hooks.add_optimizer_post_step(optimizer, lambda _: seen.append("after"))
        with pytest.raises(RuntimeError):
            optimizer.step(fail)
        seen.clear()
        optimizer.step(closure if with_closure else None)

    assert seen == (["before", "closure", "ready", "after"] if with_closure else ["before", "ready", "after"])


@pytest.mark.parametrize("compiled", [False, True])
def test_a_watched_training_has_as_many_steps_as_it_took(compiled):
    model, emitter = nn.Linear(2, 2), MemoryEmitter()
    optimizer = optimizer_of(model)

    def train(values):
        optimizer.zero_grad()
        model(values).square().sum().backward()
        optimizer.step()

    step = torch.compile(train, backend="eager") if compiled else train
    with stepscope.watch(model, optimizer, run=emitter, config=stepscope.DebugConfig(updates=True)):
        for _ in range(3):
            step(torch.ones(1, 2))

    for name in ("total_norm/gradients", "update_ratio/weight"):
        assert [artifact.step for artifact in emitter.artifacts if artifact.name == name] == [0, 1, 2]


@pytest.mark.parametrize(("scale", "factor"), [(math.nan, 0.5), (math.inf, 0.5), (-2.0, 0.5), (None, 0.0)])
def test_a_scale_that_tells_of_no_skipped_steps_ends_no_session_early(scale, factor, caplog):
    model = nn.Linear(2, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = torch.amp.GradScaler("cpu", backoff_factor=factor)
    with stepscope.watch(model, optimizer, scaler=scaler, run=MemoryEmitter()) as session:
        for _ in range(2):
            optimizer.zero_grad()
            scaler.scale(model(torch.ones(1, 2)).square().sum()).backward()
            scaler.step(optimizer)
            scaler.update()
        if scale is not None:
            scaler._scale.fill_(scale)

    assert session.report().failures == {}
    assert "failed" not in caplog.text
