"""The signals of real trainings, as a session collects them."""

import numpy as np
import pytest
import torch
from digits_data import digits_data
from torch import nn

import stepscope

pytestmark = pytest.mark.filterwarnings("ignore")


@pytest.fixture(scope="module")
def digits():
    images, labels = digits_data()
    return torch.tensor(images, dtype=torch.float32) / 16, torch.tensor(labels)


def network():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(64, 32), nn.ReLU(), nn.Linear(32, 10))


def train(data, steps, *, model=None, told=True, run=None, shuffled=True, optimizer=torch.optim.SGD, **settings):
    """Returns the evidence of a training on digits, and its model."""
    inputs, labels = data
    model = network() if model is None else model
    stepped = optimizer(model.parameters(), lr=0.1)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(1)) if shuffled else labels.argsort()
    config = stepscope.DebugConfig(**settings)
    with stepscope.DebugSession(model, stepped, run=run, config=config, on_error="raise") as session:
        for number in range(steps):
            rows = order[torch.arange(number * 32, number * 32 + 32) % len(order)]
            stepped.zero_grad()
            loss = nn.functional.cross_entropy(model(inputs[rows]), labels[rows])
            loss.backward()
            session.step(loss, targets=labels[rows] if told else None)
            stepped.step()
        return session.evidence(), model


def test_a_healthy_training_has_the_signals_of_its_batches(digits):
    evidence, _ = train(digits, 61)
    sampled = [*range(10), 11, 22, 33, 44, 55]
    assert evidence["inputs/mean"].steps.tolist() == sampled
    assert 0.2 < evidence["inputs/mean"].values.mean() < 0.4
    assert (evidence["inputs/min"].values == 0).all() and (evidence["inputs/max"].values == 1).all()
    assert (evidence["inputs/batch_size"].values == 32).all()
    assert not evidence["inputs/repeated"].values[:10].any()
    assert evidence["inputs/duplicates"].values.max() == 0
    assert evidence["targets/classes_so_far"].values[-1] == 10
    assert evidence["baseline_loss"].values[-1] == pytest.approx(np.log(10), abs=0.05)
    assert evidence["accuracy"].values[-1] > 0.6 > evidence["accuracy"].values[0]
    assert 0.3 < evidence["targets/between_batches"].values[-1] < 3
    assert len(evidence["loss"]) == len(evidence["total_norm/gradients"]) == len(evidence["step_ms"]) == 61
    assert (evidence["learning_rate"].values == 0.1).all()


def test_what_the_loop_does_not_tell_is_found_in_the_model_and_in_the_graph_of_its_loss(digits):
    found, _ = train(digits, 3, told=False)
    told, _ = train(digits, 3)
    for name in ("inputs/mean", "outputs/std", "targets/mean", "accuracy", "baseline_loss"):
        assert len(found[name]) == 3
        assert found[name].values == pytest.approx(told[name].values)
    assert found["backward_passes"].values.tolist() == [1, 1, 1]


def test_embeddings_are_not_compared_with_the_classes_of_a_contrastive_loss(digits):
    torch.manual_seed(0)
    model = nn.Linear(64, 16)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for rows in torch.randperm(len(digits[0])).split(8)[:10]:
            codes = nn.functional.normalize(model(torch.cat([digits[0][rows], digits[0][rows] + 0.1])))
            places = torch.arange(len(codes)).roll(len(rows))
            loss = nn.functional.cross_entropy((codes @ codes.T)[:, : len(codes) - 1] / 0.2, places.clamp(max=14))
            optimizer.zero_grad()
            loss.backward()
            session.step()
            optimizer.step()
        evidence = session.evidence()

    assert len(evidence["targets/classes"]) == 10
    assert len(evidence["accuracy"].finite) == 0


def test_values_have_the_variance_of_the_targets_as_baseline_at_every_sampled_step(digits):
    model, goals = nn.Linear(64, 1), digits[1].float()[:, None]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(21):
            optimizer.zero_grad()
            loss = nn.functional.mse_loss(model(digits[0]), goals)
            loss.backward()
            session.step(loss, targets=goals)
            optimizer.step()
        evidence = session.evidence()
    assert evidence["baseline_loss"].steps.tolist() == [*range(10), 11]
    assert evidence["baseline_loss"].values == pytest.approx(float(goals.var(correction=0)), rel=1e-4)
    assert evidence["correlation"].values[-1] > evidence["correlation"].values[0]
    assert not len(evidence["accuracy"])


