"""The health of a run's gradients: a score from its findings, and what to do about them."""

import math
from collections.abc import Sequence
from enum import StrEnum

from debuggers.detectors.finding import Finding, name_some

_CRITICAL_SCORE = 0.5
_WEIGHTS = {
    "non_finite_gradient": 1.0,
    "exploding_gradient": 0.8,
    "vanishing_gradient": 0.8,
    "vanishing_by_depth": 0.8,
    "zero_gradient": 0.8,
    "dead_units": 0.6,
    "large_update": 0.6,
    "small_update": 0.4,
    "non_finite_loss": 1.0,
    "non_finite_activation": 1.0,
    "non_finite_weight": 1.0,
    "weights_stand_still": 0.8,
    "idle_optimizer": 0.8,
    "outside_optimizer": 0.8,
    "skipped_steps": 1.0,
    "saturated_units": 0.6,
    "poor_initialization": 0.6,
    "overfitting": 0.4,
}
WEIGHED_KINDS = frozenset(_WEIGHTS)
"""Kinds of findings with a weight of their own."""
_OTHER_WEIGHT = 0.6
_TOO_FAST = frozenset({"non_finite_gradient", "non_finite_loss", "exploding_gradient", "large_update", "dead_units"})
_UNREACHED = frozenset({"zero_gradient", "vanishing_gradient", "vanishing_by_depth"})
_ADVICE = {
    "non_finite_gradient": (
        "Find where the first NaN or infinity arises in {names}: look for NaN in the inputs and for log, sqrt and "
        "division near zero in the loss, lower the learning rate, and under float16 use a GradScaler."
    ),
    "non_finite_weight": (
        "Restore a checkpoint without NaN and infinity in {names}; running statistics keep the NaN of a single batch, "
        "even if its step is skipped: check inputs before the forward pass."
    ),
    "exploding_gradient": (
        "Clip the gradient norm or lower the learning rate; {names} exploded: check their initialisation and the "
        "batches at these steps."
    ),
    "vanishing_gradient": (
        "Help gradients reach {names}: use residual connections, normalisation, ReLU-like activations instead of "
        "saturating ones, or a larger initialisation."
    ),
    "vanishing_by_depth": (
        "Help gradients reach {names}, the first layers: use residual connections, normalisation, ReLU-like "
        "activations instead of saturating ones, or a larger initialisation."
    ),
    "zero_gradient": (
        "All gradients of {names} are zero: check for dead units after them, a branch that the loss does not depend "
        "on, a flat loss, and underflow in narrow dtypes; freeze them if that is intended."
    ),
    "skipped_steps": (
        "The model no longer learns: look for NaN in the inputs and in the loss, and lower the learning rate; "
        "session.step(loss, replay=...) of a DebugSession names where the first NaN arises."
    ),
    "dead_units": (
        "Revive the dead units of {names}: lower the learning rate, start their biases at zero or above, or use a "
        "leaky activation."
    ),
    "saturated_units": (
        "Bring the inputs of {names} back to where the activation is not flat: lower the learning rate, normalise what "
        "enters, or start from smaller weights."
    ),
    "poor_initialization": (
        "Start {names} from smaller weights: a variance of 1 / inputs of the layer, or 2 / inputs before a ReLU."
    ),
    "overfitting": (
        "Keep the weights of the lowest validation loss, and stop there; more data, augmentation, weight decay or a "
        "smaller model move it further down."
    ),
    "weights_stand_still": (
        "The model does not learn: check that the learning rate is not (nearly) zero, that no step is skipped, and "
        "that nothing puts weights back to what they were; in bfloat16 and float16 small updates are rounded away, "
        "which float32 weights prevent."
    ),
    "idle_optimizer": (
        "Call step() of the optimizer that holds {names} after the backward pass, and check that its learning rate is "
        "above 0; or freeze them if they should not be trained."
    ),
    "outside_optimizer": (
        "Add {names} to the optimizer, or freeze them if they should not be trained; their gradients also accumulate, "
        "because the optimizer's zero_grad does not reset them."
    ),
    "large_update": "Lower the learning rate of {names} or warm it up: updates are larger than the weights.",
    "small_update": "Raise the learning rate of {names}, or freeze them if they should not be trained.",
}


