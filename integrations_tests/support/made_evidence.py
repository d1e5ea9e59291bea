"""Evidence that tests of rules make up."""

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts, LossFacts, ParameterFacts
from debuggers.diagnosis.series import Series

STEPS = 60
STANDING = np.full(STEPS, 2.3) + 0.01 * np.sin(np.arange(STEPS))


def evidence(*, facts, loss=STANDING, tensors=None, findings=(), **signals):
    """Signals by name, and those of tensors by name and tensor: one value for each step, or a series."""
    many = {name: {of: _series(values) for of, values in each.items()} for name, each in (tensors or {}).items()}
    found = {name: _series(values) for name, values in (signals | {"loss": loss}).items()}
    return Evidence(series=found, tensors=many, facts=facts, findings=findings)


def _series(values):
    return values if isinstance(values, Series) else Series(np.arange(len(values)), np.asarray(values, np.float64))


def of_loss(**fields):
    """Facts of a loss, by default the mean of cross entropies."""
    return Facts(steps=STEPS, loss=LossFacts(**{"kind": "cross_entropy", "reduction": "mean"} | fields))


def of_roles(*roles, std=1.0, falls_to=0.5):
    """Linear layers with 12 inputs, of which PyTorch's own first weights have a deviation of 1/6, and norms."""
    parameters = tuple(
        ParameterFacts(name=f"{place}.weight", shape=(12,) if role == "norm" else (12, 12), std=std / 6,
                       role="trained" if role == "norm" else role)
        for place, role in enumerate(roles)
    )  # fmt: skip
    loss = Series(np.arange(200), np.geomspace(2.0, 2.0 * falls_to, 200))
    return Evidence(series={"loss": loss}, facts=Facts(steps=200, parameters=parameters))
