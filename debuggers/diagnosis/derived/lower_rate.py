"""What to do about steps that are too large: a lower learning rate, or smaller targets."""

import numpy as np

from debuggers.diagnosis.derived.rates import highest_rate, one_digit
from debuggers.diagnosis.derived.updates import HEALTHY_RATIO
from debuggers.diagnosis.evidence import Evidence

LARGE_TARGETS = 10.0
"""Root mean square of targets from which they decide how large steps are, as much as the rate does."""


def lower_rate(evidence: Evidence, ratio: float, name: str) -> str:
    """Returns an advice.

    Args:
        evidence: What is known of the training.
        ratio: How large updates are, in units of the weights.
        name: The series of the rate that is meant, of several optimizers; ``""`` for the only one.
    """
    series = evidence[name].finite if name else None
    rate = highest_rate(evidence) if series is None or not len(series) else float(series.values.max())
    size = _size_of_targets(evidence)
    first = f"Standardise the targets, whose size is {size:.2g}, or lower " if size > LARGE_TARGETS else ""
    if rate is None:
        return (first or "Lower ") + "the learning rate by a factor of 10."
    factor = min(max(ratio / HEALTHY_RATIO, 10.0), 1e4)
    why = f" (the update ratio is {ratio:.2g}, about {HEALTHY_RATIO:g} is usual)" if ratio else ""
    return f"{first}{name or 'lr'}: {rate:.3g} → {one_digit(rate / factor):g}{why}."


def _size_of_targets(evidence: Evidence) -> float:
    """The root mean square of targets to which the gradients of a squared error are proportional; 0 of other losses."""
    loss, mean, deviation = evidence.facts.loss, evidence["targets/mean"].finite, evidence["targets/std"].finite
    if loss is None or loss.kind not in ("mse", "rmse") or not len(mean) or not len(deviation):
        return 0.0
    return float(np.hypot(mean.first, deviation.first))
