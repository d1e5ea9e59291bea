"""Whether a missing step of the optimizer is told from other ways to train."""

import copy

import pytest
import torch
from torch import nn

import stepscope
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.observed_training.observer import TrainingObserver


def facts_of(*, by_hand=False, restores=False, steps=False, clamps=False, initializes=False, passes=12):
    """Trains without a session; returns what is known of it."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    observer = TrainingObserver(model, optimizer, None, isolation=Isolation("raise", print), stopwatch=Stopwatch())
    observer.start()
    if initializes:
        nn.init.zeros_(model.weight)
    best = copy.deepcopy(model.state_dict())
    for step in range(passes):
        optimizer.zero_grad()
        model(torch.randn(8, 4)).square().mean().backward()
        if by_hand:
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter -= 0.1 * parameter.grad
        if steps:
            observer.step(step)
            optimizer.step()
        if clamps:
            with torch.no_grad():
                model.weight.clamp_(-0.3, 0.3)
    if restores:
        model.load_state_dict(best)
    observer.close()
    return observer.facts(None)


def unused(**options):
    """Trains; returns whether gradients are found to be unused, None where that is not said."""
    found = [one for one in facts_of(**options).invariants if one.name == "gradients_are_used"]
    return bool(found[0].broken) if found else None


def test_gradients_that_no_step_uses_are_found():
    assert unused() is True


def test_what_is_initialized_before_the_first_pass_has_trained_nothing():
    assert unused(initializes=True) is True


def test_what_is_restored_behind_the_last_pass_has_trained_nothing():
    assert unused(restores=True) is True


def test_updates_by_hand_use_gradients():
    assert unused(by_hand=True) is False
    assert unused(by_hand=True, restores=True) is False


def test_steps_use_gradients():
    assert unused(steps=True) is False
    assert unused(steps=True, restores=True) is False


def test_a_few_passes_say_nothing():
    assert unused(passes=3) is None


def test_weights_that_a_loop_restores_at_its_end_are_not_those_of_the_last_step():
    assert facts_of(steps=True, restores=True).weights_replaced
    assert not facts_of(steps=True).weights_replaced
    assert not facts_of(restores=True).weights_replaced


def test_weights_that_a_loop_clamps_after_each_step_are_not_replaced():
    assert not facts_of(steps=True, clamps=True).weights_replaced


@pytest.mark.parametrize(("every", "ends", "is_replaced"), [(3, False, False), (None, True, True), (3, True, False)])
@pytest.mark.parametrize("scales", [False, True])
def test_averaged_weights_that_stand_in_for_evaluations_are_a_habit_and_at_the_end_alone_replaced(
    every, ends, is_replaced, scales
):
    """A scaler on the host steps by itself; an infinite gradient has it leave out a step, which changes nothing."""
    torch.manual_seed(0)
    model = nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    averaged = torch.optim.swa_utils.AveragedModel(model, multi_avg_fn=torch.optim.swa_utils.get_ema_multi_avg_fn(0.9))
    scaler = torch.amp.GradScaler("cpu", enabled=scales)
    with stepscope.watch(model, optimizer) as session:
        for step in range(12):
            optimizer.zero_grad()
            rows = torch.full((8, 4), float("inf")) if scales and step == 5 else torch.randn(8, 4)
            scaler.scale(model(rows).square().mean()).backward()
            scaler.step(optimizer)
            scaler.update()
            averaged.update_parameters(model)
            if every is not None and step % every == 0:
                kept = copy.deepcopy(model.state_dict())
                model.load_state_dict(averaged.module.state_dict())
                model.load_state_dict(kept)
        if ends:
            model.load_state_dict(averaged.module.state_dict())
        assert session.evidence().facts.weights_replaced is is_replaced
