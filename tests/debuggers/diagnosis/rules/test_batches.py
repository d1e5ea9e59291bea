"""How batches differ in their targets: sorted data, tasks in turn, pieces of series, choices of the model."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts, LossFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 120
EPOCH = 10
GROUPED = {"inputs__batch_size": 32.0, "targets__between_batches": 20.0}
NOISE = 0.01 * np.random.default_rng(0).normal(size=STEPS)


def codes(*, kind="cross_entropy", loss=None, form=None, targets=None, outputs=None, gradients=None, **signals):
    """``gradients``: the steps at which each parameter has one; ``form``: what the loss's graph shows."""
    loss = np.geomspace(2.3, 0.2, STEPS) if loss is None else loss
    found = {
        name.replace("__", "/"): Series(np.arange(STEPS), np.broadcast_to(np.asarray(values, np.float64), STEPS))
        for name, values in ({"loss": loss} | signals).items()
    }
    tensors = {name: Series(steps, np.ones(len(steps))) for name, steps in (gradients or {}).items()}
    form = LossFacts(kind=kind, reduction="mean") if form is None else form
    facts = Facts(steps=STEPS, loss=form, targets=targets, outputs=outputs)
    evidence = Evidence(series=found, tensors={"gradient_rms": tensors}, facts=facts)
    return [cause.code for cause in diagnose(evidence) if cause.is_likely]


def test_a_sorted_file_jumps_back_with_each_epoch():
    assert codes(targets__mean=np.arange(STEPS) % EPOCH, **GROUPED) == ["unshuffled_data"]


def test_batches_of_few_different_rows_differ_for_that_reason():
    means = np.arange(STEPS) % EPOCH
    assert codes(targets__mean=means, inputs__duplicates=0.82, **GROUPED) == ["duplicated_data"]
    assert codes(targets__mean=means, inputs__duplicates=0.2, **GROUPED) == ["unshuffled_data"]


def test_values_that_drift_need_not_be_sorted():
    assert codes(targets__mean=np.linspace(0, 1, STEPS) + NOISE, **GROUPED) == []


@pytest.mark.parametrize(("kind", "found"), [("mse", []), ("cross_entropy", ["unshuffled_data"])])
def test_rewards_of_0_and_1_drift_as_values_do(kind, found):
    """A critic learns them while its policy becomes better; classes are in the order of their file."""
    means = np.linspace(0, 1, STEPS) + NOISE
    assert codes(kind=kind, targets__mean=means, targets__classes=2.0, **GROUPED) == found


def test_one_batch_that_differs_is_no_order():
    means = np.ones(STEPS) + NOISE
    means[0] = 50.0
    assert codes(targets__mean=means, **GROUPED) == []


def test_the_order_of_batches_that_have_the_same_rows_says_nothing():
    again = np.minimum(np.arange(STEPS), 1.0)
    assert codes(inputs__repeated_rows=again, **GROUPED) == []
    again[1] = 0.0  # the second batch had rows that the first had not
    assert codes(inputs__repeated_rows=again, **GROUPED) == ["unshuffled_data"]


@pytest.mark.parametrize(("known", "among", "found"), [
    (0.81, 0.59, []), (0.79, 0.59, ["unshuffled_data"]), (0.81, 0.61, ["unshuffled_data"]),
    (1.0, 0.21, []), (1.0, 0.19, ["unshuffled_data"]),  # hardly any known row among the new ones: another part
])  # fmt: skip
def test_a_curriculum_adds_new_rows_to_known_ones(known, among, found):
    again = np.full(STEPS, known)
    again[:5], again[60:70] = 0.0, among
    means = (np.arange(STEPS) >= 60) + NOISE + 0.5 * (np.arange(STEPS) % 2)
    assert codes(targets__mean=means, inputs__repeated_rows=again, **GROUPED) == found


@pytest.mark.parametrize(("among", "found"), [(0.59, []), (0.61, ["learning_rate_too_high"])])
def test_the_loss_of_a_curriculum_may_rise(among, found):
    again = np.full(STEPS, 0.9)
    again[60:70] = among
    assert codes(loss=np.geomspace(0.1, 1.0, STEPS), kind="", inputs__repeated_rows=again) == found


@pytest.mark.parametrize(("others", "found"), [(1.0, []), (0.0, ["unshuffled_data"])])
def test_batches_of_one_class_are_sorted_if_each_class_fills_some(others, found):
    classes, means = np.ones(STEPS), np.ones(STEPS)
    classes[0], means[0] = 2.0, 0.5
    means[60:] = others
    signals = {"targets__classes": classes, "targets__mean": means, "targets__classes_so_far": 2.0}
    shares = {"targets__top_share_so_far": 0.95, "targets__rarest_share_so_far": 0.05, "top_predicted_share": 0.99}
    assert codes(inputs__batch_size=32.0, **signals, **shares)[:1] == found


