"""Targets that are all of one class, and what only looks so."""

import numpy as np
import pytest

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.rules.diagnose import diagnose
from debuggers.diagnosis.series import Series

STEPS = 120


@pytest.mark.parametrize(("level", "is_one"), [(0.01, True), (3.7, False), (6.2, True)])
def test_the_place_of_the_positive_is_no_class(level, is_one):
    """Of 513 pairs the first is the positive one, as in MoCo: a class is learnt at once, and no place is not at all."""
    values = {"loss": np.full(STEPS, level), "targets/classes_so_far": np.ones(STEPS), "targets/max": np.zeros(STEPS)}
    series = {name: Series(np.arange(STEPS), one) for name, one in values.items()}
    loss = LossFacts(kind="cross_entropy", reduction="mean", outputs_shape=(64, 513), targets_shape=(64,))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("single_class_labels" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(("nodes", "is_one"), [(("AddBackward0", "MulBackward0", "NllLossBackward0"), True),
                                               (("NllLossBackward0",), False)])  # fmt: skip
def test_smoothed_labels_leave_a_loss_of_what_is_learnt_to_the_last(nodes, is_one):
    """Of three classes, smoothing by 0.1 leaves 0.29, a quarter of a uniform guess's."""
    values = {"loss": np.full(STEPS, 0.29), "targets/classes_so_far": np.ones(STEPS), "targets/max": np.zeros(STEPS)}
    series = {name: Series(np.arange(STEPS), one) for name, one in values.items()}
    loss = LossFacts(kind="cross_entropy", reduction="mean", nodes=nodes, outputs_shape=(16, 3), targets_shape=(16,))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("single_class_labels" in [cause.code for cause in causes]) == is_one


@pytest.mark.parametrize(
    ("nodes", "is_one"), [(("MeanBackward0", "AddBackward0"), False), (("MseLossBackward0",), True)]
)
def test_the_middle_of_a_distribution_is_no_class(nodes, is_one):
    """A flow's likelihood compares with zero, and adds the volume."""
    values = {"loss": np.full(STEPS, 9.0), "targets/classes_so_far": np.ones(STEPS), "targets/max": np.zeros(STEPS)}
    series = {name: Series(np.arange(STEPS), one) for name, one in values.items()}
    loss = LossFacts(kind="mse", reduction="mean", nodes=nodes, outputs_shape=(64, 12))
    causes = diagnose(Evidence(series=series, facts=Facts(steps=STEPS, loss=loss)))
    assert ("single_class_labels" in [cause.code for cause in causes]) == is_one
