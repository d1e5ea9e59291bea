"""What is expected of torch's optimizers; needs nothing but torch and the module that it is about."""

import copy
import sys
import warnings

import pytest
import torch

from debuggers.torch_internals import optimizers


class Derived(torch.optim.SGD):
    """Steps inside of its own step."""

    def step(self, closure=None):
        return super().step(closure)


def _made(kind):
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    return kind([weight], lr=0.1)


def test_a_wrapper_that_leaves_the_constructor_out_has_no_hooks_of_its_own():
    class Wrapper(torch.optim.Optimizer):
        def __init__(self, optimizer):
            self.inner = optimizer

    class Delegating(Wrapper):
        def __getattr__(self, name):
            return getattr(self.__dict__["inner"], name)

    plain = _made(torch.optim.SGD)
    assert optimizers.has_hooks(plain, of_its_own=True)
    assert optimizers.has_hooks(copy.deepcopy(plain), of_its_own=True)
    assert not optimizers.has_hooks(Wrapper(plain))
    assert optimizers.has_hooks(Delegating(plain))
    assert not optimizers.has_hooks(Delegating(plain), of_its_own=True)


def test_steps_that_call_hooks_are_marked_in_each_class_that_has_an_instance():
    plain = _made(torch.optim.SGD)
    derived = _made(Derived)

    assert len(optimizers.hooked_steps(plain)) == 1
    steps = optimizers.hooked_steps(derived)
    assert len(steps) == 2
    assert steps[0].__code__ is steps[1].__code__


def test_a_step_inside_another_is_two_frames_of_that_function():
    _made(torch.optim.SGD)
    optimizer, counts = _made(Derived), []
    (code,) = {step.__code__ for step in optimizers.hooked_steps(optimizer)}

    def hook(stepping, args, kwargs):
        frame, count = sys._getframe(), 0
        while frame is not None:
            count += frame.f_code is code and frame.f_locals.get("self") is stepping
            frame = frame.f_back
        counts.append(count)

    optimizer.register_step_post_hook(hook)
    optimizer.step()
    assert sorted(counts) == [1, 2]


@pytest.mark.parametrize("kind", [torch.optim.SGD, torch.optim.Adam, torch.optim.LBFGS])
def test_a_step_is_known_by_its_frames_from_a_hook_and_a_closure(kind):
    optimizer, other, seen = _made(kind), _made(kind), []

    def note(*_):
        seen.append((optimizers.is_stepping(optimizer), optimizers.is_stepping(other)))

    def closure():
        note()
        return torch.zeros(())

    optimizer.register_step_pre_hook(note)
    optimizer.step(closure)
    assert len(seen) >= 2
    assert set(seen) == {(True, False)}
    assert not optimizers.is_stepping(optimizer)


def test_what_is_held_are_the_parameters_of_all_groups():
    optimizer = _made(torch.optim.SGD)
    optimizer.add_param_group({"params": [torch.nn.Parameter(torch.zeros(1))]})
    assert [len(parameter) for parameter in optimizers.held_parameters(optimizer)] == [2, 1]


def _weights_after_a_step(optimizer):
    optimizer.step()
    (weight,) = optimizers.held_parameters(optimizer)
    return weight.tolist()


def test_one_step_without_gradients_is_left_out_and_the_next_one_is_torchs_own():
    optimizer = _made(torch.optim.AdamW)
    hooks = []
    optimizer.register_step_post_hook(lambda *_: hooks.append(1))
    (weight,) = optimizers.held_parameters(optimizer)
    gradient, weight.grad = weight.grad, None
    optimizers.SkippedStep(optimizer)

    assert _weights_after_a_step(optimizer) == [1, 1]  # AdamW would decay
    assert (hooks, dict(optimizer.state), "step" in optimizer.__dict__) == ([], {}, False)
    weight.grad = gradient
    assert _weights_after_a_step(optimizer) != [1, 1]
    assert hooks == [1]


def test_a_step_with_gradients_is_not_left_out():
    optimizer = _made(torch.optim.SGD)
    optimizers.SkippedStep(optimizer)
    assert _weights_after_a_step(optimizer) != [1, 1]
    assert "step" not in optimizer.__dict__


@pytest.mark.parametrize("with_scheduler", [False, True])
def test_what_stood_in_the_place_of_the_step_before_stands_there_after_the_release(with_scheduler):
    optimizer = _made(torch.optim.SGD)
    if with_scheduler:
        torch.optim.lr_scheduler.StepLR(optimizer, 1)  # puts a function of its own there
    before = optimizer.__dict__.get("step")
    skipped = optimizers.SkippedStep(optimizer)
    assert optimizer.__dict__["step"] is not before
    skipped.release(optimizer)
    assert optimizer.__dict__.get("step") is before
    assert _weights_after_a_step(optimizer) != [1, 1]


def test_a_scheduler_that_wraps_the_stand_in_goes_on_when_it_is_released():
    optimizer = _made(torch.optim.SGD)
    skipped = optimizers.SkippedStep(optimizer)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    skipped.release(optimizer)
    assert _weights_after_a_step(optimizer) != [1, 1]


def test_a_scaler_steps_through_the_stand_in():
    optimizer = _made(torch.optim.SGD)
    (weight,) = optimizers.held_parameters(optimizer)
    scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
    scaler.scale(weight.sum()).backward()
    optimizers.SkippedStep(optimizer)
    scaler.step(optimizer)
    assert weight.tolist() != [1, 1]
    assert "step" not in optimizer.__dict__


@pytest.mark.parametrize("stepped", [True, False])
def test_a_scheduler_warns_of_a_step_that_is_missing_unless_it_was_left_out(stepped):
    optimizer = _made(torch.optim.SGD)
    optimizer.zero_grad()
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    if stepped:
        optimizers.SkippedStep(optimizer)
        optimizer.step()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scheduler.step()
    assert any("optimizer.step()" in str(warning.message) for warning in caught) is not stepped


def test_parameters_are_released_when_a_group_loses_them_and_held_again_when_one_gets_them_back():
    """torch names them in ``param_groups`` alone, which its own ``add_param_group`` and users change."""
    kept, left = (torch.nn.Parameter(torch.ones(2)) for _ in range(2))
    optimizer = torch.optim.SGD([kept, left], lr=0.1)
    released = optimizers.ReleasedParameters(optimizer)
    assert not released.look()

    optimizer.param_groups[0]["params"] = [kept]
    assert released.look()
    assert left in released
    assert kept not in released
    assert torch.nn.Parameter(torch.ones(2)) not in released

    optimizer.add_param_group({"params": [left]})
    assert not released.look()
    assert left not in released


def test_what_rests_is_in_a_group_whose_rate_is_zero():
    still, other, moving = (torch.nn.Parameter(torch.ones(2)) for _ in range(3))
    rates = ((still, 0.0), (other, torch.tensor(0.0)), (moving, 0.1))
    optimizer = torch.optim.SGD([{"params": [one], "lr": rate} for one, rate in rates], lr=0.1)
    assert optimizers.resting_parameters(optimizer) == {id(still)}
