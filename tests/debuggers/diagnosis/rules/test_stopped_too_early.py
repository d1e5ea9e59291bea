"""When a training ended, beside the signs that the tests of all rules have."""

from dataclasses import replace

import numpy as np
import pytest
import torch
from made_evidence import STEPS, evidence, of_loss

import stepscope
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series


@pytest.mark.parametrize(
    ("rows", "validations", "is_one"), [(640, 0, True), (639, 0, False), (320, STEPS, True), (319, STEPS, False)]
)
def test_a_training_that_went_through_its_rows_for_long_was_not_broken_off_at_its_beginning(rows, validations, is_one):
    """60 steps of 32 rows are 3 epochs of 640 and 6 of 320; the loss falls faster and faster.

    Without a validation it may fall because rows are known by then; one that rises again at the end is no sign itself.
    """
    loss = 2.3 - np.linspace(0, 1, STEPS) ** 3
    found = evidence(
        facts=of_loss(), loss=loss, update_ratio=np.full(STEPS, 0.003),
        **{"validation/loss": np.append(loss[: validations - 1], loss[-3])} if validations else {},
        **{"inputs/repeated_rows": np.full(STEPS, 1.0), "inputs/rows_so_far": np.full(STEPS, rows),
           "inputs/batch_size": np.full(STEPS, 32)},
    )  # fmt: skip
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("noise", "is_one"), [(0.2, True), (0.9, False)])
def test_a_loss_that_falls_by_no_more_than_its_batches_differ_says_nothing_of_the_end(noise, is_one):
    swings = noise * np.where(np.arange(STEPS) % 2, 0.5, -0.5)
    found = evidence(
        facts=of_loss(kind=""), loss=np.linspace(4.7, 4.0, STEPS) + swings, update_ratio=np.full(STEPS, 0.003),
        **{"validation/loss": np.linspace(4.7, 4.0, STEPS)},
    )  # fmt: skip
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("last", "is_one"), [(1.0, True), (0.9, False)])
def test_a_loss_that_falls_ever_faster_has_not_only_begun_once_it_is_half_of_the_way_down(last, is_one):
    """The median of its last tenth is 1.20 and 1.12: half of 2.3 is 1.15."""
    found = evidence(
        facts=of_loss(), loss=2.3 - (2.3 - last) * np.linspace(0, 1, STEPS) ** 4, update_ratio=np.full(STEPS, 0.01),
        baseline_loss=np.full(STEPS, 2.3),
    )  # fmt: skip
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("noise", "is_one"), [(0.05, True), (0.5, False)])
def test_a_late_fall_counts_where_it_is_larger_than_its_error(noise, is_one):
    """A line from 1.5 to 1.2 falls by 0.11 between the medians that show its end: of 7 values each."""
    swings = noise * np.resize([1.0, -1.0, 0.2, -0.2], STEPS)
    found = evidence(
        facts=of_loss(kind="mse"), loss=np.linspace(1.5, 1.2, STEPS) + swings, update_ratio=np.full(STEPS, 0.006),
        **{"validation/loss": np.linspace(1.5, 1.2, STEPS)},
    )  # fmt: skip
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("accuracy", "is_one"), [(0.25, True), (0.15, False)])
def test_outputs_that_are_right_before_the_loss_shows_it_have_only_begun(accuracy, is_one):
    """Of 20 batches of 32 rows, 12 % and four deviations are 17 %; the loss has fallen by 3 % and still falls."""
    found = evidence(
        facts=of_loss(), loss=np.linspace(2.3, 2.22, STEPS), baseline_loss=np.full(STEPS, 2.3),
        update_ratio=np.full(STEPS, 0.005), accuracy=np.full(STEPS, accuracy),
        **{"targets/top_share_so_far": np.full(STEPS, 0.12), "inputs/batch_size": np.full(STEPS, 32)},
    )  # fmt: skip
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(("ratio", "first"), [(0.0016, "stopped_too_early"), (0.0009, "learning_rate_too_low")])
def test_weights_that_are_where_they_began_had_too_few_steps_or_too_small_ones(ratio, first):
    found = evidence(
        facts=of_loss(), loss=np.linspace(2.3, 2.1, STEPS), update_ratio=np.full(STEPS, ratio),
        **{"validation/loss": np.linspace(2.3, 2.1, STEPS), "total_norm/gradients": np.full(STEPS, 1.0)},
    )  # fmt: skip
    assert diagnose(found)[0].code == first


_COSINE = 0.5 + 0.5 * np.cos(np.linspace(0, np.pi, 5 * STEPS))


