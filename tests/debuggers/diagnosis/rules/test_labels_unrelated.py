"""Targets that have nothing to do with the inputs, and what only looks so."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts, LossFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 120
EPOCH = 10


def codes(loss=None, inputs=None, compared=None, **signals):
    loss = np.geomspace(2.3, 0.2, STEPS) if loss is None else loss
    found = {
        name.replace("__", "/"): Series(
            np.arange(len(loss)), np.broadcast_to(np.asarray(values, np.float64), len(loss))
        )
        for name, values in ({"loss": loss} | signals).items()
    }
    compared = compared or LossFacts(kind="cross_entropy", reduction="mean")
    facts = Facts(steps=STEPS, loss=compared, inputs=inputs)
    return [cause.code for cause in diagnose(Evidence(series=found, facts=facts))]


NOISE = 0.01 * np.random.default_rng(0).normal(size=STEPS)
SLOWLY = {
    "baseline_loss": 2.3, "update_ratio": 0.02, "outputs__batch_std": 0.3, "inputs__batch_size": 16.0,
    "inputs__rows_so_far": 16.0 * EPOCH, "inputs__repeated_rows": 1.0,
}  # fmt: skip


def test_what_is_learnt_by_heart_comes_with_the_visits():
    loss = np.linspace(2.3, 1.9, STEPS) + 5 * NOISE
    assert codes(loss, **SLOWLY) == ["labels_unrelated"]
    # Equal words may be followed by different ones: what comes of them is never known for sure.
    assert codes(loss, inputs=BatchFacts(shape=(16, 3), integer=True), **SLOWLY) == []
    loss = (
        1.9 + 0.4 * np.exp(-np.arange(STEPS) / EPOCH) + 5 * NOISE
    )  # the most is learnt when rows come again for the first time
    assert codes(loss, **SLOWLY) == []
    assert codes(np.linspace(2.3, 1.9, STEPS) + 5 * NOISE, correlation=0.9, **SLOWLY) == []


def test_a_loss_that_arrives_at_that_of_a_constant_is_on_its_way():
    signals = {"baseline_loss": 2.3, "update_ratio": 0.02, "outputs__batch_std": 0.3, "accuracy": 0.11}
    signals |= {"targets__top_share_so_far": 0.12, "targets__classes_so_far": 10.0}
    assert codes(np.full(STEPS, 2.3) + NOISE, **signals) == ["labels_unrelated"]
    assert codes(np.linspace(3.6, 2.3, STEPS) + NOISE, **signals) == []
    assert "labels_unrelated" not in codes(np.full(59, 2.3), **signals)


def test_one_class_has_nearly_all_targets_only_where_the_others_are_rare():
    signals = {"baseline_loss": 2.3, "update_ratio": 0.02, "outputs__batch_std": 0.3, "accuracy": 0.87}
    signals |= {"targets__top_share_so_far": 0.87, "targets__classes_so_far": 2.0}
    assert codes(np.full(STEPS, 2.3) + NOISE, targets__rarest_share_so_far=0.13, **signals) == ["labels_unrelated"]
    assert codes(np.full(STEPS, 2.3) + NOISE, targets__rarest_share_so_far=0.05, **signals) == []


@pytest.mark.parametrize(("arrives", "is_one"), [(41, True), (48, False)])
def test_a_loss_that_came_down_to_a_constant_output_has_to_stand_there_for_longer(arrives, is_one):
    """48 of 120 steps are four tenths: how frequent letters are is learnt first, and what comes after them later."""
    loss = np.where(np.arange(STEPS) < arrives, 2.7, 2.3) + NOISE
    found = codes(loss, baseline_loss=2.3, update_ratio=0.02, outputs__batch_std=0.3, accuracy=0.1,
                  targets__top_share_so_far=0.12)  # fmt: skip
    assert ("labels_unrelated" in found) == is_one


@pytest.mark.parametrize(("count", "found"), [(1, []), (5, ["labels_unrelated"])])
def test_the_accuracy_of_a_single_batch_says_nothing_of_a_loss_that_stands(count, found):
    """It is that of an untrained model."""
    steps = np.arange(STEPS)
    signals = {name.replace("__", "/"): Series(steps, np.full(STEPS, value)) for name, value in SLOWLY.items()}
    signals |= {"loss": Series(steps, 2.3 + 5 * NOISE), "targets/top_share_so_far": Series(steps, np.full(STEPS, 0.1))}
    signals["accuracy"] = Series(steps[:count], np.full(count, 0.1))
    facts = Facts(steps=STEPS, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    assert [cause.code for cause in diagnose(Evidence(series=signals, facts=facts))] == found


@pytest.mark.parametrize(("classes", "first"), [(20.0, "labels_unrelated"), (21.0, "overfitting")])
def test_what_is_learnt_of_few_rows_of_each_class_need_not_hold_for_others(classes, first):
    """200 rows are learnt by heart, and others are never told better than by a constant."""
    found = codes(
        np.geomspace(2.8, 0.02, STEPS),
        validation__loss=np.geomspace(3.0, 5.2, STEPS),
        baseline_loss=2.8,
        inputs__batch_size=25.0,
        inputs__rows_so_far=200.0,
        inputs__repeated_rows=1.0,
        targets__classes_so_far=classes,
    )
    assert found[0] == first


def test_units_that_gradients_of_chance_push_about_die_of_no_rate():
    """Large updates may kill them too: then outputs stay what they are, and say nothing of which rate would do."""
    dead = {"dead_units": {"0": Series(np.arange(STEPS), np.linspace(0.05, 0.7, STEPS))}}
    by_chance = {
        "baseline_loss": 2.3, "update_ratio": 0.05, "outputs/batch_std": np.geomspace(0.3, 0.1, STEPS),
        "accuracy": 0.11, "targets/classes_so_far": 10.0, "targets/top_share_so_far": 0.12,
    }  # fmt: skip
    still = by_chance | {"outputs/batch_std": np.geomspace(0.3, 1e-5, STEPS)}
    first = []
    for signals in (by_chance, still):
        series = {
            name: Series(np.arange(STEPS), np.broadcast_to(np.asarray(values, np.float64), STEPS))
            for name, values in ({"loss": 2.3 + NOISE} | signals).items()
        }
        facts = Facts(steps=STEPS, loss=LossFacts(kind="cross_entropy", reduction="mean"))
        first.append(diagnose(Evidence(series=series, tensors=dead, facts=facts))[0].code)
    assert first == ["labels_unrelated", "learning_rate_too_high"]


@pytest.mark.parametrize(("validated", "kind", "is_one"), [
    (0.688, "cross_entropy", False), (0.694, "cross_entropy", True), (0.688, "mse", True),
])  # fmt: skip
def test_a_weak_signal_shows_in_a_validation_that_stays_below_a_constant(validated, kind, is_one):
    """A constant output's loss is 0.693; of several values the mean of each is lower than that of all."""
    steps = np.arange(STEPS)
    signals = {"baseline_loss": 0.693, "update_ratio": 0.02, "outputs/batch_std": 0.3, "gradient_cosine": 0.0,
               "loss": 0.691 + 0.5 * NOISE}  # fmt: skip
    series = {name: Series(steps, np.broadcast_to(np.float64(values), STEPS)) for name, values in signals.items()}
    series["validation/loss"] = Series(np.arange(20, STEPS, 20), np.full(5, validated))
    loss = LossFacts(kind=kind, reduction="mean", outputs_shape=(32, 2), targets_shape=(32, 2))
    codes = [cause.code for cause in diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))]
    assert ("labels_unrelated" in codes) == is_one