def test_batches_of_one_class_are_told_from_shuffled_ones(digits):
    evidence, _ = train(digits, 31, shuffled=False)
    assert evidence["targets/between_batches"].values[-1] > 10


def test_sgd_goes_down_the_gradient_and_by_the_learning_rate(digits):
    evidence, _ = train(digits, 12)
    assert evidence["descent_cosine"].values == pytest.approx(1, abs=1e-3)
    slopes = evidence.of_tensors("gradient_rms")["0.weight"].values[:10]
    weights = evidence.of_tensors("weight_rms")["0.weight"].values[:10]
    ratios = evidence.of_tensors("parameter_update_ratio")["0.weight"].values[:10]
    assert ratios == pytest.approx(0.1 * slopes / weights, rel=1e-3)
    # Those after the first ten are pairs: of the sampled step and of the one after it.
    assert evidence["gradient_cosine"].steps.tolist() == [*range(1, 10), 10, 11]


def test_a_run_holds_the_signals_by_their_names(digits, tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        evidence, _ = train(digits, 11, run=run)
    record = stepscope.read_run(tmp_path / "run")
    for name in ("inputs/mean", "accuracy", "gradient_cosine", "baseline_loss"):
        assert record.scalars(f"diagnosis/{name}").values == pytest.approx(evidence[name].values)
    stored = record.scalars("diagnosis/weight_rms/0.weight").values
    assert stored == pytest.approx(evidence.of_tensors("weight_rms")["0.weight"].values)


def test_without_diagnosis_nothing_of_it_is_collected(digits):
    evidence, _ = train(digits, 3, diagnosis=False)
    assert not evidence.series and not evidence.tensors


def test_a_training_is_the_same_with_signals_and_without_a_session(digits):
    _, watched = train(digits, 60)
    inputs, labels = digits
    plain = network()
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    order = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(1))
    for number in range(60):
        rows = order[torch.arange(number * 32, number * 32 + 32) % len(order)]
        optimizer.zero_grad()
        nn.functional.cross_entropy(plain(inputs[rows]), labels[rows]).backward()
        optimizer.step()
    assert all(map(torch.equal, plain.parameters(), watched.parameters()))


@pytest.mark.parametrize("clips", [True, False])
def test_a_loop_that_clips_is_told_from_one_that_does_not(digits, clips):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(digits[0][:32]), digits[1][:32]).backward()
            session.step()
            if clips:
                nn.utils.clip_grad_norm_(model.parameters(), 0.01)
            optimizer.step()
        evidence = session.evidence()
    assert len(evidence["clipped_norm"]) == (3 if clips else 0)
    if clips:
        assert evidence["clipped_norm"].values == pytest.approx(0.01, rel=1e-3)
        assert evidence["unclipped_norm"].values == pytest.approx(evidence["total_norm/gradients"].values, rel=1e-4)


class Functional(nn.Module):
    def __init__(self):
        super().__init__()
        self.dead, self.flat, self.end = nn.Linear(64, 32), nn.Linear(32, 16), nn.Linear(16, 10)
        with torch.no_grad():
            self.dead.bias.fill_(-100)
            self.flat.bias.fill_(50)
            self.end.weight[1:] = self.end.weight[0]

    def forward(self, inputs):
        return self.end(torch.tanh(self.flat(nn.functional.relu(self.dead(inputs)))))


def test_dead_and_saturated_units_show_where_activations_are_functions(digits):
    evidence, _ = train(digits, 2, model=Functional())
    assert evidence.of_tensors("dead_units")["dead"].values.tolist() == [1, 1]
    assert set(evidence.of_tensors("dead_units")) == {"dead"}
    assert evidence.of_tensors("saturated")["flat"].values.tolist() == [1, 1]
    assert evidence.of_tensors("output_batch_std")["end"].values[0] == pytest.approx(0, abs=1e-6)
    similar = evidence.of_tensors("unit_similarity")
    assert (similar["end.weight"].values[0], similar["flat.weight"].values[0]) == (1, 0)


@pytest.mark.parametrize(("rows", "alike"), [(1, False), (3, False), (4, False), (8, True)])
def test_units_are_judged_by_several_rows_that_differ(rows, alike):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(6, 50), nn.ReLU(), nn.Linear(50, 1))
    with stepscope.DebugSession(model) as session:
        model((torch.ones if alike else torch.randn)(rows, 6)).sum().backward()
        session.step()
        found = session.evidence().of_tensors("dead_units")
    assert bool(found) == (rows >= 4 and not alike)


