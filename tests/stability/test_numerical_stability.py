"""The manager: no effect on what it watches, what it emits, its score, and wrong calls."""

import copy
import math
import warnings

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from torch.utils._python_dispatch import TorchDispatchMode
from tracker_adapters.artifacts import Histogram, Scalar
from tracker_adapters.errors import ArtifactError
from tracker_adapters.testing import MemoryEmitter

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, StabilityError


def network():
    torch.manual_seed(1)
    return nn.Sequential(nn.Linear(6, 16), nn.BatchNorm1d(16), nn.Dropout(0.3), nn.ReLU(), nn.Linear(16, 3))


def manager(*, emitter=None, max_norm=1.0, clipping_type="norm", **keywords):
    clipping = GradientClippingConfig(clipping_type=clipping_type, max_norm=max_norm)
    return NumericalStabilityManager(clipping, NaNHandlingConfig(), emitter=emitter, **keywords)


def train(before_step, *, micro_batches=1, steps=20):
    """Trains and returns everything that watching could disturb; ``before_step(model, loss, optimizer)``."""
    model = network()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
    torch.manual_seed(2)
    losses = []
    for _ in range(steps):
        optimizer.zero_grad()
        for _ in range(micro_batches):
            inputs = torch.randn(8, 6) * 3
            loss = nn.functional.cross_entropy(model(inputs), torch.randint(3, (8,))) / micro_batches
            loss.backward()
        before_step(model, loss, optimizer)
        optimizer.step()
        losses.append(loss.item())
    return losses, [p.detach().clone() for p in model.state_dict().values()], torch.get_rng_state(), model.training


def assert_same(one, other):
    assert one[0] == other[0]
    assert all(torch.equal(a, b) for a, b in zip(one[1], other[1], strict=True))
    assert torch.equal(one[2], other[2])
    assert one[3] == other[3]


@pytest.mark.parametrize("deterministic", [False, True])
@pytest.mark.parametrize("micro_batches", [1, 3])
class TestNoEffect:
    """Training is bit-identical with the manager, accumulation and deterministic mode included."""

    @pytest.fixture(autouse=True)
    def mode(self, deterministic):
        torch.use_deterministic_algorithms(deterministic)
        yield
        torch.use_deterministic_algorithms(False)

    def test_watching_without_clipping_changes_nothing(self, micro_batches):
        watch = manager(emitter=MemoryEmitter(), clipping_type="none", parameter_norms_every=1, histogram_every=1)

        watched = train(watch.step, micro_batches=micro_batches)

        assert_same(train(lambda *_: None, micro_batches=micro_batches), watched)

    def test_clipping_changes_what_clip_grad_norm_changes(self, micro_batches):
        def clip(model, *_):
            torch.nn.utils.clip_grad_norm_(model.parameters(), 0.3)

        watched = train(manager(max_norm=0.3).step, micro_batches=micro_batches)

        assert_same(train(clip, micro_batches=micro_batches), watched)


class ScalarReads(TorchDispatchMode):
    """Counts ``.item()``, ``float(tensor)`` and ``if tensor``: on a device each would wait for it."""

    def __init__(self):
        super().__init__()
        self.count = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        self.count += func in (torch.ops.aten._local_scalar_dense.default, torch.ops.aten.is_nonzero.default)
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("max_norm", [1e-3, 1e3])
def test_a_finite_step_reads_no_single_value(max_norm):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    loss = model(torch.randn(8, 6)).square().mean()
    loss.backward()

    with ScalarReads() as reads:
        manager(emitter=MemoryEmitter(), max_norm=max_norm).step(model, loss, optimizer)

    assert reads.count == 0


@pytest.fixture
def model():
    model = nn.Linear(2, 2)
    for parameter in model.parameters():
        parameter.grad = torch.ones_like(parameter)
    return model


@pytest.fixture
def optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.1)


def test_a_step_emits_its_scalars_before_clipping(model, optimizer):
    emitter = MemoryEmitter()

    manager(emitter=emitter, max_norm=0.5).step(model, torch.tensor(0.25), optimizer, step=20)

    assert all(isinstance(artifact, Scalar) and artifact.step == 20 for artifact in emitter.artifacts)
    norm = math.sqrt(6.0)
    assert {
        "stability/loss": 0.25,
        "stability/total_norm/gradients": norm,
        "stability/clip_coefficient": 0.5 / norm,
        "stability/score": 1.0,
        "stability/non_finite_gradients": 0.0,
        "stability/gradient_norm/weight": 2.0,
        "stability/gradient_norm/bias": math.sqrt(2.0),
    } == pytest.approx({artifact.name: artifact.value for artifact in emitter.artifacts}, rel=1e-5)


def test_norms_of_parameters_and_histograms_come_at_their_intervals(model, optimizer):
    emitter = MemoryEmitter()
    stability = manager(emitter=emitter, parameter_norms_every=2, histogram_every=3, max_norm=1e-3)

    for _ in range(6):
        for parameter in model.parameters():
            parameter.grad = torch.full_like(parameter, 5.0)
        stability.step(model, 0.5, optimizer)

    norms = [a.step for a in emitter.artifacts if a.name == "stability/gradient_norm/weight"]
    histograms = [a for a in emitter.artifacts if isinstance(a, Histogram) and a.name == "stability/gradients/weight"]
    assert norms == [0, 2, 4]
    assert [histogram.step for histogram in histograms] == [0, 3]
    assert histograms[1].max == 5.0, "taken before clipping"


