"""Gradients are those that the optimizer is about to use, and the run is bit-identical with and without watching."""

import copy
import io
import logging
import math
import pickle

import numpy as np
import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch.amp.grad_scaler import GradScaler
from torch.utils.checkpoint import checkpoint
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter

from debuggers.errors import HistoryError
from debuggers.gradients.debugger import GradientDebugger
from debuggers.measurement.measure import measure, summarize


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.Tanh(), nn.Dropout(0.1), nn.Linear(5, 3))


def batch(seed=1):
    return torch.randn(8, 6, generator=torch.Generator().manual_seed(seed))


def backward(model, loss_of=torch.Tensor.sum):
    model.zero_grad()
    loss_of(model(batch()).square()).backward()


def histograms(emitter, group="gradients"):
    return {
        a.name.removeprefix(f"{group}/"): a
        for a in emitter.artifacts
        if a.kind == "histogram" and a.name.startswith(f"{group}/")
    }


def assert_gradients(emitter, expected):
    """Whether exactly these gradients were emitted, by a measurement of each alone."""
    found = histograms(emitter)
    assert list(found) == list(expected)
    for name, gradient in expected.items():
        [alone] = summarize([gradient])
        assert found[name].bins.tolist() == alone.bins.tolist()
        assert found[name].counts.tolist() == alone.counts.tolist()
        assert (found[name].mean, found[name].m2) == pytest.approx((alone.mean, alone.m2), rel=1e-12)


def of(model):
    return {name: parameter.grad for name, parameter in model.named_parameters() if parameter.grad is not None}


def watched(model, optimizer=None, **options):
    emitter = MemoryEmitter()
    return GradientDebugger(model, optimizer, emitter=emitter, **{"on_error": "raise"} | options), emitter


def watched_network(**options):
    model = network()
    return model, *watched(model, **options)


def test_every_gradient_its_norm_and_the_norm_of_all():
    model, debugger, emitter = watched_network()
    backward(model)
    table = debugger.step(3)
    assert_gradients(emitter, of(model))
    norms = {name: gradient.double().norm().item() for name, gradient in of(model).items()}
    scalars = {a.name: a.value for a in emitter.artifacts if a.kind == "scalar"}
    total = math.sqrt(sum(norm**2 for norm in norms.values()))
    assert scalars == pytest.approx(
        {f"gradient_norm/{name}": norm for name, norm in norms.items()} | {"total_norm/gradients": total}, rel=1e-12
    )
    assert table.l2.tolist() == pytest.approx(list(norms.values()), rel=1e-12)
    assert {a.step for a in emitter.artifacts} == {3}
    assert debugger.history.names == tuple(norms)
    assert debugger.history.series("3.weight", "norm")[1].tolist() == [table.l2[2]]


def test_four_accumulated_micro_batches_are_one_gradient():
    model, debugger, emitter = watched_network()
    expected = {name: torch.zeros_like(parameter) for name, parameter in model.named_parameters()}
    for micro_batch in range(4):
        loss = model(batch(micro_batch)).square().mean() / 4
        for name, gradient in zip(
            expected, torch.autograd.grad(loss, model.parameters(), retain_graph=True), strict=True
        ):
            expected[name] += gradient
        loss.backward()
    debugger.step(0)
    assert_gradients(emitter, expected)


def test_gradients_are_taken_before_or_after_clipping_by_where_step_is_called():
    for call_before in (True, False):
        model, debugger, _ = watched_network()
        backward(model)
        raw = math.sqrt(sum(gradient.double().square().sum().item() for gradient in of(model).values()))
        table = debugger.step(0) if call_before else None
        torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
        table = table or debugger.step(0)
        assert np.linalg.norm(table.l2) == pytest.approx(raw if call_before else 0.01, rel=1e-3)


