"""A GradScaler that skips every step is told while it does, though nothing of the optimizer is called then."""

from functools import partial

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from tracker_adapters.testing import MemoryEmitter

import stepscope


def train(model, optimizer, *, steps, scaler, factor=1.0):
    for _ in range(steps):
        optimizer.zero_grad()
        loss = factor * model(torch.randn(16, 4)).square().mean()
        scaler.scale(loss).backward()
        scaler.step(optimizer)
        scaler.update()


def watched_scaler(*, given=False, **options):
    torch.manual_seed(0)
    model, emitter = nn.Sequential(nn.Linear(4, 8), nn.ReLU(), nn.Linear(8, 2)), MemoryEmitter()
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    watch = stepscope.watch(model, optimizer, run=emitter, scaler=scaler if given else None, **options)
    return watch, emitter, partial(train, model, optimizer, scaler=scaler)


def skip_alerts(emitter):
    return [(item.step, item.message) for item in emitter.artifacts if item.name == "skipped_steps"]


@pytest.mark.parametrize("given", [False, pytest.param(True, marks=pytest.mark.slow)])
@pytest.mark.parametrize("sound_steps", [0, 5])
def test_a_scaler_that_skips_for_ever_is_told_while_it_does(given, sound_steps):
    watch, emitter, run = watched_scaler(given=given)
    with watch:
        run(steps=sound_steps)
        run(steps=16, factor=float("nan"))
        assert not skip_alerts(emitter)
        run(steps=9, factor=float("nan"))

        ((step, message),) = skip_alerts(emitter)
        assert step == max(0, sound_steps - 1)
        assert "it skips every step, " in message
        run(steps=100, factor=float("nan"))

    assert len(skip_alerts(emitter)) == 1
    assert watch.report().verdict.health == "critical"


def test_a_scaler_that_goes_on_at_last_has_its_finding_ended():
    watch, emitter, run = watched_scaler()
    with watch:
        run(steps=3)
        run(steps=40, factor=float("nan"))
        run(steps=3)
        (finding,) = [one for one in watch.report().findings if one.is_problem]
        run(steps=40, factor=float("nan"))

    assert (finding.kind, finding.ongoing) == ("skipped_steps", False)
    assert [one.ongoing for one in watch.report().findings if one.kind == "skipped_steps"] == [False, True]
    assert len(skip_alerts(emitter)) == 2


def test_passes_in_a_pause_and_long_accumulations_are_no_skipped_steps():
    watch, emitter, run = watched_scaler()
    with watch:
        run(steps=3)
        with watch.paused():
            run(steps=40, factor=float("nan"))
            assert not hook_count(watch._model)
        run(steps=3)
        for _ in range(200):
            watch._model(torch.ones(2, 4)).sum()
    assert not skip_alerts(emitter)


def test_the_first_scale_tells_nothing_where_the_loop_tells_its_steps():
    """A session is called at skipped steps, too, and finds itself what is wrong with them."""
    watch, _, run = watched_scaler()
    model, optimizer, scaler = run.args[0], run.args[1], run.keywords["scaler"]
    watch.close()
    with stepscope.DebugSession(model, optimizer, scaler=scaler) as session:
        for step in range(40):
            optimizer.zero_grad()
            loss = (float("nan") if step < 5 else 1.0) * model(torch.randn(16, 4)).square().mean()
            scaler.scale(loss).backward()
            session.step()
            scaler.step(optimizer)
            scaler.update()

    assert scaler.get_scale() == 2.0**11
    assert session.report().coverage.skipped == 0
    assert not [one for one in session.report().findings if one.kind == "skipped_steps"]
