"""Outputs of layers, and gradients with respect to them, are measured as they are, and the run is left alone."""

import copy
import dataclasses
import io
import math
import pickle

import numpy as np
import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch.utils import checkpoint as checkpointing
from torch.utils.checkpoint import checkpoint
from torch_parts import Applies
from tracker_adapters.testing import MemoryEmitter
from unusual_outputs import Wrapper

from debuggers.activations import output_rows
from debuggers.activations.monitor import ActivationMonitor
from debuggers.activations.recording import MAX_CALLS
from debuggers.measurement.measure import measure


class Watched:
    """An ActivationMonitor whose tables are kept as ``{name: summary}`` by step."""

    def __init__(self, model, **options):
        self.emitter = MemoryEmitter()
        self.steps = {}
        self.monitor = ActivationMonitor(
            model, emitter=self.emitter, on_table=self.take, on_error=options.pop("on_error", "raise"), **options
        )

    def take(self, step, names, table):
        assert step not in self.steps
        self.steps[step] = dict(zip(names, table, strict=True))

    def __call__(self, forward, step=0):
        with self.monitor.step(step):
            result = forward()
        self.monitor.close()
        return result

    def histograms(self, group):
        return {
            a.name.removeprefix(f"{group}/"): a
            for a in self.emitter.artifacts
            if a.kind == "histogram" and a.name.startswith(f"{group}/")
        }

    def scalars(self):
        return {a.name: a.value for a in self.emitter.artifacts if a.kind == "scalar"}


def same(summary, values):
    """Whether a summary is that of these values, by a float64 computation."""
    x = values.detach().double().numpy().ravel()
    assert summary.count == x.size
    assert (summary.min, summary.max) == (x.min(), x.max())
    assert math.isclose(summary.mean, x.mean(), rel_tol=1e-9, abs_tol=1e-12)
    assert math.isclose(math.sqrt(summary.m2 / x.size), x.std(), rel_tol=1e-7, abs_tol=1e-9)
    assert summary.zero == (x == 0).sum()
    return True


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3))


def batch(rows=4, columns=6):
    return torch.randn(rows, columns, generator=torch.Generator().manual_seed(1))


def test_every_leaf_is_measured_and_emitted():
    model, x = network(), batch()
    watched = Watched(model)
    watched(lambda: model(x), step=7)
    hidden = model[0](x)
    summaries = watched.steps[7]
    assert list(summaries) == ["0", "1", "2"]
    assert same(summaries["0"], hidden)
    assert same(summaries["1"], hidden.relu())
    assert same(summaries["2"], model(x))
    scalars = watched.scalars()
    assert math.isclose(scalars["activation_norm/1"], hidden.relu().norm().item(), rel_tol=1e-6)
    assert scalars["activation_zero_fraction/1"] == (hidden <= 0).double().mean().item()
    assert {a.step for a in watched.emitter.artifacts} == {7}
    assert watched.histograms("activations")["0"].count == 20


def test_a_value_is_that_of_the_moment_before_an_in_place_change():
    torch.manual_seed(0)
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.ReLU(inplace=True))
    x = torch.randn(2, 1, 6, 6)
    watched = Watched(model)
    watched(lambda: model(x))
    assert same(watched.steps[0]["0"], model[0](x))
    assert same(watched.steps[0]["1"], model[0](x).relu())


@pytest.mark.parametrize("mode", [torch.no_grad, torch.inference_mode])
def test_a_module_that_returns_its_input_is_measured_as_it_is_then(mode):
    double, again = Applies(lambda x: x.mul_(2)), Applies(lambda x: x.mul_(2))
    model = nn.Sequential(nn.Linear(6, 5), nn.Dropout(0.0), double, again, nn.Identity())
    x = batch()
    watched = Watched(model)
    with mode():
        watched(lambda: model(x))
    hidden = model[0](x)
    expected = [hidden, hidden, hidden * 2, hidden * 4, hidden * 4]
    assert all(map(same, watched.steps[0].values(), expected))


