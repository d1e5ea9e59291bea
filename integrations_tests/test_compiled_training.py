"""Watching a training that torch.compile takes as a whole or in part: the same weights, and gradients as they are."""

import pytest
import torch
from torch import nn

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

pytestmark = pytest.mark.slow
STEPS = 4


@pytest.fixture(autouse=True)
def fresh():
    torch._dynamo.reset()
    yield
    torch._dynamo.reset()


class Loop:
    """A small training with its steps compiled in one of several ways; knows the true norms of the gradients."""

    def __init__(self, how, backend):
        torch.manual_seed(0)
        self.model = nn.Sequential(nn.Linear(6, 12), nn.ReLU(), nn.Linear(12, 3))
        self.optimizer = torch.optim.AdamW(self.model.parameters(), 1e-2)
        self.norms, self.losses, self.session = [], [], None
        self.step = getattr(self, how)
        if how == "whole":
            self.step = torch.compile(self.whole, backend=backend)
        elif how == "optimizer_only":
            self.update = torch.compile(self.optimizer_step, backend=backend)
        elif how == "in_pieces":
            self.update = torch.compile(self.optimizer.step, backend=backend)
            self.forward = torch.compile(self.model, backend=backend)

    def optimizer_step(self):
        self.optimizer.step()

    def whole(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        if self.session is not None:
            self.session.step(loss)
        self.optimizer.step()
        return loss

    def optimizer_only(self, x):
        self.optimizer.zero_grad()
        loss = self.model(x).square().mean()
        loss.backward()
        self.update()
        return loss

    def in_pieces(self, x):
        self.optimizer.zero_grad()
        loss = self.forward(x).square().mean()
        loss.backward()
        self.update()
        return loss

    def __call__(self, steps=STEPS):
        generator = torch.Generator().manual_seed(1)
        for _ in range(steps):
            self.losses.append(self.step(torch.randn(16, 6, generator=generator)).item())
            self.norms.append(self.model[0].weight.grad.norm().item())


def same(loop, plain):
    return loop.losses == plain.losses and all(map(torch.equal, loop.model.parameters(), plain.model.parameters()))


@pytest.mark.parametrize("backend", ["eager", "aot_eager", "inductor"])
@pytest.mark.parametrize("how", ["optimizer_only", "whole", "in_pieces"])
@pytest.mark.parametrize("config", ["standard", "full"])
def test_a_watched_training_computes_the_same_and_every_step_is_measured(tmp_path, how, backend, config):
    plain = Loop(how, backend)
    plain()
    torch._dynamo.reset()
    loop = Loop(how, backend)
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        stepscope.watch(loop.model, loop.optimizer, run=run, config=config) as session,
    ):
        loop()
    assert same(loop, plain)
    assert session.report().failures == {}
    record = stepscope.read_run(tmp_path / "run")
    series = record.scalars("gradient_norm/0.weight")
    assert series.steps.tolist() == list(range(STEPS))
    assert series.values.tolist() == pytest.approx(loop.norms, rel=1e-5)
    if config == "full":
        assert [histogram.step for histogram in record.histograms("updates/0.weight")] == list(range(STEPS))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_session_step_inside_of_compiled_code_measures(tmp_path, backend):
    loop = Loop("whole", backend)
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        stepscope.DebugSession(loop.model, loop.optimizer, run=run, config="full") as loop.session,
    ):
        loop()
        assert loop.session.report().failures == {}
    norms = stepscope.read_run(tmp_path / "run").scalars("gradient_norm/0.weight")
    assert norms.values.tolist() == pytest.approx(loop.norms, rel=1e-5)


def entry_points(loop, run):
    """What a user may call in a step, by name."""
    from debuggers import ActivationMonitor, GradientDebugger, TensorInspector, summarize

    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), emitter=run)
    inspector = TensorInspector(emitter=run)
    debugger = GradientDebugger(loop.model, loop.optimizer, emitter=run, updates=True, on_error="raise")
    monitor = ActivationMonitor(loop.model, emitter=run, on_error="raise")
    session = stepscope.debug_session().start()
    return {
        "manager": lambda loss: manager.step(loop.model, loss, loop.optimizer),
        "inspector": lambda loss: inspector.inspect_tensor(loop.model[0].weight, "weight"),
        "session's inspector": lambda loss: session.tensor_inspector.inspect_tensor(loss, "loss"),
        "gradients": lambda loss: debugger.step(len(loop.losses)),
        "recorded gradients": lambda loss: session.gradient_debugger.record_gradient_flow("0", loop.model[0].bias.grad),
        "activations": lambda loss: monitor.attach(len(loop.losses)),
        "summaries": lambda loss: summarize([loop.model[0].weight]),
        "scalar": lambda loss: run.scalar("mine/loss", loss.detach(), step=len(loop.losses)),
        "histogram": lambda loss: run.histogram("mine/weight", loop.model[0].weight.detach(), step=len(loop.losses)),
        "alert": lambda loss: run.alert("mine", "look", step=len(loop.losses), level="info"),
        "text": lambda loss: run.text("mine/text", "look", step=len(loop.losses)),
        "flush": lambda loss: run.flush_store(),
        "report": lambda loss: session.report(),
    }


POINTS = (
    "manager",
    "inspector",
    "session's inspector",
    "gradients",
    "recorded gradients",
    "activations",
    "summaries",
    "scalar",
    "histogram",
    "alert",
    "text",
    "flush",
    "report",
)


@pytest.mark.parametrize("point", POINTS)
def test_every_entry_point_may_be_called_from_compiled_code(tmp_path, point):
    plain = Loop("whole", "aot_eager")
    plain()
    torch._dynamo.reset()
    loop = Loop("whole", "aot_eager")
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        points = entry_points(loop, run)
        assert tuple(points) == POINTS
        call, calls = points[point], []

        class Session:
            def step(self, loss):
                calls.append(call(loss))

        loop.session = Session()
        loop()
        assert same(loop, plain)
        assert len(calls) == STEPS
    if point in ("scalar", "histogram"):
        names = {entry.name: entry.count for entry in stepscope.read_run(tmp_path / "run").names()}
        assert names["mine/loss" if point == "scalar" else "mine/weight"] == STEPS
