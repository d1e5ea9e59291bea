"""What the batches of a training have in common: one class, or rows that were known."""

import numpy as np

from debuggers.diagnosis.derived.relation import FEWEST
from debuggers.diagnosis.evidence import Evidence

NEARLY_ALL, SOME = 0.8, 0.6
"""Shares of a batch's rows that had come before: of a data set that is known, and of one that has grown."""


def of_one_class(evidence: Evidence) -> float | None:
    """The share of batches that have one class only, if there are several classes and it is no chance; else None."""
    classes, so_far, size = (
        evidence[name] for name in ("targets/classes", "targets/classes_so_far", "inputs/batch_size")
    )
    if len(classes) < FEWEST or not len(so_far) or so_far.last <= 1:
        return None
    alone, top = float(np.mean(classes.values == 1)), evidence["targets/top_share_so_far"]
    rows = size.median(1.0)
    by_chance = top.last**rows if len(top) else 0.0
    return alone if alone > 0.5 + 0.5 * by_chance else None


def extended_at(evidence: Evidence) -> int | None:
    """The step from which new rows come among known ones, after nearly all had been known; None if there is none.

    In any order, the rows of a data set that stays the same are known for good once they have come. Where another
    part takes the place of the one before, as with one class after another, none of the new batches' rows is known.
    """
    again = evidence["inputs/repeated_rows"].finite
    known = np.flatnonzero(again.values > NEARLY_ALL)
    if not len(known):
        return None
    later = np.flatnonzero(again.values[known[0] :] < SOME) + known[0]
    is_among = len(later) > 0 and float(again.values[known[0] :].min()) > 1 - NEARLY_ALL
    return int(again.steps[later[0]]) if is_among else None


def always_the_same_class(evidence: Evidence) -> bool:
    """Whether one class alone ever fills a batch, as the ones of an adversarial loss do: sorted rows are of each."""
    classes, mean = evidence["targets/classes"], evidence["targets/mean"]
    steps = np.intersect1d(classes.steps[classes.values == 1], mean.steps)
    return len(steps) > 1 and bool(np.ptp(mean.values[np.isin(mean.steps, steps)]) == 0)
