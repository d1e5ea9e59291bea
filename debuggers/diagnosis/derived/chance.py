"""What chance does to a share of the samples, such as an accuracy."""

import math

from debuggers.diagnosis.evidence import Evidence


def binomial_deviation(evidence: Evidence, share: float, batches: int) -> float:
    """Returns the standard deviation of a share over so many sampled batches.

    Args:
        evidence: Knows the size of the batches, or how many classes a batch has as targets, such as one for each place
            of a sequence; one sample each if it does not.
        share: Expected of each sample, from 0 to 1.
        batches: How many.
    """
    loss, rows = evidence.facts.loss, evidence["inputs/batch_size"].finite.median(1.0)
    if loss is not None and loss.kind in ("cross_entropy", "nll") and loss.targets_shape != loss.outputs_shape:
        rows = max(rows, math.prod(loss.targets_shape))
    return math.sqrt(share * (1 - share) / max(1.0, batches * rows))
