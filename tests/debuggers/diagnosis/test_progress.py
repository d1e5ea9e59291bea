"""The course of the loss against that of a constant output."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.progress import progress_of
from debuggers.diagnosis.series import Series


@pytest.mark.parametrize(
    ("factor", "passes", "learnt"),
    [(1.0, 1, 0.5), (0.5, 2, 0.5), (0.25, 4, 0.5), (0.5, 1, 0.0)],
    ids=["as it is", "divided by two passes", "divided by four passes", "half of it"],
)
def test_a_loss_that_its_passes_are_divided_by_counts_as_it_is(factor, passes, learnt):
    steps = np.arange(20)
    series = {"loss": Series(steps, np.full(20, 1.0)), "baseline_loss": Series(steps, np.full(20, 2.0))}
    loss = LossFacts(kind="cross_entropy", reduction="mean", factor=factor)

    progress = progress_of(Evidence(series=series, facts=Facts(loss=loss, backward_passes=passes)))

    assert progress.learnt == pytest.approx(learnt)


@pytest.mark.parametrize(("columns", "nodes", "learnt"), [
    (1, ("MeanBackward0", "SumBackward1", "PowBackward0"), 0.6),
    (4, ("MeanBackward0", "SumBackward1", "PowBackward0"), 0.2),
    (4, ("MeanBackward0", "PowBackward0", "SubBackward0", "SumBackward1"), 0.6),  # the model ends in a sum
])  # fmt: skip
def test_errors_that_are_added_up_over_a_row_are_not_compared_with_their_mean(columns, nodes, learnt):
    steps = np.arange(20)
    series = {"loss": Series(steps, np.linspace(1.0, 0.8, 20)), "baseline_loss": Series(steps, np.full(20, 2.04))}
    loss = LossFacts(kind="mse", reduction="mean", nodes=nodes, outputs_shape=(32, columns))

    progress = progress_of(Evidence(series=series, facts=Facts(loss=loss)))

    assert progress.learnt == pytest.approx(learnt, abs=0.03)


@pytest.mark.parametrize(("end", "has_blown_up"), [(0.0, False), (0.09, True)])
def test_a_loss_of_both_signs_that_comes_to_rest_at_zero_has_not_blown_up(end, has_blown_up):
    values = np.concatenate([[0.08, -0.005, -0.07, 0.05, -0.01] * 2, np.full(10, 0.1), np.full(40, end)])
    found = progress_of(Evidence(series={"loss": Series(np.arange(60), values)}, facts=Facts()))

    assert (found.blew_up is not None) is has_blown_up
