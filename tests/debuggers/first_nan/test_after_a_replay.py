"""After a replay everything is as before it, to the last bit, also when it raises."""

import copy
import random

import numpy as np
import pytest
import torch
from torch import nn

from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.first_nan.replay import replay_closure, replay_error, replay_forward
from debuggers.torch_internals.grad_scaler import scaler_aside


def bits(tensor):
    return tensor.detach().reshape(-1).clone().view(torch.uint8)


class Everything:
    """A training in the middle of a step: weights, buffers, gradients, momenta, generators, a scaler, autocast."""

    def __init__(self):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Dropout(0.5), nn.Linear(8, 1))
        self.optimizer = torch.optim.Adam(self.model.parameters())
        self.scaler = torch.amp.GradScaler("cpu", init_scale=4.0)
        self.capture = ForwardCapture(self.model)
        self.kept = torch.ones(6)
        self.generator = torch.Generator()
        for _ in range(2):
            self.inputs = torch.randn(6, 4)
            self.optimizer.zero_grad()
            self.scaler.scale(self.model(self.inputs).square().mean()).backward()
            self.scaler.unscale_(self.optimizer)
            if _ == 0:
                self.scaler.step(self.optimizer)
                self.scaler.update()
        self.gradients = [parameter.grad for parameter in self.model.parameters()]

    def state(self):
        moments = [value for state in self.optimizer.state.values() for value in state.values()]
        tensors = [*self.model.state_dict().values(), *self.gradients, *moments, self.inputs, self.kept]
        tensors += [self.scaler._scale, self.scaler._growth_tracker]
        flags = (
            torch.is_autocast_enabled("cpu"),
            torch.get_autocast_dtype("cpu"),
            torch.is_grad_enabled(),
            torch.is_inference_mode_enabled(),
            torch.is_anomaly_enabled(),
            torch.are_deterministic_algorithms_enabled(),
            self.model.training,
            len(torch.utils._python_dispatch._get_current_dispatch_mode_stack()),
            torch._C._len_torch_function_stack(),
        )
        of_torch = torch.get_rng_state().tolist(), self.generator.get_state().tolist()
        generators = random.getstate(), repr(np.random.get_state()), of_torch
        scaler = {
            name: copy.deepcopy(dict(value)) if name == "_per_optimizer_states" else value
            for name, value in self.scaler.__dict__.items()
            if not isinstance(value, torch.Tensor)
        }
        found = repr([(key, str(value)) for key, value in scaler.items()])
        versions = [tensor._version for tensor in (*self.model.parameters(), *self.model.buffers(), self.inputs)]
        hooks = [(len(m._forward_hooks), len(m._forward_pre_hooks)) for m in self.model.modules()]
        return [bits(tensor) for tensor in tensors], flags, generators, found, hooks, versions

    def is_as_before(self, before, *, was_written_to=False):
        now = self.state()
        if was_written_to:  # the values are put back, and torch counts the closure's writes
            before, now = before[:-1], now[:-1]
        assert all(torch.equal(one, other) for one, other in zip(before[0], now[0], strict=True))
        assert before[1:] == now[1:]
        assert all(one is p.grad for one, p in zip(self.gradients, self.model.parameters(), strict=False))


def writes_and_draws(training):
    training.kept.fill_(random.random() + np.random.random()).add_(torch.rand(6, generator=training.generator))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        return training.model(training.inputs).float().square().mean()


def finite(training):
    return writes_and_draws(training)


def not_finite(training):
    return (writes_and_draws(training) * 0).sqrt()


def calls_backward(training):
    loss = not_finite(training)
    loss.backward()
    return loss


def scales(training):
    loss = writes_and_draws(training)
    training.scaler.scale(loss * torch.nan).backward()
    training.scaler.unscale_(training.optimizer)
    return loss


def raises_in_autocast(training):
    with torch.autocast("cpu", dtype=torch.bfloat16), torch.no_grad():
        writes_and_draws(training)
        raise LookupError("no such batch")


def raises_at_nan(training):
    loss = writes_and_draws(training) * torch.nan
    assert torch.isfinite(loss)


def raises_in_backward(training):
    loss = writes_and_draws(training)

    def fail(gradient):
        raise ValueError("a hook of the user's")

    loss.register_hook(fail)
    loss.backward()


def steps(training):
    loss = writes_and_draws(training)
    torch.autograd.backward(loss)
    training.optimizer.step()
    training.optimizer.zero_grad()
    return loss


def steps_after_backward(training):
    loss = writes_and_draws(training)
    loss.backward()
    training.optimizer.step()
    return loss


def interrupts(training):
    writes_and_draws(training)
    raise KeyboardInterrupt


CLOSURES = [
    finite,
    not_finite,
    calls_backward,
    scales,
    raises_in_autocast,
    raises_at_nan,
    raises_in_backward,
    steps,
    steps_after_backward,
    interrupts,
]


@pytest.mark.parametrize("closure", CLOSURES, ids=lambda closure: closure.__name__)
def test_a_closure_leaves_no_trace(closure):
    training = Everything()
    before = training.state()
    try:
        with scaler_aside(training.scaler):
            replay_closure(training.model, lambda: closure(training), start=training.capture.start)
    except (LookupError, ValueError, KeyboardInterrupt):
        pass

    training.is_as_before(before, was_written_to=closure in (steps, steps_after_backward))
    training.scaler.step(training.optimizer)  # a scaler that takes the gradients for unscaled ones would raise here
    training.scaler.update()


def test_a_repeated_forward_pass_leaves_no_trace():
    training = Everything()
    before = training.state()
    replay_forward(training.model, training.capture.start)
    training.is_as_before(before)


def test_a_forward_pass_that_raises_again_leaves_no_trace():
    training = Everything()
    training.model.append(nn.Linear(3, 3))
    before = training.state()
    with pytest.raises(RuntimeError) as raised:
        training.model(training.inputs)
    during = training.state()
    replay_error(training.model, training.capture.start, raised.value)
    training.is_as_before(during)

    assert before[1] == during[1]
