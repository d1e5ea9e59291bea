"""Each module has the time of its own operations, forward and backward, and a training stays bit for bit as it is."""

import time

import pytest
import torch
from torch import nn

import stepscope
from debuggers.errors import ArgumentTypeError, DebuggerConfigError, ProfilerError
from debuggers.profiling.profiler import PerformanceProfiler

MS = 1_000_000


class Clock:
    """A clock that computations move on, so that times are exact."""

    def __init__(self):
        self.ns = 0

    def __call__(self):
        return self.ns


class Taking(torch.autograd.Function):
    """The identity, which takes a known time in each direction."""

    @staticmethod
    def forward(ctx, x, clock, forward_ms, backward_ms):
        ctx.clock, ctx.backward_ms = clock, backward_ms
        clock.ns += forward_ms * MS
        return x * 1.0

    @staticmethod
    def backward(ctx, gradient):
        ctx.clock.ns += ctx.backward_ms * MS
        return gradient * 1.0, None, None, None


class Layer(nn.Module):
    def __init__(self, clock, forward_ms, backward_ms):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(3))
        self.clock, self.times = clock, (forward_ms, backward_ms)

    def forward(self, x):
        return Taking.apply(x * self.weight, self.clock, *self.times)


class Block(nn.Module):
    """A branch, and operations of its own around it."""

    def __init__(self, clock):
        super().__init__()
        self.inner = Layer(clock, 10, 20)
        self.clock = clock

    def forward(self, x):
        before = Taking.apply(x, self.clock, 1, 2)
        return Taking.apply(before + self.inner(before), self.clock, 3, 4)


def train(model, steps, *, profile=0, run=None, **options):
    """Returns the losses, and the session."""
    torch.manual_seed(0)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    losses = []
    with stepscope.watch(model, optimizer, run=run, **options) as session:
        if profile:
            session.profiler.measure_steps(profile)
        for _ in range(steps):
            optimizer.zero_grad()
            loss = model(torch.randn(4, 3)).square().mean()
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
    assert session.report().failures == {}
    return losses, session


def test_modules_have_the_time_of_their_own_operations_in_both_directions(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter_ns", clock)
    model = nn.Sequential(Layer(clock, 5, 6), Block(clock), nn.ReLU(inplace=True), Layer(clock, 7, 8))
    _, session = train(model, 5, profile=3, diagnosis=False)

    layers = {layer.name: layer for layer in session.profiler.layers}
    per_step = {
        name: (round(layer.forward_s * 1e3 / layer.count), round(layer.backward_s * 1e3 / layer.count))
        for name, layer in layers.items()
    }
    assert per_step == {
        "0": (5, 6), "1": (4, 6), "1.inner": (10, 20), "2": (0, 0), "3": (7, 8),
    }  # fmt: skip
    assert [layer.name for layer in session.profiler.layers][:2] == ["1.inner", "3"]
    assert {layer.count for layer in layers.values()} == {3}
    assert layers["1.inner"].parameters == 3
    # Four rows of three float32; what an in-place layer returns is not new.
    assert {name: layer.peak_memory_bytes for name, layer in layers.items()} == {
        "0": 48, "1": None, "1.inner": 48, "2": None, "3": 48,
    }  # fmt: skip


def test_losses_and_weights_are_those_of_a_training_that_is_not_measured():
    def model():
        torch.manual_seed(1)
        encoder = nn.TransformerEncoderLayer(32, 2, 32, dropout=0.2, batch_first=True)
        return nn.Sequential(
            nn.Linear(3, 32), nn.ReLU(inplace=True), nn.Unflatten(1, (4, 8)), nn.Flatten(), nn.BatchNorm1d(32), encoder
        )

    measured, plain = model(), model()
    losses, session = train(measured, 6, profile=4)

    assert losses == train(plain, 6)[0]
    assert all(map(torch.equal, measured.parameters(), plain.parameters()))
    assert {layer.count for layer in session.profiler.layers} == {4}
    assert all("_compiled_call_impl" not in module.__dict__ for module in measured.modules())


def test_validations_and_calls_without_gradients_are_left_out():
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        session.profiler.measure_steps(4)
        for step in range(6):
            with torch.no_grad():
                model(torch.randn(2, 3))
            loss = model(torch.randn(2, 3)).square().mean()
            loss.backward()
            session.step(loss)
            optimizer.step()
            if step == 1:
                with session.validating():
                    model(torch.randn(2, 3))

    assert {layer.count for layer in session.profiler.layers} == {4}


def test_a_forward_pass_that_raises_leaves_the_next_steps_to_be_measured():
    class Raising(nn.Linear):
        def forward(self, x):
            if len(x) == 1:
                raise ValueError(x)
            return super().forward(x)

    model = nn.Sequential(Raising(3, 3), nn.ReLU())
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer) as session:
        session.profiler.measure_steps(2)
        for _ in range(3):
            with pytest.raises(ValueError):
                model(torch.ones(1, 3))
            model(torch.ones(2, 3)).sum().backward()
            optimizer.step()

    relu = next(layer for layer in session.profiler.layers if layer.name == "1")
    assert (relu.count, relu.backward_count) == (2, 2)


def test_without_a_session_or_a_model_there_is_a_clear_error():
    with pytest.raises(ProfilerError, match=r"told of no steps; expected that of a session"):
        PerformanceProfiler(nn.Linear(1, 1)).measure_steps()
    with pytest.raises(ArgumentTypeError, match="no model whose steps"):
        stepscope.debug_session().profiler.measure_steps()
    with pytest.raises(DebuggerConfigError, match="steps is 0; expected an integer of at least 1"):
        stepscope.DebugSession(nn.Linear(1, 1)).profiler.measure_steps(0)


def test_a_disabled_session_measures_nothing(monkeypatch):
    monkeypatch.setenv("STEPSCOPE_DISABLED", "1")
    _, session = train(nn.Sequential(nn.Linear(3, 3)), 3, profile=2)

    session.profiler.measure_forward(torch.ones(1, 3))
    session.profiler.trace(1)
    assert session.profiler.layers == ()
    assert session.profiler.data_waiting is None
    assert session.model_diagnostics.flops(torch.ones(1, 3)) == 0


def test_the_wait_for_data_is_that_of_the_sessions_signal():
    _, session = train(nn.Linear(3, 1), 12)
    waiting = session.profiler.data_waiting

    share = session.evidence()["data_share"]
    assert sorted(share.values[1:])[0] <= waiting.share <= sorted(share.values[1:])[-1]
    assert waiting.since_step == share.steps[0]


@pytest.mark.cuda
def test_on_cuda_nothing_waits_for_the_device_and_the_times_are_its_own():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(64, 4096), nn.ReLU(), nn.Linear(4096, 4096), nn.Linear(4096, 1)).cuda()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.001)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        session.profiler.measure_steps(5)
        for _ in range(8):
            loss = model(torch.randn(1024, 64, device="cuda")).square().mean()
            torch.cuda.set_sync_debug_mode("error")
            loss.backward()
            torch.cuda.set_sync_debug_mode("default")
            session.step(loss)
            optimizer.step()
            optimizer.zero_grad()
        layers = {layer.name: layer for layer in session.profiler.layers}

    assert {name: layer.count for name, layer in layers.items()} == dict.fromkeys("0123", 5)
    assert max(layers.values(), key=lambda layer: layer.backward_s).name == "2"
    assert max(layers.values(), key=lambda layer: layer.forward_s).name == "2"
