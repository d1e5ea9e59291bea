"""Of what kind inputs are: codes, or measurements."""

import numpy as np

from debuggers.diagnosis.evidence import Evidence


def are_codes(evidence: Evidence) -> bool:
    """Whether inputs are whole numbers, or two values alone: their variance is the largest that their mean allows.

    Those between a and b with the mean m have at most the variance (b - m)(m - a), if all are one or the other.
    Those of a loss that is not known, such as a policy's, may be the places of a world, however they are written.
    """
    facts = evidence.facts
    if (facts.inputs is not None and facts.inputs.integer) or (facts.loss is not None and not facts.loss.kind):
        return True
    least, most, mean, deviation = (evidence[f"inputs/{name}"].finite.values for name in ("min", "max", "mean", "std"))
    if not min(map(len, (least, most, mean, deviation))) or len(mean) != len(deviation):
        return False
    low, high = float(least.min()), float(most.max())
    ends = low == least.max() and high == most.min() and low < high
    return bool(ends and np.allclose(deviation**2, (high - mean) * (mean - low), rtol=1e-3))