class Rectified(nn.Module):
    """Half of the units are dead in ``first``, whose output is changed in place before it is rectified, or not."""

    def __init__(self, *, changed, inplace):
        super().__init__()
        self.first, self.second, self.changed = nn.Linear(64, 10), nn.ReLU(inplace=inplace), changed
        with torch.no_grad():
            self.first.weight.fill_(1e-3)
            self.first.bias.copy_(torch.tensor([-1.0, 1.0] * 5))

    def forward(self, inputs):
        outputs = self.first(inputs)
        return self.second(outputs.sub_(2.0) if self.changed else outputs)


@pytest.mark.parametrize("inplace", [False, True])
@pytest.mark.parametrize(("changed", "share"), [(False, 0.5), (True, 1.0)])
def test_a_rectifier_is_judged_by_what_it_was_given(digits, changed, share, inplace):
    evidence, _ = train(digits, 1, model=Rectified(changed=changed, inplace=inplace))
    assert evidence.of_tensors("dead_units")["second"].values.tolist() == [share]


class Passing(nn.Module):
    """Returns what ``first`` does by way of a layer that does nothing, changed in place before it, or not."""

    def __init__(self, *, changed):
        super().__init__()
        self.first, self.same, self.changed = nn.Linear(64, 10), nn.Dropout(0.0), changed

    def forward(self, inputs):
        outputs = self.first(inputs)
        return self.same(outputs.add_(3.0) if self.changed else outputs)


@pytest.mark.parametrize(("changed", "more"), [(False, 0.0), (True, 3.0)])
def test_a_layer_that_returns_what_it_was_given_is_described_as_that_is_then(digits, changed, more):
    means = train(digits, 1, model=Passing(changed=changed))[0].of_tensors("output_mean")
    assert means["same"].values == pytest.approx(means["first"].values + more, abs=1e-6)


def test_layers_memory_and_waiting_are_there_at_sampled_steps(digits):
    evidence, model = train(digits, 13)
    assert evidence.of_tensors("output_std")["0"].steps.tolist() == [*range(10), 11]
    assert 0.2 < evidence.of_tensors("output_zeros")["1"].values[0] < 0.8
    assert evidence.of_tensors("dead_units")["1"].values[0] < 0.3
    assert (evidence["process_mb"].values > 10).all()
    assert ((evidence["data_share"].values >= 0) & (evidence["data_share"].values <= 1)).all()
    assert not any("_compiled_call_impl" in vars(module) for module in model.modules())


class Mixed(nn.Module):
    """Takes a mapping with texts in it, and returns a loss beside its logits."""

    def __init__(self):
        super().__init__()
        self.inner = network()

    def forward(self, batch):
        logits = self.inner(batch["pixels"])
        return {"loss": logits.square().mean(), "logits": logits}


def test_nests_are_looked_through(digits):
    model = Mixed()
    optimizer = torch.optim.Adam(model.parameters())
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        batch = {"pixels": digits[0][:8], "names": ["a"] * 8}
        outputs = model(batch)
        outputs["loss"].backward()
        session.step(outputs["loss"], inputs=batch, outputs=outputs, targets=[None, digits[1][:8]])
        optimizer.step()
    evidence = session.evidence()
    assert evidence["inputs/batch_size"].values.tolist() == [8]
    assert len(evidence["outputs/batch_std"]) == len(evidence["accuracy"]) == 1


@pytest.mark.parametrize("name", ["inputs", "outputs", "targets"])
def test_what_holds_no_tensor_is_refused_by_its_name(name):
    expected = pytest.raises(stepscope.SessionError, match=f"{name} is 'abc', of type str; expected a tensor")
    with stepscope.DebugSession(network(), on_error="raise") as session, expected:
        session.step(0.1, **{name: "abc"})


def test_a_validation_is_recorded_and_layers_in_training_mode_are_counted(digits, tmp_path):
    model = nn.Sequential(nn.Linear(64, 10), nn.Dropout(0.5))
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        stepscope.DebugSession(model, run=run, on_error="raise") as session,
    ):
        session.step(0.5)
        with session.validating():
            model(digits[0][:4])
        session.validation(float("nan"), metrics={"accuracy": 0.5})
        session.step(0.5)
        model.eval()
        with session.validating():
            model(digits[0][:4])
        with pytest.raises(stepscope.ArtifactError, match="validation/f1"):
            session.validation(0.1, metrics={"f1": "high"})
        with pytest.raises(stepscope.SessionError, match="neither a loss nor metrics"):
            session.validation()
        facts = session.evidence().facts
        assert (facts.validations, facts.train_validations) == (2, 1)
    assert np.isnan(stepscope.read_run(tmp_path / "run").scalars("validation/loss").values).tolist() == [True]
    assert session.evidence()["validation/accuracy"].values.tolist() == [0.5]


