"""What chance does to a share of the samples, such as an accuracy."""

import math

from debuggers.diagnosis.evidence import Evidence


def binomial_deviation(evidence: Evidence, share: float, batches: int) -> float:
    """Returns the standard deviation of a share over so many sampled batches.

    Args:
        evidence: Knows the size of the batches.
        share: Expected of each sample, from 0 to 1.
        batches: How many.
    """
    return math.sqrt(share * (1 - share) / max(1.0, _samples(evidence, batches)))


def is_below(evidence: Evidence, found: float, share: float, batches: int, *, deviations: float) -> bool:
    """Whether a share of so many sampled batches is below the expected one by more than so many deviations.

    Those of a normal distribution, in whose place stands Chernoff's bound exp(-n KL(found ‖ share)) on the probability
    of so few: of a rare event, none is the lowest share that there is, and within a few deviations of what is expected.
    """
    if not found < share < 1:
        return False
    divergence = (1 - found) * math.log((1 - found) / (1 - share))
    divergence += found * math.log(found / share) if found else 0.0
    return _samples(evidence, batches) * divergence > deviations**2 / 2


def _samples(evidence: Evidence, batches: int) -> float:
    """As many as rows, or as classes that a batch has as targets, such as one for each place of a sequence.

    One for each batch if neither is known.
    """
    loss, rows = evidence.facts.loss, evidence["inputs/batch_size"].finite.median(1.0)
    if loss is not None and loss.kind in ("cross_entropy", "nll") and loss.targets_shape != loss.outputs_shape:
        rows = max(rows, math.prod(loss.targets_shape))
    return batches * rows