class Reuse(nn.Module):
    def __init__(self, calls):
        super().__init__()
        self.cell, self.calls = nn.Linear(3, 3), calls
        self.alias = self.cell

    def forward(self, x):
        for _ in range(self.calls):
            x = self.cell(x)
        return x


def test_several_calls_have_an_index_and_all_aliases_are_known():
    model, x = Reuse(3), batch(2, 3)
    watched = Watched(model)
    watched(lambda: model(x))
    assert list(watched.steps[0]) == ["cell", "cell:1", "cell:2"]
    assert same(watched.steps[0]["cell:1"], model.cell(model.cell(x)))
    assert watched.monitor.aliases == {"cell": ("alias",)}


def test_calls_beyond_the_limit_are_counted():
    model = Reuse(MAX_CALLS + 5)
    watched = Watched(model)
    watched(lambda: model(batch(2, 3)))
    assert len(watched.steps[0]) == MAX_CALLS
    assert watched.monitor.skipped_calls == 5


def test_accumulated_forward_passes_are_merged():
    model, x = network(), batch(8)
    watched = Watched(model, gradients=True)
    watched(lambda: [model(part).sum().backward() for part in x.split(2)])
    assert list(watched.steps[0]) == ["0", "1", "2"]
    assert same(watched.steps[0]["1"], model[:2](x))
    assert watched.histograms("activation_gradients")["1"].count == 40


@dataclasses.dataclass
class Output:
    logits: torch.Tensor
    extra: dict


def test_tensors_in_structures_are_numbered_and_a_single_one_is_not():
    structured = Applies(lambda x: Output(logits=x * 2, extra={"a": [x + 1], "b": "text"}))
    single = Applies(lambda x: {"only": x * 3})
    model = nn.ModuleDict({"lstm": nn.LSTM(3, 4), "structured": structured, "single": single})
    x = torch.randn(5, 2, 3)
    watched = Watched(model)
    watched(lambda: [model[name](x) for name in model])
    assert list(watched.steps[0]) == ["lstm.0", "lstm.1", "lstm.2", "structured.0", "structured.1", "single"]
    outputs, (hidden, cell) = model["lstm"](x)
    assert all(map(same, watched.steps[0].values(), [outputs, hidden, cell, x * 2, x + 1, x * 3]))


def test_gradients_with_respect_to_outputs():
    model, x = network(), batch()
    watched = Watched(model, gradients=True)
    watched(lambda: model(x).square().sum().backward())
    hidden = model[0](x)
    hidden.retain_grad()
    active = hidden.relu()
    active.retain_grad()
    out = model[2](active)
    out.retain_grad()
    out.square().sum().backward()
    got = watched.histograms("activation_gradients")
    for name, tensor in (("0", hidden), ("1", active), ("2", out)):
        reference = tensor.grad.double().numpy()
        assert math.isclose(got[name].mean, reference.mean(), rel_tol=1e-9, abs_tol=1e-12)
        assert (got[name].min, got[name].max) == (reference.min(), reference.max())
        assert math.isclose(
            watched.scalars()[f"activation_gradient_norm/{name}"], np.linalg.norm(reference), rel_tol=1e-6
        )


def gradient_norms(model, steps, *, attach):
    """The norms of the gradients that a monitor saw; ``attach(step, model)`` calls the model."""
    watched = Watched(model, gradients=True)
    for step in range(steps):
        with watched.monitor.step(step):
            output = attach(step, model)
            output.square().sum().backward()
    watched.monitor.close()
    norms = {}
    for artifact in watched.emitter.artifacts:
        if artifact.kind == "scalar" and artifact.name.startswith("activation_gradient_norm/"):
            norms.setdefault(artifact.name.rpartition("/")[2], []).append(artifact.value)
    return norms, watched.monitor.lost_outputs


