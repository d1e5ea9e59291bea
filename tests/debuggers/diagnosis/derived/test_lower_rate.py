"""The advice where steps are too large."""

import numpy as np
import pytest

from debuggers.diagnosis.derived.lower_rate import lower_rate
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.series import Series


def of(**series):
    return {name.replace("__", "/"): Series(np.arange(3), np.full(3, value)) for name, value in series.items()}


@pytest.mark.parametrize(
    ("kind", "mean", "text"),
    [
        ("mse", 152.0, "Standardise the targets, whose size is 1.5e+02, or lower lr: 0.1 → 0.001"),
        ("mse", 5.0, "lr: 0.1 → 0.001"),
        ("l1", 152.0, "lr: 0.1 → 0.001"),
    ],
)
def test_targets_that_are_large_are_named_where_gradients_are_proportional_to_them(kind, mean, text):
    series = of(learning_rate=0.1, targets__mean=mean, targets__std=7.0)
    advice = lower_rate(Evidence(series=series, facts=Facts(loss=LossFacts(kind=kind))), 0.1, "")
    assert advice == f"{text} (the update ratio is 0.1, about 0.001 is usual)."


def test_the_rate_of_one_of_several_optimizers_is_named_and_one_that_is_not_known_is_not():
    series = of(learning_rate=0.1, learning_rate__Adam=0.03)
    assert lower_rate(Evidence(series=series), 0.0, "learning_rate/Adam") == "learning_rate/Adam: 0.03 → 0.003."
    assert lower_rate(Evidence(), 0.1, "") == "Lower the learning rate by a factor of 10."