@pytest.mark.parametrize(("rates", "last", "validated", "is_one"), [
    (_COSINE[: 3 * STEPS // 2], 0.3, None, True),
    (_COSINE[: STEPS // 4], 0.3, None, False),  # it has hardly begun to fall
    (_COSINE, 0.3, None, False),  # to its end
    (np.linspace(1, 0.7, STEPS), 0.3, None, False),  # a line may end anywhere
    (np.geomspace(1, 0.7, STEPS), 0.3, None, False),  # ever more slowly
    (np.repeat(_COSINE[: 3 * STEPS // 2 : 18], 12), 0.3, None, False),  # by epochs: what comes next is not seen
    (_COSINE[: 3 * STEPS // 2], 1.0, None, False),  # the loss stands
    (_COSINE[: 3 * STEPS // 2], 0.3, (1.0, 0.5, 0.6), False),  # ended for what was validated
    (_COSINE[: 3 * STEPS // 2], 0.3, (1.0, 0.6, 0.5), True),
])  # fmt: skip
def test_a_schedule_that_has_only_begun_was_made_for_a_longer_training(rates, last, validated, is_one):
    count = len(rates)
    loss = np.concatenate([np.linspace(2.3, 1.0, count // 2), np.linspace(1.0, last, count - count // 2)])
    steps = np.arange(count)
    series = {"loss": loss, "update_ratio": np.full(count, 0.01), "learning_rate": 0.01 * np.asarray(rates)}
    found = {name: Series(steps, values) for name, values in series.items()}
    if validated:
        found["validation/loss"] = Series(np.arange(3) * 20, np.array(validated))
    causes = diagnose(Evidence(series=found, facts=Facts(steps=count, loss=LossFacts(kind="mse", reduction="mean"))))
    said = [text for cause in causes if cause.code == "stopped_too_early" for text in cause.evidence]
    assert any("schedule has only begun" in text for text in said) == is_one


@pytest.mark.parametrize(
    ("steps", "last", "validations", "is_one"),
    [(60, 1.9, (2.3, 2.2, 2.1, 2.0), True), (60, 1.5, (2.3, 2.2, 2.1, 2.0), False),
     (100, 1.9, (2.3, 2.2, 2.1, 2.0), False), (60, 1.9, (2.3, 2.2, 2.1), False),
     (60, 1.9, (2.3, 2.1, 2.2, 2.0), False)],
)  # fmt: skip
def test_a_short_training_whose_every_validation_was_the_best_was_stopped(steps, last, validations, is_one):
    """The loss slows down, so that its course alone says nothing, and little was learnt."""
    loss = last + (2.3 - last) * np.geomspace(1, 0.05, steps)
    values = {"loss": loss, "baseline_loss": np.full(steps, 2.3), "update_ratio": np.full(steps, 0.003)}
    series = {name: Series(np.arange(steps), one) for name, one in values.items()}
    series["validation/loss"] = Series(np.linspace(9, steps - 1, len(validations)).astype(int), np.array(validations))
    found = Evidence(series=series, facts=Facts(steps=steps, loss=LossFacts(kind="cross_entropy", reduction="mean")))
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize(
    ("steps", "rows", "last", "passes", "is_one"),
    [(60, 640, 0.5, 1, True), (60, 639, 0.5, 1, False), (60, 640, 0.2, 1, False), (100, 1120, 0.5, 1, False),
     (60, 1280, 0.5, 2, False)],
)  # fmt: skip
def test_a_short_training_that_still_learns_from_rows_that_have_come_three_times_was_stopped(
    steps, rows, last, passes, is_one
):
    """60 batches of 32 are 3 times 640 rows; the loss slows down as that of a sound training does."""
    course = last + (2.3 - last) * np.geomspace(1, 0.05, steps)
    assert _is_too_early(course, rows, passes) == is_one


@pytest.mark.parametrize(("rows", "last", "falls", "is_one"), [
    (1290, 1.9, 0.05, True), (1270, 1.9, 0.05, False), (1290, 1.65, 0.05, False),
    (1290, 1.9, 0.0, False), (2050, 1.9, 0.0, True),  # what has not come can be learnt
])  # fmt: skip
def test_a_short_training_most_of_whose_rows_have_come_once_at_most_was_stopped(rows, last, falls, is_one):
    """60 batches of 32 are 1.49 times 1290 rows, or 0.94 times 2050; the loss is at 83 % of a constant output's."""
    late = np.linspace(falls, 0, STEPS)
    assert _is_too_early(np.maximum(last + late, 2.3 - np.linspace(0, 2, STEPS)), rows, 1) == is_one


@pytest.mark.parametrize(("last", "is_one"), [(1.8, True), (1.65, False)])
def test_a_short_training_whose_rows_were_all_new_was_stopped(last, is_one):
    """At the end the loss is at 79 % or 73 % of a constant output's."""
    loss = last + (2.3 - last) * np.geomspace(1, 0.05, STEPS)
    assert _is_too_early(loss, rows=64, passes=1, again=0.01) == is_one


def _is_too_early(loss, rows, passes, again=1.0):
    steps = len(loss)
    values = {
        "loss": loss, "baseline_loss": np.full(steps, 2.3), "update_ratio": np.full(steps, 0.02),
        "inputs/repeated_rows": np.full(steps, again), "inputs/rows_so_far": np.full(steps, rows),
        "inputs/batch_size": np.full(steps, 32),
    }  # fmt: skip
    facts = Facts(steps=steps, backward_passes=passes, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    found = Evidence(series={name: Series(np.arange(steps), one) for name, one in values.items()}, facts=facts)
    return "stopped_too_early" in [cause.code for cause in diagnose(found)]


@pytest.mark.parametrize(("steps", "rows", "cosine", "first", "is_one"), [
    (12, 1500, 0.98, 4.6, True), (9, 1500, 0.98, 4.6, False), (12, 400, 0.98, 4.6, False), (12, 1500, 0.8, 4.6, False),
    (12, 1500, 0.98, 3.0, False), (12, 4000, 0.98, 4.6, False),
])  # fmt: skip
def test_a_few_epochs_of_large_batches_are_a_handful_of_steps(steps, rows, cosine, first, is_one):
    """Batches of 512, each of which asks for the same as the one before; a constant output has a loss of 3."""
    at = np.arange(steps)
    values = {
        "loss": np.linspace(first, first - 0.7, steps), "baseline_loss": 3.0, "update_ratio": 4e-3,
        "gradient_cosine": cosine, "inputs/batch_size": 512.0, "inputs/repeated_rows": 1.0, "inputs/rows_so_far": rows,
        "inputs/repeated": 0.0,
    }  # fmt: skip
    series = {name: Series(at, np.broadcast_to(np.float64(one), steps)) for name, one in values.items()}
    facts = Facts(steps=steps, loss=LossFacts(kind="cross_entropy", reduction="mean"))
    codes = [cause.code for cause in diagnose(Evidence(series=series, facts=facts))]
    assert ("stopped_too_early" in codes) == is_one


@pytest.mark.parametrize(("each_epoch", "rows", "is_one"), [
    (0.021, 240, True), (0.019, 240, False), (0.021, 190, False),
])  # fmt: skip
def test_validations_that_gain_much_in_an_epoch_say_that_the_next_would_have_been_worth_it(each_epoch, rows, is_one):
    """60 steps of 32 rows are 8 epochs of 240, and 10 of 190, after which a model knows what rows have in common."""
    looks = np.array([9, 19, 29, 39, 49, 59])
    found = evidence(
        facts=of_loss(), loss=2.3 - 1.8 * np.linspace(0, 1, STEPS) ** 0.7, update_ratio=np.full(STEPS, 0.003),
        baseline_loss=np.full(STEPS, 2.3),
        **{"inputs/repeated_rows": np.full(STEPS, 1.0), "inputs/rows_so_far": np.full(STEPS, rows),
           "inputs/batch_size": np.full(STEPS, 32)},
    )  # fmt: skip
    validated = Series(looks, 2.2 - 2.3 * each_epoch * looks * 32 / rows)
    found = replace(found, series={**found.series, "validation/loss": validated})
    assert ("stopped_too_early" in [cause.code for cause in diagnose(found)]) == is_one


@pytest.mark.parametrize("trained_on", [True, False])
def test_a_training_that_another_optimizer_goes_on_with_was_not_stopped(trained_on):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.ReLU(), torch.nn.Linear(32, 3))
    first, second = torch.optim.SGD(model.parameters(), lr=0.02), torch.optim.Adam(model.parameters(), lr=1e-2)
    with stepscope.watch(model, first) as session:
        for step in range(400 if trained_on else 100):
            rows = torch.randn(32, 8)
            model.zero_grad()
            torch.nn.functional.cross_entropy(model(rows), rows[:, :3].argmax(1)).backward()
            (first if step < 100 else second).step()
    assert ("stopped_too_early" in [cause.code for cause in session.report().causes]) == (not trained_on)