@pytest.mark.parametrize("scale", [65536.0, 3000.0])
@pytest.mark.parametrize("unscaled_by_the_loop", [False, True])
def test_a_loss_scale_is_taken_out_once(scale, unscaled_by_the_loop):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    scaler = GradScaler("cpu", init_scale=scale)
    debugger, emitter = watched(model, optimizer, scaler=scaler)
    backward(model, lambda loss: scaler.scale(loss.sum()))
    scaled = {name: gradient.clone() for name, gradient in of(model).items()}
    if unscaled_by_the_loop:
        scaler.unscale_(optimizer)
    debugger.step(0)
    if not unscaled_by_the_loop:
        assert all(torch.equal(gradient, scaled[name]) for name, gradient in of(model).items())
        scaler.unscale_(optimizer)
    assert_gradients(emitter, of(model))
    scaler.step(optimizer)
    scaler.update()


def test_the_first_overflows_of_a_scaler_alarm_nobody_and_a_fault_does():
    def alerts(scaler):
        model = network()
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        debugger, emitter = watched(model, optimizer, scaler=scaler)
        backward(model, lambda loss: loss.sum() * math.inf if scaler is None else scaler.scale(loss.sum() * math.inf))
        debugger.step(0)
        return [a.name for a in emitter.artifacts if a.kind == "alert"]

    assert alerts(GradScaler("cpu")) == []
    assert alerts(None) == ["non_finite_gradient"]


@pytest.mark.slow
def test_a_compiled_model_has_the_names_and_gradients_of_the_original():
    model = network().eval()
    compiled = torch.compile(model, backend="aot_eager")
    debugger, emitter = watched(compiled)
    backward(compiled)
    debugger.step(0)
    assert_gradients(emitter, of(model))


@pytest.mark.parametrize("use_reentrant", [False, True])
def test_activation_checkpointing_counts_nothing_twice(use_reentrant):
    class Checkpointed(nn.Sequential):
        def forward(self, x):
            return checkpoint(super().forward, x.requires_grad_(), use_reentrant=use_reentrant)

    plain = network().eval()
    model = Checkpointed(*copy.deepcopy(plain))
    debugger, emitter = watched(model)
    backward(model)
    debugger.step(0)
    backward(plain)
    assert_gradients(emitter, of(plain))


def test_tied_frozen_and_missing_gradients():
    model = nn.ModuleDict({name: nn.Linear(4, 4) for name in ("first", "frozen", "last", "unused")})
    model["last"].weight = model["first"].weight
    model["frozen"].requires_grad_(requires_grad=False)
    debugger, emitter = watched(model)
    hidden = model["frozen"](model["first"](torch.ones(2, 4)))
    loss = model["last"](hidden).sum()
    weight = model["first"].weight
    [both_uses] = torch.autograd.grad(loss, weight, retain_graph=True)
    loss.backward()
    debugger.step(0)
    assert list(histograms(emitter)) == ["first.weight", "first.bias", "last.bias"]
    [alone] = summarize([both_uses])
    assert histograms(emitter)["first.weight"].mean == pytest.approx(alone.mean, rel=1e-12)
    assert debugger.aliases == {"first.weight": ("last.weight",)}
    assert (len(debugger.watch.roles().frozen), debugger.missing_gradients) == (2, 2)


def test_sparse_gradients_of_embeddings_are_measured_by_their_values():
    model = nn.Sequential(nn.Embedding(100, 4, sparse=True), nn.Linear(4, 1))
    debugger, emitter = watched(model)
    model(torch.tensor([[3, 3, 9]])).sum().backward()
    debugger.step(0)
    [expected] = summarize([model[0].weight.grad.coalesce().values()])
    assert histograms(emitter)["0.weight"].count == expected.count == 8
    assert histograms(emitter)["0.weight"].mean == pytest.approx(expected.mean, rel=1e-12)


def test_a_step_without_any_gradient_is_said_once_and_counted(caplog):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    debugger, emitter = watched(model, optimizer, updates=True)
    with caplog.at_level(logging.WARNING):
        assert [debugger.step(step) for step in range(3)] == [None] * 3
        optimizer.step()
    assert (debugger.steps_without_gradients, len(caplog.records), emitter.artifacts) == (3, 1, [])
    assert "step 0: no parameter has a gradient; expected backward() before a step" in caplog.text


def test_a_measurement_that_was_made_already_is_used():
    model, debugger, emitter = watched_network()
    backward(model)
    table = measure([parameter.grad for parameter in model.parameters()]).resolve()
    assert debugger.step(0, table) is table
    assert_gradients(emitter, of(model))
    with pytest.raises(HistoryError, match="3 summaries for 4 gradients; expected one for each"):
        debugger.step(1, table.select([0, 1, 2]))


