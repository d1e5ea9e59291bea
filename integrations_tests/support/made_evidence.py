"""Evidence that tests of rules make up."""

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.series import Series

STEPS = 60
STANDING = np.full(STEPS, 2.3) + 0.01 * np.sin(np.arange(STEPS))


def evidence(*, facts, loss=STANDING, **signals):
    """Signals by name, one value for each step."""
    found = {name: np.asarray(values, np.float64) for name, values in (signals | {"loss": loss}).items()}
    return Evidence(series={name: Series(np.arange(STEPS), one) for name, one in found.items()}, facts=facts)


def of_loss(**fields):
    """Facts of a loss, by default the mean of cross entropies."""
    return Facts(steps=STEPS, loss=LossFacts(**{"kind": "cross_entropy", "reduction": "mean"} | fields))