def test_steps_are_counted_from_the_last_given_one(model, optimizer):
    stability = manager()
    stability.step(model, 0.5, optimizer)
    stability.step(model, 0.5, optimizer, step=100)
    stability.step(model, 0.5, optimizer)

    assert [record.step for record in stability.history] == [0, 100, 101]


class TestScore:
    """1 while calm, 0 on a broken step, in between after one and on a spike."""

    def scores(self, norms):
        model = nn.Module()
        model.weight = nn.Parameter(torch.zeros(1))
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        stability = manager(clipping_type="none")
        for norm in norms:
            model.weight.grad = torch.tensor([norm])
            yield stability.step(model, 0.5, optimizer)["stability_score"]

    def test_calm_steps_score_one(self):
        assert list(self.scores([1.0, 2.0] * 15)) == [1.0] * 30

    def test_a_spike_scores_the_bound_over_the_norm(self):
        bound = 1.5 + 6 * 0.5  # mean and standard deviation of 1, 2, 1, 2, …

        assert bound / 45.0 == pytest.approx(list(self.scores([*([1.0, 2.0] * 15), 45.0]))[-1])

    def test_a_broken_step_scores_zero_and_lowers_the_steps_after_it(self):
        scores = list(self.scores([*([1.0] * 19), math.nan, 1.0]))

        assert pytest.approx(scores[-2:]) == [0.0, 20 / 21]

    def test_scores_stay_between_zero_and_one(self):
        torch.manual_seed(0)
        norms = (torch.randn(300) * 20).exp().tolist()

        assert all(0.0 <= score <= 1.0 for score in self.scores(norms))


@pytest.mark.parametrize(
    "loss", [torch.tensor([0.5], requires_grad=True), torch.tensor(0.5), torch.tensor(1), 0.5, torch.tensor([[0.5]])]
)
def test_a_loss_is_any_tensor_of_one_element_or_a_number(model, optimizer, loss):
    assert float(torch.as_tensor(loss).detach()) == manager().step(model, loss, optimizer)["loss"]


@pytest.mark.parametrize(
    ("loss", "found"),
    [
        (torch.ones(4), r"tensor of shape \(4,\)"),
        (torch.ones(()) * 1j, "complex64"),
        (torch.ones((), device="meta"), "on meta"),
        ("0.5", "str '0.5'"),
        (None, "NoneType"),
    ],
)
def test_a_loss_that_is_no_real_scalar_is_refused(model, optimizer, loss, found):
    with pytest.raises(StabilityError, match=rf"the loss is .*{found}.*; expected a real scalar, such as loss.mean"):
        manager().step(model, loss, optimizer)


def test_a_wrong_step_is_refused(model, optimizer):
    with pytest.raises(ArtifactError, match="step is -1; expected an integer from 0"):
        manager().step(model, 0.5, optimizer, step=-1)


@pytest.mark.parametrize("name", ["parameter_norms_every", "histogram_every"])
def test_a_wrong_interval_is_refused(name):
    with pytest.raises(StabilityError, match=f"{name} is 0; expected an integer of at least 1, or None"):
        manager(**{name: 0})


def test_a_refused_step_leaves_gradients_scaler_and_counter_as_they_were(model, optimizer):
    stability = manager(max_norm=0.1)
    with pytest.raises(StabilityError):
        stability.step(model, torch.ones(4), optimizer)

    assert model.bias.grad.tolist() == [1.0, 1.0]
    assert stability.step(model, 0.5, optimizer)["step"] == 0


def test_an_optimizer_over_other_parameters_is_warned_about_once_and_counted(model):
    stranger = torch.optim.SGD([*model.parameters(), nn.Parameter(torch.zeros(1))], lr=0.1)
    stability = manager()

    with pytest.warns(UserWarning, match="1 of the optimizer's 3 parameters are not in Linear") as warned:
        for _ in range(2):
            stats = stability.step(model, 0.5, stranger)["clipping_stats"]

    assert len(warned) == 1
    assert __file__ == warned[0].filename
    assert (stats["parameters_outside_optimizer"], stats["parameters_outside_model"]) == (0, 1)


def test_trainable_parameters_that_the_optimizer_lacks_are_counted(model):
    stats = manager().step(model, 0.5, torch.optim.SGD([model.weight], lr=0.1))["clipping_stats"]

    assert (stats["parameters_outside_optimizer"], stats["parameters_outside_model"]) == (1, 0)


@pytest.mark.parametrize("unscaled", [False, True], ids=["one unscaled", "all unscaled"])
def test_gradients_that_the_scaler_has_not_unscaled_are_warned_of(model, unscaled):
    optimizers = [torch.optim.SGD([parameter], lr=0.1) for parameter in model.parameters()]
    scaler = torch.amp.GradScaler("cpu", init_scale=8.0)
    scaler.scale(model(torch.ones(2, model.in_features)).sum()).backward()
    if unscaled:
        for optimizer in optimizers:
            scaler.unscale_(optimizer)
    stability = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), scaler=scaler)

    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        for _ in range(2):
            stability.step(model, 0.5, optimizers[0])

    messages = [str(warning.message) for warning in caught]
    expected = f"{len(optimizers) - 1} gradients of {type(model).__name__} belong to no parameter of the optimizer"
    assert [message.partition(", so")[0] for message in messages] == ([] if unscaled else [expected])


def test_the_watched_model_can_still_be_copied(model, optimizer):
    stability = manager()
    stability.step(model, 0.5, optimizer)

    assert not hook_count(model)
    assert model.state_dict().keys() == copy.deepcopy(model).state_dict().keys()
