"""The course of the loss against that of a constant output."""

import numpy as np
import pytest
import torch
from torch.nn import functional

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


@pytest.mark.parametrize(("smoothing", "classes"), [(0.1, 10), (0.3, 4)])
def test_all_is_learnt_where_a_smoothed_loss_comes_to_what_it_can_be(smoothing, classes):
    """That of the probabilities that the smoothed targets have themselves, as torch computes it."""
    targets = torch.full((classes,), smoothing / classes)
    targets[0] += 1 - smoothing
    least = functional.cross_entropy(targets.log()[None], torch.tensor([0]), label_smoothing=smoothing).item()
    top, steps = float(np.log(classes)), np.arange(20)
    loss = LossFacts(kind="cross_entropy", reduction="mean", smoothing=smoothing, outputs_shape=(32, classes))
    for last, learnt in ((least, 1.0), ((least + top) / 2, 0.5), (top, 0.0)):
        series = {"loss": Series(steps, np.full(20, last)), "baseline_loss": Series(steps, np.full(20, top))}
        progress = progress_of(Evidence(series=series, facts=Facts(loss=loss)))
        assert progress.learnt == pytest.approx(learnt, abs=1e-6)
