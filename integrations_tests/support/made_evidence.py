"""Evidence that tests of rules make up."""

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts
from debuggers.diagnosis.series import Series

STEPS = 60
STANDING = np.full(STEPS, 2.3) + 0.01 * np.sin(np.arange(STEPS))


def evidence(*, facts, loss=STANDING, tensors=None, findings=(), **signals):
    """Signals by name, and those of tensors by name and tensor, one value for each step."""
    many = {name: {of: _series(values) for of, values in each.items()} for name, each in (tensors or {}).items()}
    found = {name: _series(values) for name, values in (signals | {"loss": loss}).items()}
    return Evidence(series=found, tensors=many, facts=facts, findings=findings)


def _series(values):
    return Series(np.arange(len(values)), np.asarray(values, np.float64))


def of_loss(**fields):
    """Facts of a loss, by default the mean of cross entropies."""
    return Facts(steps=STEPS, loss=LossFacts(**{"kind": "cross_entropy", "reduction": "mean"} | fields))
