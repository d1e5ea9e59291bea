"""What is expected of torch's optimizers; needs nothing but torch and the module that it is about."""

import sys
import warnings

import pytest
import torch

from debuggers.torch_internals import optimizers


class Derived(torch.optim.SGD):
    """Steps inside of its own step."""

    def step(self, closure=None):
        return super().step(closure)


def _made(kind: type[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    weight = torch.nn.Parameter(torch.ones(2))
    weight.grad = torch.ones(2)
    return kind([weight], lr=0.1)


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
    optimizer, seen = _made(kind), []

    def is_in_step() -> bool:
        frame = sys._getframe()
        while frame is not None:
            if optimizers.is_step_of(frame, optimizer):
                return True
            frame = frame.f_back
        return False

    def closure():
        seen.append(is_in_step())
        return torch.zeros(())

    optimizer.register_step_pre_hook(lambda *_: seen.append(is_in_step()))
    optimizer.step(closure)
    assert len(seen) >= 2
    assert all(seen)
    assert not is_in_step()


@pytest.mark.parametrize("stepped", [True, False])
def test_a_scheduler_warns_of_a_step_that_is_missing_unless_the_optimizer_is_marked(stepped):
    optimizer = _made(torch.optim.SGD)
    scheduler = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    if stepped:
        optimizers.mark_as_stepped(optimizer)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        scheduler.step()
    assert any("optimizer.step()" in str(warning.message) for warning in caught) is not stepped