def test_gradients_wait_for_each_other_once_they_were_seen_to_stay_as_they_are(monkeypatch):
    calls = []
    monkeypatch.setattr(output_rows, "measure", lambda tensors: calls.append(len(tensors)) or measure(tensors))
    model, x = network(), batch()
    norms, lost = gradient_norms(model, 3, attach=lambda step, model: model(x))
    assert lost == 0
    assert calls == [1] * 6 + [3, 3] * 2
    assert all(len(set(values)) == 1 for values in norms.values())
    assert list(norms) == ["2", "1", "0"]


def test_a_gradient_that_a_hook_changes_in_place_is_measured_before():
    model, x = network(), batch()

    def tripled(gradient):
        gradient.mul_(3)

    def attach(step, model):
        hidden = model[0](x)
        if step != 1:
            hidden.register_hook(tripled)
        return model[2](model[1](hidden))

    changed, lost = gradient_norms(model, 4, attach=attach)
    plain, _ = gradient_norms(model, 4, attach=lambda step, model: model(x))
    assert lost == 0
    assert changed == plain


@pytest.mark.parametrize(("dtype", "scale"), [(torch.bfloat16, 2.0**16), (torch.float32, 1000.0)])
def test_the_loss_scale_is_taken_out_of_gradients(dtype, scale):
    model, x = network().to(dtype), batch().to(dtype)
    scaler = torch.amp.GradScaler("cpu", init_scale=scale)
    plain, scaled = Watched(model, gradients=True), Watched(model, gradients=True, scaler=scaler)
    plain(lambda: model(x).square().sum().backward())
    scaled(lambda: scaler.scale(model(x).square().sum()).backward())
    for name, histogram in plain.histograms("activation_gradients").items():
        got = scaled.histograms("activation_gradients")[name]
        assert math.isclose(got.mean, histogram.mean, rel_tol=1e-5, abs_tol=1e-7)
        assert math.isclose(got.max, histogram.max, rel_tol=1e-5)


def test_gradients_flow_through_in_place_modules():
    model = nn.Sequential(nn.Linear(6, 5), nn.ReLU(inplace=True), nn.Linear(5, 1))
    watched = Watched(model, gradients=True)
    watched(lambda: model(batch()).sum().backward())
    assert set(watched.histograms("activation_gradients")) == {"0", "1", "2"}


def test_outputs_without_gradients_are_counted_and_their_absence_is_said_once(caplog):
    model = network()
    watched = Watched(model, gradients=True)
    for step in range(2):
        with torch.inference_mode():
            watched(lambda: model(batch()), step)
    assert watched.monitor.without_gradient == 6
    assert set(watched.steps) == {0, 1}
    assert [record.message for record in caplog.records if "activation gradients" in record.message] == [
        "activation gradients were requested, but no output requires one: the forward pass ran under no_grad or "
        "inference_mode, or all parameters are frozen"
    ]
    model[0].requires_grad_(False)
    watched(lambda: model(batch()).sum().backward(), 2)
    assert watched.monitor.without_gradient == 8


def test_nothing_stays_on_a_parameter_that_a_module_returns():
    class Table(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self):
            return self.weight

    model = Table()
    watched = Watched(model, gradients=True)
    watched(lambda: model().sum().backward())
    assert watched.histograms("activation_gradients")["Table"].count == 2
    assert not model.weight._backward_hooks


@pytest.mark.parametrize("reentrant", [False, True])
def test_recomputation_is_not_counted_twice(reentrant):
    model, x = network(), batch().requires_grad_()
    watched = Watched(model, gradients=not reentrant)
    watched(lambda: checkpoint(model, x, use_reentrant=reentrant).sum().backward())
    assert list(watched.steps[0]) == ["0", "1", "2"]
    assert same(watched.steps[0]["1"], model[:2](x))
    assert len(watched.histograms("activation_gradients")) == (0 if reentrant else 3)


