"""Thirty faults in three networks, forward and backward, in float32, bfloat16 and float16: all are named exactly."""

import copy
import random

import numpy as np
import pytest
import torch
from module_hooks import hook_count
from planted.faults import FAULTS, plant

from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.first_nan.replay import replay_closure, replay_forward

pytestmark = pytest.mark.filterwarnings("ignore:std..:UserWarning")


def verdict(fault, origin):
    if origin is None or (origin.module, origin.direction) != (fault.module, fault.direction):
        return "wrong"
    right = origin.operator == fault.operator if fault.operator else origin.operator.startswith("aten::")
    return "exactly" if right and origin.call == fault.call else "module"


def test_all_are_named_exactly(capsys):
    answers = [replay_closure(model, closure).origin for model, _, closure in map(plant, FAULTS)]
    verdicts = [verdict(*pair) for pair in zip(FAULTS, answers, strict=True)]
    with capsys.disabled():
        for fault, found, origin in zip(FAULTS, verdicts, answers, strict=True):
            print(f"{fault.title:26} {found:8} {origin and origin.title}")  # noqa: T201
    counts = {kind: verdicts.count(kind) for kind in ("exactly", "module", "wrong")}

    assert counts == {"exactly": 30, "module": 0, "wrong": 0}
    assert [origin.rows for fault, origin in zip(FAULTS, answers, strict=True) if fault.rows] == [
        fault.rows for fault in FAULTS if fault.rows
    ]
    assert all(origin.source is not None and origin.suggestion for origin in answers)


@pytest.mark.parametrize(
    "fault",
    [
        pytest.param(fault, id=fault.title, marks=() if place % 3 == 0 else pytest.mark.slow)
        for place, fault in enumerate(FAULTS)
    ],
)
def test_the_same_is_found_without_a_closure(fault):
    model, _, closure = plant(fault)
    with ForwardCapture(model) as capture:
        loss = closure()
        loss.backward()
        assert capture.start is not None
        origin = replay_forward(model, capture.start, loss=loss, loss_is_finite=bool(torch.isfinite(loss))).origin

    if fault.module == "the loss":
        assert (origin.module, origin.origin) == ("the loss", "loss")
        assert "replay=" in origin.suggestion
    else:
        assert verdict(fault, origin) == "exactly"


def everything(model, inputs):
    """Bit patterns of all that a replay could change."""
    tensors = {**dict(model.state_dict(keep_vars=True)), "inputs": inputs}
    bits = {name: tensor.detach().clone().view(torch.uint8) for name, tensor in tensors.items() if tensor.ndim}
    grads = {name: parameter.grad for name, parameter in model.named_parameters()}
    hooks = {name: hook_count(m) for name, m in model.named_modules()}
    versions = {name: tensor._version for name, tensor in tensors.items()}
    generators = (random.getstate(), np.random.get_state()[1].tolist(), torch.get_rng_state().tolist())
    return bits, grads, hooks, versions, generators, model.training


@pytest.mark.parametrize("fault", FAULTS[::5], ids=lambda fault: fault.title)
@pytest.mark.parametrize("calls_backward", [False, True])
def test_the_state_is_bit_identical_afterwards(fault, calls_backward):
    model, inputs, closure = plant(fault)
    closure().backward()
    gradients = {name: copy.deepcopy(parameter.grad) for name, parameter in model.named_parameters()}
    before = everything(model, inputs)

    def replay():
        loss = closure()
        if calls_backward:
            loss.backward()
        return loss

    replay_closure(model, replay)
    after = everything(model, inputs)

    assert all(torch.equal(bits, after[0][name]) for name, bits in before[0].items())
    assert all(gradient is after[1][name] for name, gradient in before[1].items())
    assert before[2:] == after[2:]
    for name, parameter in model.named_parameters():
        assert parameter.grad is None or torch.equal(
            parameter.grad.view(torch.uint8), gradients[name].view(torch.uint8)
        )