@pytest.mark.parametrize(("last", "related", "columns", "is_one"), [
    (0.38, 0.01, 1, True), (0.38, 0.2, 1, False), (0.38, None, 1, False), (0.43, 0.01, 1, False),
    (0.44, 0.01, 64, True), (0.44, 0.2, 64, False), (0.5, 0.01, 64, False),
])  # fmt: skip
def test_masks_of_other_pictures_are_told_before_the_loss_stands(last, related, columns, is_one):
    """A constant output's loss is 0.38, to which the loss still falls; the share of each pixel takes long."""
    signals = {"baseline_loss": 0.38, "update_ratio": 0.02, "outputs__batch_std": 0.5, "gradient_cosine": 0.5,
               "inputs__batch_size": 32.0, "accuracy": 0.76, "targets__top_share_so_far": 0.87}  # fmt: skip
    if related is not None:
        signals["binary_correlation"] = related
    loss = last + (0.7 - last) * np.exp(-np.arange(STEPS) / 25)
    shape = (32, columns)
    pixels = LossFacts(kind="bce_with_logits", reduction="mean", outputs_shape=shape, targets_shape=shape)

    assert codes(loss, compared=pixels, **signals) == ["labels_unrelated"] * is_one


@pytest.mark.parametrize(("columns", "correlation", "falls_on", "is_one"), [
    (64, 0.05, False, True), (8, 0.05, False, False), (64, 0.3, False, False), (64, 0.05, True, False),
])  # fmt: skip
def test_pictures_that_are_answered_by_their_mean_alone_do_not_belong(columns, correlation, falls_on, is_one):
    """The mean of each pixel has a lower loss than that of all pixels, which is known."""
    course = np.linspace(1.0, 0.7, STEPS) if falls_on else np.where(np.arange(STEPS) < 20, 1.0, 0.7)
    signs = np.where(np.arange(STEPS) % 2, 1.0, 0.8)
    signals = {
        "loss": course + NOISE, "baseline_loss": 1.0, "correlation": correlation * signs, "update_ratio": 0.03,
        "inputs/batch_size": 32.0, "outputs/batch_std": 0.05,
    }  # fmt: skip
    series = {name: Series(np.arange(STEPS), np.broadcast_to(values, STEPS)) for name, values in signals.items()}
    loss = LossFacts(kind="mse", reduction="mean", outputs_shape=(32, columns), targets_shape=(32, columns))
    causes = [cause.code for cause in diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))]
    assert ("labels_unrelated" in causes) == is_one


