"""How many rows a training draws its batches from, and how often each has come: estimated from repeated rows."""

from dataclasses import dataclass

import numpy as np

from debuggers.diagnosis.evidence import Evidence

FEW_ROWS = 100.0
"""Rows up to which what a model learns of them need not hold for others."""
MANY_VISITS = 10.0
"""Times that each row has come from which a model has learnt what its rows have in common."""
FEW_VISITS = 3.0
"""Times that each row has come up to which what the model says of it is as good as of new ones."""
_FEWEST = 8
_LEAST = 0.02
"""Share of repeated rows from which it says something."""
FAR_ABOVE = 10.0
"""Times the training loss from which a validation loss shows that rows were learnt by heart."""
MOSTLY_EQUAL = 0.8
"""Share of a batch's rows from which one row is what the model is given, whatever the others are."""


@dataclass(frozen=True, slots=True)
class Visits:
    """How a training goes through its rows.

    Attributes:
        rows: How many different rows there are, about.
        each: How often each has come, about.
    """

    rows: float
    each: float


def visits(evidence: Evidence) -> Visits | None:
    """Returns how often each row has come; None where hardly any row of sampled batches has come again.

    The share of a batch's rows that earlier ones had is the share of all rows that is known by then (Good 1953), so
    that the known rows over that share are all of them.
    """
    again, known, size = (evidence[f"inputs/{name}"] for name in ("repeated_rows", "rows_so_far", "batch_size"))
    if len(again) < _FEWEST or len(known) != len(again) or not len(size):
        return None
    late = slice(-max(3, len(again) // 3), None)
    share = float(np.mean(again.values[late]))
    if share < _LEAST:
        return None
    rows = float(np.median(known.values[late])) / share
    # No row comes again within an epoch, and batches that are sampled at distances may always be the same ones.
    first = int((again.values > _LEAST).argmax())
    rows = max(rows, float(again.steps[first - 1] - again.steps[0]) * size.median()) if first else rows
    loss = evidence["loss"]
    steps = max(evidence.facts.steps, int(loss.steps[-1] - loss.steps[0]) + 1 if len(loss) else 0)
    return Visits(rows, steps * size.median() / rows)


def are_all_new(evidence: Evidence) -> bool:
    """Whether rows of sampled batches are known, and hardly one has come again; a few may be equal by chance."""
    again = evidence["inputs/repeated_rows"].values
    return len(again) >= _FEWEST and float(np.mean(again)) < _LEAST
