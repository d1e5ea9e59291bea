"""The health of a run's gradients: a score from its findings, and what to do about them."""

from __future__ import annotations

import math
from collections.abc import Sequence
from enum import StrEnum

from debuggers.detectors.finding import Finding, name_some

_CRITICAL_SCORE = 0.5
_WEIGHTS = {
    "non_finite_gradient": 1.0,
    "exploding_gradient": 0.8,
    "vanishing_gradient": 0.8,
    "zero_gradient": 0.8,
    "dead_units": 0.6,
    "large_update": 0.6,
    "small_update": 0.4,
}
_OTHER_WEIGHT = 0.6
_ADVICE = {
    "non_finite_gradient": (
        "Find where the first NaN or infinity arises in {names}: look for NaN in the inputs and for log, sqrt and "
        "division near zero in the loss, lower the learning rate, and under float16 use a GradScaler."
    ),
    "exploding_gradient": (
        "Clip the gradient norm or lower the learning rate; {names} exploded: check their initialisation and the "
        "batches at these steps."
    ),
    "vanishing_gradient": (
        "Help gradients reach {names}: use residual connections, normalisation, ReLU-like activations instead of "
        "saturating ones, or a larger initialisation."
    ),
    "zero_gradient": (
        "Nothing reaches {names}: check for dead units behind them, for a branch that the loss does not depend on, "
        "and for underflow in narrow dtypes; freeze them if that is meant."
    ),
    "dead_units": (
        "Wake the dead units of {names}: lower the learning rate, start their biases at zero or above, or use a "
        "leaky activation."
    ),
    "large_update": "Lower the learning rate of {names} or warm it up: updates are larger than the weights.",
    "small_update": "Raise the learning rate of {names}, or freeze them if they are meant to stand still.",
}


class Health(StrEnum):
    """How a run's gradients are, in one word."""

    HEALTHY = "healthy"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


def health_score(findings: Sequence[Finding], cells: int) -> float:
    """Returns 1 without findings, and less for more or worse ones, down to 0.

    The product over the kinds k of findings of ``1 - w * b * (1 + sqrt(x))``, where

    - w is the weight of the kind: non-finite 1, exploding, vanishing and zero gradients 0.8, dead units and large
      updates 0.6, small updates 0.4;
    - b is 1/2 while a finding of the kind goes on, and 1/4 when all of them are over;
    - x is the share of cells, a tensor at a step, in which the rule was broken; its root, because a few layers that
      fail can stop all of them.

    Each factor falls with every finding that comes, lasts longer, or comes back, so the product does too. The
    weights and the form are stepscope's own choice.

    Args:
        findings: What was found.
        cells: Tensors measured, summed over the steps.
    """
    score = 1.0
    for kind in {finding.kind for finding in findings}:
        same = [finding for finding in findings if finding.kind == kind]
        base = 0.5 if any(finding.ongoing for finding in same) else 0.25
        share = min(1.0, sum(finding.steps for finding in same) / max(1, cells))
        score *= 1 - _WEIGHTS.get(kind, _OTHER_WEIGHT) * base * (1 + math.sqrt(share))
    return score


def health_of(findings: Sequence[Finding], score: float) -> Health:
    """Names the health: healthy without findings, critical below a score of 0.5, else warning."""
    if not findings:
        return Health.HEALTHY
    return Health.CRITICAL if score < _CRITICAL_SCORE else Health.WARNING


def recommend(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Returns one sentence for each kind of finding, naming its layers; the gravest kinds first."""
    names: dict[str, list[str]] = {}
    for finding in findings:
        group = names.setdefault(finding.kind, [])
        if finding.name not in group:
            group.append(finding.name)
    kinds = sorted(names.keys() & _ADVICE.keys(), key=lambda kind: (-_WEIGHTS[kind], kind))
    return tuple(_ADVICE[kind].format(names=name_some(names[kind])) for kind in kinds)
