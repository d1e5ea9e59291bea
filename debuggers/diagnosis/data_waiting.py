"""How long the steps of a training wait for data, from its signals."""

from dataclasses import dataclass

import numpy as np

from debuggers.diagnosis.evidence import Evidence

FEWEST = 5
"""Measured steps from which a typical share is told."""
SETTLING = 9
"""Steps after the first measured one that say less: processes start beside them, and caches fill (own choice)."""


@dataclass(frozen=True, slots=True)
class DataWaiting:
    """The typical wait of a step, between the end of the one before it and its forward pass.

    Attributes:
        share: Its median share of the step, from 0 to 1, without the first step.
        step_ms: The median time of a step, in milliseconds; NaN where it is not known.
        since_step: The first step whose share is known.
        is_settled: Whether it is that of steps after the first ten; before them, a training still warms up.
    """

    share: float
    step_ms: float
    since_step: int
    is_settled: bool


def data_waiting(evidence: Evidence) -> DataWaiting | None:
    """Returns how long steps wait for data; None where that was measured at fewer than five steps."""
    share, time = evidence["data_share"].finite, evidence["step_ms"].finite
    if len(share) < FEWEST:
        return None
    first = int(share.steps[0])
    late = share.since(first + SETTLING)
    is_settled = len(late) >= FEWEST
    return DataWaiting(
        share=float(np.median(late.values if is_settled else share.values[1:])),
        step_ms=time.median(),
        since_step=first,
        is_settled=is_settled,
    )