def test_a_training_on_the_meta_device_fails_nowhere_and_is_not_called_healthy(caplog):
    model = network().to("meta")
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer, on_error="raise") as session:
        for _ in range(3):
            optimizer.zero_grad()
            targets = torch.empty(8, dtype=torch.int64, device="meta")
            nn.functional.cross_entropy(model(torch.empty(8, 64, device="meta")), targets).backward()
            session.step()
            optimizer.step()
    report = session.report()
    assert caplog.text.count("meta device") == 1
    assert not report.causes
    assert report.summary().startswith("Verdict: unknown")


@pytest.mark.parametrize("shift", [0, 1])
def test_classes_that_are_not_those_that_the_loss_compares_have_no_accuracy(digits, shift):
    """A language model is often told its inputs as labels, and shifts them by itself."""
    model, (inputs, labels) = network(), digits
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer) as session:
        for rows in torch.arange(96).split(32):
            optimizer.zero_grad()
            outputs = model(inputs[rows])
            loss = nn.functional.cross_entropy(outputs, labels[rows])
            loss.backward()
            session.step(loss, outputs=outputs, targets=labels[rows].roll(shift))
            optimizer.step()
        evidence = session.evidence()
    assert len(evidence["targets/mean"].finite) == 3
    assert len(evidence["accuracy"].finite) == (0 if shift else 3)


def test_similarities_have_as_many_classes_as_a_batch_has_rows(digits):
    """A contrastive loss chooses each row's own pair among all: a constant output has log 32, whatever codes have."""
    model, (inputs, _) = network(), digits
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.DebugSession(model, optimizer) as session:
        for rows in torch.arange(96).split(32):
            optimizer.zero_grad()
            codes = model(inputs[rows])
            nn.functional.cross_entropy(codes @ codes.T, torch.arange(32)).backward()
            session.step()
            optimizer.step()
        evidence = session.evidence()
    assert evidence["baseline_loss"].values == pytest.approx(np.log(32))
    assert evidence["targets/classes"].values == pytest.approx(32)


@pytest.mark.parametrize("tells", [False, True], ids=["unchanged", "told"])
def test_of_several_passes_outputs_are_compared_with_the_targets_of_their_own(digits, tells):
    """In a network that knows the digits, whose next micro-batch has other ones."""
    torch.manual_seed(0)
    model, (inputs, labels) = network(), digits
    trained = torch.optim.Adam(model.parameters(), lr=0.01)
    for _ in range(200):
        trained.zero_grad()
        nn.functional.cross_entropy(model(inputs), labels).backward()
        trained.step()
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(3):
            optimizer.zero_grad()
            for rows in torch.arange(128).split(32):
                outputs = model(inputs[rows])
                loss = nn.functional.cross_entropy(outputs, labels[rows]) / 4
                loss.backward()
            if tells:
                session.step(loss, outputs=outputs, targets=labels[rows])
            optimizer.step()
        accuracy = session.evidence()["accuracy"].finite
    assert len(accuracy) >= 2
    assert float(accuracy.values.min()) > 0.8


@pytest.mark.parametrize("change", ["none", "negated", "replaced", "half", "noise"])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_gradients_that_a_loop_turns_are_told_from_those_that_it_scales(digits, change, dtype):
    model = network().to(dtype)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    with stepscope.watch(model, optimizer) as session:
        for _ in range(3):
            optimizer.zero_grad()
            nn.functional.cross_entropy(model(digits[0][:32].to(dtype)), digits[1][:32]).backward(create_graph=True)
            for parameter in model.parameters():
                gradient = parameter.grad.detach()
                if change == "negated":
                    gradient.neg_()
                elif change == "half":
                    gradient.mul_(0.5)
                elif change == "noise":
                    gradient.copy_(torch.randn_like(gradient))
                elif change == "replaced":
                    parameter.grad = -gradient
            optimizer.step()
        cosines = session.evidence()["turned_cosine"].values
    expected = {"negated": -1.0, "replaced": -1.0}.get(change, 0.0)
    assert len(cosines) == (0 if change in {"none", "half"} else 3)
    assert cosines == pytest.approx(expected, abs=1e-3 if expected else 0.5)
    assert session.report().failures == {}