@pytest.mark.parametrize(("within", "found"), [(5.0, ["unshuffled_data"]), (20.0, [])])
def test_batches_that_have_nearly_all_there_is_do_no_harm(within, found):
    assert codes(targets__mean=np.arange(STEPS) % EPOCH, targets__std=within, **GROUPED) == found


@pytest.mark.parametrize(("apart", "found"), [(True, []), (False, ["unshuffled_data"])])
def test_tasks_that_take_turns_have_targets_of_their_own(apart, found):
    steps = np.arange(STEPS)
    means = np.where(steps % 2, 0.5, 4.5) + 0.1 * NOISE
    turns = {"body": steps, "first": steps[::2], "second": steps[1::2]} if apart else {"body": steps}
    assert codes(targets__mean=means, gradients=turns, **GROUPED) == found


def test_tasks_that_take_turns_may_be_sorted():
    steps = np.arange(STEPS)
    means = np.where(steps % 2, 0.5, 4.5) + steps % EPOCH
    turns = {"body": steps, "first": steps[::2], "second": steps[1::2]}
    assert codes(targets__mean=means, gradients=turns, **GROUPED) == ["unshuffled_data"]


@pytest.mark.parametrize(("kind", "weighs", "found"), [
    ("", -0.1, []), ("", 0.1, ["unshuffled_data"]), ("cross_entropy", 0.1, ["unshuffled_data"]),
])  # fmt: skip
def test_actions_come_to_be_all_of_one_kind(kind, weighs, found):
    signals = {"targets__mean": np.arange(STEPS) % EPOCH, "targets__classes": 2.0, "targets__classes_so_far": 2.0}
    actions = BatchFacts(shape=(32, 1), dtype="int64", integer=True)
    losses = np.abs(NOISE) if weighs > 0 else NOISE
    assert codes(kind=kind, loss=losses, targets=actions, **signals, **GROUPED) == found


@pytest.mark.parametrize(("node", "outputs", "compared", "found"), [
    ("GatherBackward0", (32, 3), (32,), []), ("IndexBackward0", (32, 3), (32, 1), []),
    ("IndexBackward0", (32, 3), (71,), ["unshuffled_data"]),  # a mask
    ("SqueezeBackward1", (32, 1), (32,), ["unshuffled_data"]),
])  # fmt: skip
def test_values_of_actions_are_compared_with_what_the_model_thinks_of_the_next_states(node, outputs, compared, found):
    form = LossFacts(kind="smooth_l1", reduction="mean", nodes=("SmoothL1LossBackward0", node, "AddmmBackward0"),
                     outputs_shape=compared, targets_shape=compared)  # fmt: skip
    means = np.arange(STEPS) % EPOCH
    assert codes(form=form, outputs=BatchFacts(shape=outputs), targets__mean=means, **GROUPED) == found


@pytest.mark.parametrize(("every", "weighted", "found"), [
    (8, True, []), (12, True, ["unshuffled_data"]), (8, False, ["unshuffled_data"]),
])  # fmt: skip
def test_forces_are_choices_where_what_weighs_them_has_both_signs(every, weighted, found):
    loss = np.where(np.arange(STEPS) // every % 2, 0.1, -0.1)
    form = LossFacts(kind="mse", reduction="mean", weighted=weighted)
    assert codes(form=form, loss=loss, targets__mean=np.arange(STEPS) % EPOCH, **GROUPED) == found


@pytest.mark.parametrize(("sorted_too", "found"), [(False, []), (True, ["unshuffled_data"])])
def test_batches_of_one_length_each_have_targets_of_their_own(sorted_too, found):
    """As names, whose length tells where they come from; only what differs within a length is an order."""
    lengths = np.random.default_rng(1).integers(4, 12, STEPS)
    means = lengths + NOISE + (3.0 * (np.arange(STEPS) % EPOCH) if sorted_too else 0.0)
    assert codes(targets__mean=means, inputs__length=lengths, **GROUPED) == found


@pytest.mark.parametrize(("repeats", "found"), [(1.0, []), (0.0, ["unshuffled_data"])])
def test_rollouts_take_each_others_place(repeats, found):
    """A critic learns each for several steps, and the values of the next one are others."""
    steps = np.r_[np.arange(10), 11 * np.arange(1, 10), 106, 159, 212]
    again = np.where(steps < 10, repeats, 0.0)
    values = {
        "targets/between_batches": np.geomspace(6, 300, len(steps)), "inputs/batch_size": np.full(len(steps), 256.0),
        "inputs/repeated": again, "inputs/repeated_rows": again,
    }  # fmt: skip
    series = {name: Series(steps, one) for name, one in values.items()}
    series["loss"] = Series(np.arange(220), np.geomspace(100, 1, 220))
    facts = Facts(steps=220, loss=LossFacts(kind="mse", reduction="mean"))
    causes = diagnose(Evidence(series=series, facts=facts))
    assert [cause.code for cause in causes if cause.code == "unshuffled_data"] == found
