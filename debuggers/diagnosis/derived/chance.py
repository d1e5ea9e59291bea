"""What chance does to a share of the samples, such as an accuracy."""

import math

from debuggers.diagnosis.evidence import Evidence


def binomial_deviation(evidence: Evidence, share: float, batches: int) -> float:
    """Returns the standard deviation of a share over so many sampled batches.

    Args:
        evidence: Knows the size of the batches; one sample each if it does not.
        share: Expected of each sample, from 0 to 1.
        batches: How many.
    """
    rows = evidence["inputs/batch_size"].finite
    drawn = batches * rows.median(1.0)
    return math.sqrt(share * (1 - share) / max(1.0, drawn))