def test_selective_checkpointing_does_not_see_our_operations():
    """Its cache of outputs counts operations: one more in the first forward would shift all others."""
    model, x = nn.Sequential(nn.Linear(6, 5), nn.ReLU(), nn.Linear(5, 3), nn.ReLU()), batch()

    def gradient():
        def contexts():
            return checkpointing.create_selective_checkpoint_contexts(
                lambda ctx, op, *args, **kwargs: checkpointing.CheckpointPolicy.MUST_SAVE
            )

        return torch.autograd.grad(
            checkpoint(model, x, use_reentrant=False, context_fn=contexts).sum(), list(model.parameters())
        )

    watched = Watched(model, gradients=True)
    plain = gradient()
    assert all(map(torch.equal, plain, watched(gradient)))


def test_a_validation_within_the_step_is_not_recorded():
    model, x = network(), batch()

    def step():
        model(x)
        model.eval()
        model(x * 100)
        model.train()

    watched = Watched(model)
    watched(step)
    assert same(watched.steps[0]["0"], model[0](x))


def test_an_expected_step_begins_with_the_first_forward_pass_that_has_gradients():
    model = network()
    watched = Watched(model)
    watched.monitor.expect(3)
    model.eval()
    hooks = []
    handle = model[0].register_forward_hook(lambda *_: hooks.append(hook_count(model)))
    with torch.no_grad():
        model(batch())
    model.train()
    model(batch(rows=7)).sum().backward()
    handle.remove()
    watched.monitor.close()

    assert hooks[0] == 5  # that of this test, and one before the calls of the model and its three layers
    assert hooks[1] > 2
    assert {step: table["0"].count for step, table in watched.steps.items()} == {3: 7 * model[0].out_features}
    assert hook_count(model) == 0


def test_an_expected_step_that_never_begins_is_none(caplog):
    model = network()
    watched = Watched(model)
    watched.monitor.expect(3)
    watched.monitor.close()

    assert not watched.steps
    assert not caplog.records
    assert hook_count(model) == 0


def test_steps_without_outputs_are_told_unless_it_is_the_first_whose_forward_pass_may_have_been_over(caplog):
    watched = Watched(network())
    told = []
    for step in range(3):
        watched.monitor.expect(step)
        watched.monitor.detach(step)  # a step ended, and nothing was called
        told.append(["no output was recorded" in record.message for record in caplog.records])

    assert told == [[], [True], [True]]


class Bypassing(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.bypassed = nn.Linear(6, 6), nn.Linear(6, 3)

    def forward(self, x):
        return nn.functional.linear(self.used(x), self.bypassed.weight)


def test_modules_that_are_bypassed_are_named():
    model = Bypassing()
    watched = Watched(model)
    watched(lambda: model(batch()))
    assert watched.monitor.uncovered == ["bypassed"]
    watched(lambda: model.bypassed(batch()), 1)
    assert watched.monitor.uncovered == ["used"]


def test_the_layers_of_a_transformer_are_covered():
    model = nn.TransformerEncoderLayer(8, 2, 16, batch_first=True)
    watched = Watched(model)
    watched(lambda: model(torch.randn(2, 3, 8)))
    assert watched.monitor.uncovered == []
    assert {"self_attn", "linear1", "norm2"} <= set(watched.steps[0])


def test_no_hooks_are_left_after_a_step_or_an_exception():
    model = network()
    watched = Watched(model)
    with pytest.raises(RuntimeError, match="stop"), watched.monitor.step(0):
        assert hook_count(model) == 4
        model(batch())
        raise RuntimeError("stop")
    assert hook_count(model) == 0
    assert list(watched.steps) == [0]
    watched.monitor.attach(1)
    watched.monitor.attach(2)
    assert hook_count(model) == 4
    watched.monitor.close()
    assert hook_count(model) == 0


def test_state_dict_pickle_and_copies_work_while_attached():
    model, x = network(), batch()
    watched = Watched(model)
    keys = list(model.state_dict())
    with watched.monitor.step(0):
        assert list(model.state_dict()) == keys
        twins = [copy.deepcopy(model), pickle.loads(pickle.dumps(model))]
        buffer = io.BytesIO()
        torch.save(model, buffer)
        for twin in twins:
            twin(x)
        model(x)
    assert list(watched.steps[0]) == ["0", "1", "2"]


class Dropped(nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 4, 3),
            nn.BatchNorm2d(4),
            nn.ReLU(inplace=True),
            nn.Dropout(0.5),
            nn.Flatten(),
            nn.Linear(64, 5),
        )

    def forward(self, x):
        return self.layers(x)