def train(watch, *, steps=8, scaled=False):
    """Returns all that a training leaves behind: losses, weights, optimizer state, random numbers."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    scaler = GradScaler("cpu", init_scale=1024.0, enabled=scaled)
    debugger = watch(model, optimizer, scaler)
    losses = []
    for step in range(steps):
        optimizer.zero_grad()
        loss = model(batch(step)).square().sum()
        scaler.scale(loss).backward()
        if debugger is not None:
            debugger.step(step)
        scaler.step(optimizer)
        scaler.update()
        losses.append(loss.item())
    if debugger is not None:
        debugger.close()
    state = [*model.state_dict().values(), *(v for s in optimizer.state_dict()["state"].values() for v in s.values())]
    flags = [(module.training, hook_count(module)) for module in model.modules()]
    requires = [parameter.requires_grad for parameter in model.parameters()]
    hooks = [len(optimizer._optimizer_step_pre_hooks), len(optimizer._optimizer_step_post_hooks)]
    return losses, state, torch.get_rng_state(), (flags, requires, hooks, scaler.state_dict())


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("scaled", [False, True])
def test_training_is_bit_identical_with_everything_measured(deterministic, scaled):
    def watch(model, optimizer, scaler):
        return watched(
            model, optimizer, scaler=scaler, weights=True, updates=True, optimizer_state=True, histogram_every=3
        )[0]

    torch.use_deterministic_algorithms(deterministic)
    try:
        plain = train(lambda *_: None, scaled=scaled)
        losses, state, random_state, rest = train(watch, scaled=scaled)
    finally:
        torch.use_deterministic_algorithms(mode=False)
    assert (losses, rest) == (plain[0], plain[3])
    assert all(torch.equal(one, other) for one, other in zip(state, plain[1], strict=True))
    assert torch.equal(random_state, plain[2])


def test_the_model_can_be_saved_pickled_and_copied_while_it_is_watched():
    model = network()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    debugger, _ = watched(model, optimizer, weights=True, updates=True, optimizer_state=True)
    backward(model)
    debugger.step(0)
    saved = io.BytesIO()
    torch.save({"model": model.state_dict(), "optimizer": optimizer.state_dict()}, saved)
    for twin in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert all(torch.equal(one, other) for one, other in zip(twin.parameters(), model.parameters(), strict=True))


class Lagging:
    """A measurement on a device that finishes when it is told to."""

    def __init__(self, measured):
        self._measured = measured
        self.finished = False

    def ready(self):
        return self.finished

    def resolve(self):
        self.finished = True
        return self._measured.resolve()


def test_what_a_device_still_computes_is_recorded_later_under_its_own_step(monkeypatch):
    pending = []

    def lag(tensors, scale):
        pending.append(Lagging(measure([tensor.clone() for tensor in tensors])))
        return pending[-1]

    monkeypatch.setattr("debuggers.gradients.measurement.measure_unscaled", lag)
    model, debugger, emitter = watched_network()
    for step in range(3):
        backward(model)
        assert debugger.step(step) is None
    assert not any(measurement.finished for measurement in pending)
    assert emitter.artifacts == []
    pending[0].finished = True
    backward(model)
    debugger.step(3)
    assert {a.step for a in emitter.artifacts} == {0}
    assert debugger.analyze_gradient_flow().steps == 4
    assert debugger.history.steps.tolist() == [0, 1, 2, 3]
    times = [a.time_ns for a in emitter.artifacts if a.name == "total_norm/gradients"]
    assert times == sorted(set(times))


def test_memory_is_bounded():
    model, debugger, _ = watched_network(max_gradient_history=5, histogram_every=4)
    for step in range(20):
        backward(model)
        debugger.step(step)
    assert debugger.history.steps.tolist() == [15, 16, 17, 18, 19]
    assert len(debugger._arrivals._waiting) == 0


def test_layers_may_be_recorded_by_hand():
    debugger, emitter = watched(None)
    for scale in (1.0, 2.0):
        debugger.record_gradient_flow("layer_1", [3 * scale, 4 * scale])
        debugger.record_gradient_flow("layer_2", np.array([[6.0, 8.0]]) * scale)
        debugger.record_gradient_flow("layer_3", torch.tensor([0.0, 1.0], requires_grad=True) * scale, step=7)
    steps, norms = debugger.history.series("layer_2")
    assert (steps.tolist(), norms.tolist()) == ([0, 1], [10.0, 20.0])
    assert debugger.history.series("layer_3")[0].tolist() == [7]
    norms = [(a.name, a.step, a.value) for a in emitter.artifacts if a.kind == "scalar"]
    assert ("gradient_norm/layer_1", 1, 10.0) in norms
    assert histograms(emitter)["layer_2"].count == 2
    analysis = debugger.analyze_gradient_flow()
    assert analysis.overall_health == "healthy"
    assert [layer.name for layer in analysis.layers] == ["layer_1", "layer_2", "layer_3"]


@pytest.mark.parametrize(
    "gradients",
    [
        (3, -4.0), [np.float32(3), True, math.sqrt(15)], -5.0, np.array([4, 3])[::-1], np.frombuffer(b"\3\4", np.uint8),
        torch.tensor([3.0, 4.0]).bfloat16(), [torch.tensor(3.0), torch.tensor(4.0)],
    ],
)  # fmt: skip
@pytest.mark.filterwarnings("error")
def test_what_holds_numbers_may_be_recorded(gradients):
    debugger = GradientDebugger()
    debugger.record_gradient_flow("layer", gradients)
    assert debugger.history.series("layer")[1].tolist() == [pytest.approx(5.0, rel=1e-12)]


@pytest.mark.parametrize("gradients", [[math.nan, math.nan], [3.0, math.inf]])
def test_the_norm_of_a_recorded_layer_is_nan_where_an_element_is_not_finite(gradients):
    debugger, emitter = watched(None)
    debugger.record_gradient_flow("layer", gradients)
    (norm,) = [a.value for a in emitter.artifacts if a.name == "gradient_norm/layer"]
    assert math.isnan(norm)


@pytest.mark.parametrize(
    "gradients",
    ["nothing", ["a"], b"bytes", None, [None], {"a": 1}, [[1], [2, 3]], [], [[]], np.empty((0, 3)), torch.empty(0)],
)
def test_what_holds_no_numbers_is_refused_and_named(gradients):
    debugger = GradientDebugger()
    with pytest.raises(ArtifactError, match="layer_1"):
        debugger.record_gradient_flow("layer_1", gradients)
    assert debugger.history.names == ()


def test_a_finding_is_one_alert():
    model, debugger, emitter = watched_network()
    for step in range(5):
        backward(model, lambda outputs: outputs.sum() * math.nan)
        debugger.step(step)
    assert [(a.name, a.level, a.step) for a in emitter.artifacts if a.kind == "alert"] == [
        ("non_finite_gradient", "error", 0)
    ]


def test_modules_are_summed_up_in_the_analysis():
    model, debugger, _ = watched_network()
    backward(model)
    debugger.step(0)
    modules = {module.path: module.last_norm for module in debugger.analyze_gradient_flow().modules}
    layer = math.hypot(*(parameter.grad.double().norm().item() for parameter in model[3].parameters()))
    assert modules["3"] == pytest.approx(layer, rel=1e-12)
    assert modules[""] == pytest.approx(math.hypot(modules["0"], modules["3"]), rel=1e-12)


def test_a_failure_inside_stops_no_training(monkeypatch):
    model, debugger, emitter = watched_network(on_error="isolate")
    backward(model)
    monkeypatch.setattr("debuggers.gradients.measurement.measure_unscaled", lambda *_: 1 / 0)
    assert debugger.step(0) is None
    assert [(a.kind, a.name) for a in emitter.artifacts] == [("alert", "debugger_failed")]


def test_after_close_nothing_is_measured():
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with watched(model, optimizer, updates=True)[0] as debugger:
        backward(model)
    assert debugger.step(0) is None
    optimizer.step()
    debugger.close()
    assert len(debugger.history.steps) == 0


def test_a_wrong_step_is_refused_at_the_callers_line():
    with pytest.raises(ArtifactError, match="step"):
        watched(network())[0].step(-1)
