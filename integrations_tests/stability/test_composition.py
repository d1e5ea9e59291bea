"""The manager decides the same, and trains to the same bits, whatever a session around it measures or leaves out."""

import contextlib
import functools
import math

import pytest
import torch
from torch import nn
from tracker_adapters.artifacts import Scalar
from tracker_adapters.testing import MemoryEmitter

import stepscope
from stability import (
    FirstNaNFinder,
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    Recovery,
    RecoveryConfig,
)

pytestmark = pytest.mark.slow
STEPS, EXCHANGED, LOSS_IS_NAN, GRADIENT_IS_NAN, FAULTS_AT_START = 14, 5, 7, 10, 0
SESSIONS = {
    "every step": {"max_overhead": None},
    "every third step": {"schedule": stepscope.Schedule(every=3), "max_overhead": None},
    "governed": {"max_overhead": 1e-9},
    "all of it": {"max_overhead": None, "activations": True, "weights": True, "updates": True},
}
EXTRAS = ["plain", "scaler", "replay", "recovery", "debug tools", "paused"]
HANDLING = ["skip", "restore", "adaptive"]
CASES = [
    (session, extra, HANDLING[(row + column) % len(HANDLING)])
    for row, session in enumerate(SESSIONS)
    for column, extra in enumerate(EXTRAS)
]


class Model(nn.Module):
    def __init__(self):
        super().__init__()
        self.body, self.norm, self.head = nn.Linear(4, 8), nn.BatchNorm1d(8), nn.Linear(8, 2)

    def forward(self, inputs):
        return self.head(self.norm(self.body(inputs)).relu())


def train(handling_type, session_fields, extra):
    """Returns what the manager found and did at each step, the state at the end, and the emitter."""
    torch.manual_seed(0)
    model, emitter = Model(), MemoryEmitter()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0, growth_interval=1000) if extra == "scaler" else None
    debug = PyTorchDebuggingConfig(
        enable_autograd_anomaly=True, enable_memory_debugging=True, save_debug_info=False, max_debug_iterations=9
    )
    recovery = Recovery(RecoveryConfig(lower_learning_rate=True)) if extra == "recovery" else None
    manager = NumericalStabilityManager(
        GradientClippingConfig(max_norm=0.5),
        NaNHandlingConfig(handling_type=handling_type),
        debug if extra == "debug tools" else None,
        scaler=scaler,
        recovery=recovery,
        find_first_nan=FirstNaNFinder(model) if extra == "replay" else None,
        emitter=emitter,
    )
    if extra == "debug tools":
        manager.start_debug_session("x")
    session = None
    if session_fields is not None:
        config = stepscope.DebugConfig(**session_fields)
        session = stepscope.DebugSession(model, optimizer, run=emitter, stability=manager, config=config)
    results = []
    with session if session is not None else contextlib.nullcontext(), contextlib.closing(manager):
        if session is None:
            manager.keep_buffers(model)
        for number in range(STEPS):
            if number == EXCHANGED:
                model.head = nn.Linear(8, 2)
                optimizer.param_groups[0]["params"] = list(model.parameters())
            inputs = torch.randn(16, 4)
            if number in (LOSS_IS_NAN, FAULTS_AT_START):
                inputs[0, 0] = math.nan

            def forward(inputs=inputs, number=number):
                outputs = model(inputs)
                extra_loss = (outputs * 0).sqrt().sum() if number == GRADIENT_IS_NAN else 0
                return outputs.square().mean() + extra_loss

            optimizer.zero_grad()
            loss = forward()
            (loss if scaler is None else scaler.scale(loss)).backward()
            replay = forward if extra == "replay" else None
            if session is None:
                result = manager.step(model, loss, optimizer, replay=replay)
            else:
                result = session.step(loss, replay=replay)
            results.append(result)
            if scaler is None:
                optimizer.step()
            elif result["nan_stats"]["action"] not in ("skipped", "restored"):
                scaler.step(optimizer)
                scaler.update()
            if extra == "paused" and session is not None and number % 4 == 2:
                with session.paused(), torch.no_grad():
                    model.eval()(torch.randn(3, 4, generator=torch.Generator().manual_seed(1)))
                    model.train()
    if recovery is not None:
        recovery.close()
    state = [*model.parameters(), *model.buffers()]
    return results, [tensor.detach().clone() for tensor in state], emitter


@functools.cache
def alone(handling_type, extra):
    """The same training without a session."""
    return train(handling_type, None, extra)


@pytest.mark.parametrize(("session", "extra", "handling"), CASES)
def test_a_session_changes_nothing_of_what_the_manager_finds_and_does(session, extra, handling):
    expected, expected_state, _ = alone(handling, extra)
    results, state, emitter = train(handling, SESSIONS[session], extra)

    assert [one["nan_stats"]["action"] for one in results] == [one["nan_stats"]["action"] for one in expected]
    faulty = [one["step"] for one in results if not one["nan_stats"]["gradients_finite"]]
    assert faulty == [FAULTS_AT_START, LOSS_IS_NAN, GRADIENT_IS_NAN]
    assert all(torch.equal(one, other) for one, other in zip(state, expected_state, strict=True))
    assert all(tensor.isfinite().all() for tensor in state)
    for name in ("loss", "total_norm/gradients", "stability/score"):
        steps = [one.step for one in emitter.artifacts if isinstance(one, Scalar) and one.name == name]
        assert steps == list(range(STEPS))
    assert not {"stability/loss", "stability/total_norm/gradients"} & {one.name for one in emitter.artifacts}