@pytest.mark.parametrize("deterministic", [False, True])
def test_training_is_bit_identical(deterministic):
    def train(watch):
        torch.manual_seed(0)
        model = Dropped()
        optimizer = torch.optim.AdamW(model.parameters())
        watched = Watched(model, gradients=True)
        losses = []
        for step in range(5):
            optimizer.zero_grad()
            x, y = torch.randn(8, 1, 6, 6), torch.randint(5, (8,))
            if watch:
                watched.monitor.attach(step)
            loss = nn.functional.cross_entropy(model(x), y)
            loss.backward()
            watched.monitor.detach()
            optimizer.step()
            losses.append(loss.detach())
        assert len(watched.steps) == (5 if watch else 0)
        state = [*losses, *model.state_dict().values(), *(p.grad for p in model.parameters()), torch.get_rng_state()]
        return state, model.training, [p.requires_grad for p in model.parameters()]

    torch.use_deterministic_algorithms(deterministic)
    try:
        (plain, *rest), (watched, *watched_rest) = train(False), train(True)
    finally:
        torch.use_deterministic_algorithms(False)
    assert all(map(torch.equal, plain, watched))
    assert rest == watched_rest


def test_what_cannot_be_measured_stops_nothing():
    model = nn.ModuleDict({"broken": Applies(Wrapper), "fc": nn.Linear(6, 2)})
    watched = Watched(model, on_error="isolate")
    watched(lambda: (model["broken"](batch()), model["fc"](batch())))
    assert list(watched.steps[0]) == ["fc"]
    (alert,) = [artifact for artifact in watched.emitter.artifacts if artifact.kind == "alert"]
    assert alert.message.startswith("recording activation 'broken' failed: ArtifactError")
    with pytest.raises(Exception, match="was freed; expected values"):
        Watched(model)(lambda: model["broken"](batch()))


def test_outputs_that_are_not_finite_are_found():
    model, x = network(), batch()
    x[0, 0] = float("nan")
    watched = Watched(model)
    watched(lambda: model(x), 4)
    assert [(finding.kind, finding.name, finding.step) for finding in watched.monitor.findings()] == [
        ("non_finite_activation", name, 4) for name in "012"
    ]


class TestCompiled:
    @pytest.fixture(autouse=True)
    def reset(self):
        torch.compiler.reset()

    def test_the_output_of_a_compiled_model_is_recorded_and_the_rest_is_named(self):
        model, x = network(), batch()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        watched = Watched(compiled)
        watched(lambda: compiled(x))
        assert list(watched.steps[0]) == ["Sequential"]
        assert same(watched.steps[0]["Sequential"], model(x))
        assert watched.monitor.uncovered == ["0", "1", "2"]

    @pytest.mark.parametrize("compiled_first", [False, True])
    def test_a_model_that_is_compiled_elsewhere_is_not_disturbed(self, compiled_first, caplog):
        model, x = network(), batch()
        compiled = torch.compile(model, backend="eager", fullgraph=True)
        if compiled_first:
            compiled(x)
        watched = Watched(model)
        for step in range(2):
            assert torch.equal(watched(lambda: compiled(x), step), model(x))
        assert watched.steps == {}
        assert watched.monitor.uncovered == ["0", "1", "2"]
        assert len([record for record in caplog.records if "no output was recorded" in record.message]) == 1

    def test_blocks_that_are_compiled_on_their_own_are_recorded(self):
        model, x = nn.Sequential(nn.Linear(6, 6), torch.compile(network(), backend="eager")), batch()
        watched = Watched(model)
        watched(lambda: model(x))
        assert list(watched.steps[0]) == ["0", "1"]
        assert same(watched.steps[0]["1"], model(x))