@pytest.mark.parametrize(
    ("first", "last", "classes", "is_one"),
    [(2.31, 2.3, 10, True), (2.4, 2.3, 10, False), (2.31, 2.25, 10, False), (2.31, 2.3, 5, False)],
)
def test_a_cross_entropy_of_mixed_targets_that_stays_at_that_of_equal_scores_learns_nothing(
    first, last, classes, is_one
):
    """The loss of a constant output is not known where targets are shares of classes: log 10 is 2.303."""
    loss = last + (first - last) * np.geomspace(1, 1e-3, STEPS)
    found = {"loss": loss, "update_ratio": np.full(STEPS, 0.02), "outputs/batch_std": np.full(STEPS, 0.3)}
    series = {name: Series(np.arange(STEPS), values) for name, values in found.items()}
    kind = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(64, classes), targets_shape=(64, 10))
    causes = [cause.code for cause in diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=kind)))]
    assert ("labels_unrelated" in causes) == is_one


@pytest.mark.parametrize(("spread", "is_one"), [(0.2, True), (0.1, False)])
def test_shares_of_classes_that_are_nearly_equal_leave_the_loss_of_equal_scores(spread, is_one):
    """The shares of a single class of ten have a deviation of 0.3; a teacher at a high temperature gives less."""
    values = {"loss": 2.3, "update_ratio": 0.02, "outputs/batch_std": 0.3, "targets/std": spread}
    series = {name: Series(np.arange(STEPS), np.full(STEPS, value)) for name, value in values.items()}
    kind = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(64, 10), targets_shape=(64, 10))
    facts = Facts(steps=STEPS, loss=kind, targets=BatchFacts(shape=(64, 10), dtype="float32"))
    causes = [cause.code for cause in diagnose(Evidence(series=series, facts=facts))]
    assert ("labels_unrelated" in causes) == is_one


@pytest.mark.parametrize(("accuracy", "top", "each", "is_one"), [
    (0.18, 0.12, 8.0, True), (0.18, 0.12, 2.0, False), (0.3, 0.12, 8.0, False), (0.62, 0.5, 8.0, False),
])  # fmt: skip
def test_some_of_many_classes_are_known_by_heart_before_the_loss_shows_it(accuracy, top, each, is_one):
    """Where rows have come often. Of two classes, a weak signal may be all there is."""
    signals = {"baseline_loss": 2.3, "update_ratio": 0.02, "outputs__batch_std": 0.3, "gradient_cosine": 0.0,
               "accuracy": accuracy, "targets__top_share_so_far": top, "targets__classes_so_far": 10.0,
               "inputs__batch_size": 64.0, "inputs__repeated_rows": 1.0,
               "inputs__rows_so_far": 64 * STEPS / each}  # fmt: skip
    assert ("labels_unrelated" in codes(np.full(STEPS, 2.3) + NOISE, **signals)) == is_one


@pytest.mark.parametrize(("last", "related", "each", "is_one"), [
    (1.45, 0.12, 9.0, True), (1.2, 0.12, 9.0, False), (1.45, 0.3, 9.0, False), (1.45, 0.12, 2.0, False),
])  # fmt: skip
def test_a_divergence_from_the_shares_of_other_rows_hardly_falls(last, related, each, is_one):
    """As of a teacher whose scores were stored in another order: what is learnt are the rows."""
    shape = (64, 10)
    divergence = LossFacts(kind="kl_div", reduction="mean", outputs_shape=shape, targets_shape=shape)
    signals = {"correlation": related, "update_ratio": 0.02, "inputs__batch_size": 64.0, "inputs__repeated_rows": 1.0,
               "inputs__rows_so_far": 64 * STEPS / each}  # fmt: skip
    found = codes(np.linspace(1.5, last, STEPS) + NOISE, compared=divergence, **signals)
    assert ("labels_unrelated" in found) == is_one


@pytest.mark.parametrize(("last", "each", "is_one"), [(2.29, 2.0, True), (2.27, 2.0, False), (2.27, 9.0, True)])
def test_rows_that_come_often_bring_equal_scores_down_a_little(last, each, is_one):
    """A cross entropy of shares, of which that of a constant output is not known."""
    shape = (64, 10)
    mixed = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=shape, targets_shape=shape)
    signals = {"update_ratio": 0.02, "outputs__batch_std": 0.3, "inputs__batch_size": 64.0,
               "inputs__repeated_rows": 1.0, "inputs__rows_so_far": 64 * STEPS / each}  # fmt: skip
    loss = np.r_[2.33, np.full(STEPS - 1, last)] + 0.1 * NOISE
    assert ("labels_unrelated" in codes(loss, compared=mixed, **signals)) == is_one
