"""Which part parameters take in a training, and how much of the model they are."""

from collections.abc import Sequence

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import ParameterFacts

ALL = 0.999
"""Share of a model's weights from which none is trained."""


def with_role(evidence: Evidence, role: str) -> list[str]:
    """Returns the names of the parameters with a role."""
    return [parameter.name for parameter in evidence.facts.parameters if parameter.role == role]


def share_of(evidence: Evidence, names: Sequence[str]) -> float:
    """Their share of all elements."""
    sizes = {one.name: float(np.prod(one.shape)) for one in evidence.facts.parameters}
    return sum(sizes[name] for name in names) / max(1.0, sum(sizes.values()))


def nothing_is_trained(evidence: Evidence, without: Sequence[str]) -> bool:
    """Whether those without gradients are a whole model, and no scalar or vector of it is trained either."""
    return none_is_trained(evidence, without) and not with_role(evidence, "trained")


def none_is_trained(evidence: Evidence, without: Sequence[str]) -> bool:
    """Whether those without gradients are a whole model, but for scalars and vectors: a small head is trained too."""
    has_weight = any(one.role == "trained" and len(one.shape) > 1 for one in evidence.facts.parameters)
    return share_of(evidence, without) > ALL and not has_weight


def trained_matrices(evidence: Evidence) -> list[ParameterFacts]:
    """Returns the parameters of two dimensions and more that are trained."""
    return [one for one in evidence.facts.parameters if one.role == "trained" and len(one.shape) > 1]


def trained_weights(evidence: Evidence) -> int:
    """How many elements are trained."""
    return sum(int(np.prod(one.shape)) for one in evidence.facts.parameters if one.role == "trained")
