"""The learning rate of a training, also of one whose optimizer has several groups."""

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.series import Series

COLLAPSED = 1e-2
"""Share of the largest learning rate below which nothing is learnt any more."""


def learning_rates(evidence: Evidence) -> Series:
    """Returns the learning rate at each step; with several groups, the largest of those that are known at a step."""
    alone = evidence["learning_rate"].finite
    groups = [series.finite for name, series in evidence.series.items() if name.startswith("learning_rate/")]
    groups = [series for series in groups if len(series)]
    if len(alone) or not groups:
        return alone
    steps = np.concatenate([series.steps for series in groups])
    values = np.concatenate([series.values for series in groups])
    known = np.unique(steps)
    largest = np.full(len(known), -np.inf)
    np.maximum.at(largest, np.searchsorted(known, steps), values)
    return Series(known, largest)


def has_collapsed(rates: Series) -> bool:
    """Whether the learning rate was nearly nothing for half of the training; one that ends at zero need not be."""
    late = rates.values[len(rates) // 2 :]
    return len(rates) > 1 and float(np.median(late)) < COLLAPSED * float(rates.values.max())
