"""Each handling type on a poisoned step: what it does to the gradients, and what it leaves."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn
from tracker_adapters.artifacts import Alert
from tracker_adapters.testing import MemoryEmitter

from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager
from stability.gradients.measure import collect_gradients
from stability.handling.repair import replace_non_finite

NAN, INF = math.nan, math.inf


def poisoned():
    """A model of two parameters; the gradient of the first holds NaN and both infinities."""
    model = nn.ParameterDict({"bad": nn.Parameter(torch.zeros(5)), "good": nn.Parameter(torch.zeros(2))})
    model["bad"].grad = torch.tensor([NAN, INF, -INF, 3.0, -4.0])
    model["good"].grad = torch.tensor([1.0, -2.0])
    return model, torch.optim.SGD(model.parameters(), lr=1.0)


def step(model, optimizer, *, loss=0.5, emitter=None, clipping="none", **handling):
    clipping_config = GradientClippingConfig(clipping_type=clipping)
    return NumericalStabilityManager(clipping_config, NaNHandlingConfig(**handling), emitter=emitter).step(
        model, loss, optimizer
    )


def gradients(model):
    return [None if p.grad is None else p.grad.tolist() for p in model.values()]


@pytest.mark.parametrize(
    ("handling", "action", "bad", "good"),
    [
        ({"handling_type": "replace"}, "replaced", [0.0, 4.0, -4.0, 3.0, -4.0], [1.0, -2.0]),
        (
            {"handling_type": "replace", "nan_value": 7.0, "inf_value": 9.0},
            "replaced",
            [7.0, 9.0, -9.0, 3.0, -4.0],
            [1.0, -2.0],
        ),
        ({"handling_type": "gradient_zeroing"}, "zeroed", [0.0] * 5, [1.0, -2.0]),
        ({"handling_type": "gradient_scaling"}, "scaled", [0.0, 0.0, 0.0, 1.5, -2.0], [0.5, -1.0]),
        (
            {"handling_type": "gradient_scaling", "scale_factor": 0.25},
            "scaled",
            [0.0, 0.0, 0.0, 0.75, -1.0],
            [0.25, -0.5],
        ),
        ({"handling_type": "skip"}, "skipped", None, None),
        ({"handling_type": "restore"}, "skipped", None, None),
        ({"handling_type": "adaptive"}, "skipped", None, None),
        ({"handling_type": "adaptive", "adaptive_share": 0.5}, "replaced", [0.0, 4.0, -4.0, 3.0, -4.0], [1.0, -2.0]),
    ],
)
def test_what_becomes_of_the_gradients(handling, action, bad, good):
    model, optimizer = poisoned()

    stats = step(model, optimizer, **handling)["nan_stats"]

    assert stats["action"] == action
    assert gradients(model) == [bad, good]
    assert (stats["nan_count"], stats["inf_count"], stats["gradients_finite"]) == (1, 2, False), "as found"


def test_detecting_changes_nothing():
    model, optimizer = poisoned()

    assert step(model, optimizer)["nan_stats"]["action"] == "none"
    assert str(gradients(model)) == "[[nan, inf, -inf, 3.0, -4.0], [1.0, -2.0]]"


@pytest.mark.parametrize("kind", ["replace", "gradient_zeroing", "gradient_scaling"])
def test_a_loss_that_is_not_finite_leaves_finite_gradients_as_they_are(kind):
    model, optimizer = poisoned()
    model["bad"].grad = torch.ones(5)

    assert step(model, optimizer, loss=NAN, handling_type=kind)["nan_stats"]["action"] == "none"
    assert gradients(model) == [[1.0] * 5, [1.0, -2.0]]


@pytest.mark.parametrize("kind", ["skip", "restore", "adaptive"])
def test_a_loss_that_is_not_finite_is_reason_enough_to_skip(kind):
    model, optimizer = poisoned()
    model["bad"].grad = torch.ones(5)

    assert step(model, optimizer, loss=INF, handling_type=kind)["nan_stats"]["action"] == "skipped"
    assert gradients(model) == [None, None]


@pytest.mark.parametrize("kind", ["replace", "skip", "restore", "gradient_zeroing", "gradient_scaling", "adaptive"])
def test_a_good_step_is_left_as_it_is(kind):
    model, optimizer = poisoned()
    model["bad"].grad = torch.ones(5)

    assert step(model, optimizer, handling_type=kind)["nan_stats"]["action"] == "none"
    assert gradients(model) == [[1.0] * 5, [1.0, -2.0]]


def test_what_was_made_finite_is_measured_again_and_clipped():
    model, optimizer = poisoned()

    stats = step(model, optimizer, clipping="norm", handling_type="replace")["clipping_stats"]

    total = math.sqrt(4 * 16.0 - 7.0 + 5.0)  # of 0, 4, -4, 3, -4 and 1, -2
    assert total == pytest.approx(stats["total_norm"], rel=1e-6)
    assert float(model["bad"].grad[3]) == pytest.approx(3.0 / total, rel=1e-5)


def test_skipped_gradients_are_not_clipped():
    model, optimizer = poisoned()
    model["bad"].grad = torch.full((5,), 100.0)

    stats = step(model, optimizer, loss=NAN, clipping="norm", handling_type="skip")["clipping_stats"]

    assert (stats["clipped"], stats["clip_coefficient"]) == (False, 1.0)


@pytest.mark.parametrize(
    ("handling", "told"),
    [
        ({"handling_type": "detect"}, "1 NaN, 2 inf of 5)"),
        ({"handling_type": "replace"}, "of 5); replaced by finite numbers"),
        ({"handling_type": "gradient_zeroing"}, "of 5); these gradients were set to zero"),
        ({"handling_type": "gradient_scaling"}, "of 5); set to zero, and all gradients scaled down"),
        ({"handling_type": "skip"}, "of 5); the optimizer's step is skipped"),
    ],
)
def test_the_alert_says_what_was_done(handling, told):
    model, optimizer = poisoned()
    emitter = MemoryEmitter()

    step(model, optimizer, emitter=emitter, **handling)

    (alert,) = [artifact for artifact in emitter.artifacts if isinstance(artifact, Alert)]
    assert alert.message.endswith(told)


@pytest.mark.parametrize("kind", ["replace", "gradient_scaling", "gradient_zeroing"])
def test_sparse_and_complex_gradients_are_mended_too(kind):
    torch.manual_seed(0)
    model = nn.ModuleDict({"embedding": nn.Embedding(6, 2, sparse=True)})
    model.complex = nn.Parameter(torch.zeros(2, dtype=torch.complex64))
    model["embedding"](torch.tensor([1, 1, 4])).sum().backward()
    model["embedding"].weight.grad._values()[2, 0] = NAN
    model.complex.grad = torch.tensor([complex(NAN, 1.0), complex(2.0, -INF)])

    step(model, torch.optim.SGD(model.parameters()), handling_type=kind)

    assert model["embedding"].weight.grad.is_sparse
    assert model["embedding"].weight.grad.to_dense().isfinite().all()
    assert model.complex.grad.isfinite().all()


@given(
    st.lists(st.floats(width=32, allow_nan=True, allow_infinity=True), min_size=1, max_size=20),
    st.sampled_from([torch.float32, torch.bfloat16, torch.float16, torch.float64]),
)
def test_replacing_gives_finite_numbers_and_keeps_what_was_finite(values, dtype):
    model = nn.ParameterDict({"w": nn.Parameter(torch.zeros(len(values), dtype=dtype))})
    before = torch.tensor(values, dtype=dtype)
    model["w"].grad = before.clone()

    replace_non_finite(collect_gradients(model), ["w"])

    after, finite = model["w"].grad, before.isfinite()
    assert torch.equal(before[finite], after[finite])
    assert after.isfinite().all()
    largest = before[finite].abs().max() if finite.any() else torch.zeros((), dtype=dtype)
    assert (after[before == INF] == largest).all()
    assert (after[before == -INF] == -largest).all()
    assert (after[before.isnan()] == 0).all()


def test_values_beyond_the_range_of_a_dtype_are_its_largest():
    model = nn.ParameterDict({"w": nn.Parameter(torch.zeros(3, dtype=torch.float16))})
    model["w"].grad = torch.tensor([NAN, INF, -INF], dtype=torch.float16)

    replace_non_finite(collect_gradients(model), ["w"], nan_value=-1e30, inf_value=1e30)

    assert model["w"].grad.tolist() == [-65504.0, 65504.0, -65504.0]


class TestAdaptive:
    """Few elements are replaced, many or a loss skipped, and several faulty steps in a row restored."""

    def manager(self):
        config = NaNHandlingConfig(handling_type="adaptive", adaptive_restore_after=3, snapshot_every=1)
        return NumericalStabilityManager(GradientClippingConfig(clipping_type="none"), config)

    def actions(self, manager, faults):
        model = nn.ParameterList([torch.zeros(1000)])
        optimizer = torch.optim.SGD(model.parameters(), lr=1.0)
        for fault in faults:
            model[0].grad = torch.ones(1000)
            model[0].grad[: fault or 0] = NAN
            yield manager.step(model, 0.5, optimizer)["nan_stats"]["action"]
            optimizer.step()

    def test_the_action_grows_with_the_fault(self):
        faults = [0, 10, 0, 11, 0, 1, 1, 1, 1, 0]

        actions = list(self.actions(self.manager(), faults))

        assert actions == ["none", "replaced", "none", "skipped", "none", *["replaced"] * 2, *["restored"] * 2, "none"]

    def test_faulty_steps_in_a_row_survive_a_checkpoint(self):
        manager, resumed = self.manager(), self.manager()
        list(self.actions(manager, [0, 1, 1]))

        resumed.load_state_dict(manager.state_dict())

        assert list(self.actions(resumed, [1])) == ["skipped"], "the third in a row; there is no snapshot yet"