class Health(StrEnum):
    """The health of a run's gradients, in one word."""

    HEALTHY = "healthy"
    PARTIAL = "no problem in what was checked"
    WARNING = "warning"
    CRITICAL = "critical"
    UNKNOWN = "unknown"


def health_score(findings: Sequence[Finding], cells: int, *, last_step: int | None = None, steps: int = 1) -> float:
    """Returns 1 without findings, and less for more or worse ones, down to 0; those of level info do not count.

    The product over the kinds k of findings of ``1 - w * b * (1 + sqrt(x))``, where

    - w is the weight of the kind: anything non-finite 1; exploding, vanishing and zero gradients, weights that stand
      still or are in no optimizer 0.8; dead units, large updates and others 0.6; small updates and overfitting 0.4;
    - b is 1/2 while a finding of the kind goes on, and 1/4 when all of them are over, times the share of the steps
      that had been taken when the last of them was: what has not come back for long hardly counts;
    - x is the share of cells, a tensor at a step, in which the rule was broken; its root, because a few layers that
      fail can stop all of them.

    Each factor falls with every finding that comes, lasts longer, or comes back, so the product does too; as long as
    nothing does, it rises with the steps. The weights and the form are stepscope's own choice.

    Args:
        findings: What was found.
        cells: Tensors measured, summed over the steps.
        last_step: The last step that was checked; with None, an ended finding counts as if it had just ended.
        steps: How many steps were checked, up to that one.
    """
    score = 1.0
    findings = [finding for finding in findings if finding.is_problem]
    for kind in {finding.kind for finding in findings}:
        same = [finding for finding in findings if finding.kind == kind]
        base = 0.5
        if not any(finding.ongoing for finding in same):
            quiet = 0 if last_step is None else last_step - max(finding.last_step for finding in same)
            base = 0.25 * (1 - min(1.0, max(0, quiet) / max(1, steps)))
        share = min(1.0, sum(finding.steps for finding in same) / max(1, cells))
        score *= 1 - _WEIGHTS.get(kind, _OTHER_WEIGHT) * base * (1 + math.sqrt(share))
    return score


def health_of(findings: Sequence[Finding], score: float, *, complete: bool = True) -> Health:
    """Names the health: healthy without findings above level info, critical below a score of 0.5, else warning.

    Args:
        findings: What was found.
        score: Their ``health_score``.
        complete: Whether everything was checked; if not, the absence of findings means ``PARTIAL``.
    """
    if not any(finding.is_problem for finding in findings):
        return Health.HEALTHY if complete else Health.PARTIAL
    return Health.CRITICAL if score < _CRITICAL_SCORE else Health.WARNING


def recommend(findings: Sequence[Finding]) -> tuple[str, ...]:
    """Returns one sentence for each kind of finding, naming its layers; the gravest kinds first.

    A larger learning rate is advised against nothing that speaks for a smaller one, nor for what gets no gradient.
    """
    names: dict[str, list[str]] = {}
    too_fast = any(finding.kind in _TOO_FAST for finding in findings)
    unreached = {finding.name for finding in findings if finding.kind in _UNREACHED}
    for finding in findings:
        if finding.kind == "small_update" and (too_fast or finding.name in unreached):
            continue
        group = names.setdefault(finding.kind, [])
        if finding.name not in group:
            group.append(finding.name)
    kinds = sorted(names.keys() & _ADVICE.keys(), key=lambda kind: (-_WEIGHTS[kind], kind))
    return tuple(_ADVICE[kind].format(names=name_some(names[kind])) for kind in kinds)
