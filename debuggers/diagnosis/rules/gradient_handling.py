"""Causes in what a loop does with gradients between backward and the optimizer's step."""

import numpy as np
import numpy.typing as npt

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.updates import ADAPTIVE, HEALTHY_RATIO, are_all_zero, are_turned_around
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of

NEARLY_ALL = 0.9
"""Share of the steps from which gradients are never zeroed but by exception."""
FEWEST_UNUSED = 10
"""Steps that used the last of several batches alone, from which it is the loop's way."""
LEARNT_MOST, LEARNT_WELL = 0.7, 0.9
"""Shares of what a constant output leaves to learn: from the first, steps are not far too large, from the second, a
training goes well."""
DECOUPLED = ("AdamW", "Lion")
"""Optimizers that keep decay apart from the gradient."""
FEWEST_LOOKS, AT_LIMIT = 10, 0.8
"""Sampled steps at either end of a training, and the share of the largest magnitude that gradients have on average in
them, from which nearly all of their elements lie at a limit."""
SIGNS_SERVE = 0.7
"""Share of what a constant output leaves to learn above which signs were enough."""
JUMP = 20.0
"""Times its median and its first values from which the norm of the gradients explodes at single steps."""


def gradients_not_zeroed(evidence: Evidence) -> Argument:
    """The first backward pass after an optimizer step finds the gradients of the step before.

    Or those of several batches are zeroed before each step, one after the other, as by ``zero_grad()`` in a loop over
    micro-batches. Those that are zero at each step were zeroed at the wrong place: see no_update.
    """
    argument = Argument("gradients_not_zeroed")
    if are_all_zero(evidence):
        return argument
    for invariant in evidence.facts.invariants:
        if invariant.name == "gradients_zeroed" and invariant.broken >= 3:
            share = invariant.broken / max(1, invariant.checked)
            if share > 0.3:
                argument.add(
                    CERTAIN,
                    f"at {invariant.broken} of {invariant.checked} steps the gradients "
                    "of the step before were still there",
                    since=invariant.first_step if share < NEARLY_ALL else 0,  # whatever follows began with it
                    where=[invariant.where] if invariant.where else [],
                )
    unused = next((one for one in evidence.facts.invariants if one.name == "backward_passes_are_used"), None)
    is_habit = unused is not None and unused.broken >= max(FEWEST_UNUSED, NEARLY_ALL * unused.checked)
    if argument.cause is None and unused is not None and is_habit:
        argument.add(
            STRONG,
            f"at {unused.broken} of {unused.checked} steps the gradients of two batches or more had been set to zero, "
            "and the step used those of the last one alone",
            since=unused.first_step,
        )
        progress = progress_of(evidence)
        if progress is not None and progress.learnt > LEARNT_WELL:
            argument.against(MODERATE, f"the loss fell by {progress.fell:.0%} all the same")
    argument.advice = "Call optimizer.zero_grad() once a step, before backward (after it, if micro-batches accumulate)."
    return argument


def clipping_too_strong(evidence: Evidence) -> Argument:
    """Clipping leaves less than a twentieth of most gradients, so that steps are tiny; or hardly more than signs."""
    argument = Argument("clipping_too_strong")
    if (level := _value_of_all(evidence)) is not None:
        argument.add(
            0.6,
            f"the elements of the gradients of all weights are about {level:.2g} in magnitude in nearly all sampled "
            "steps: they are clipped by value, and what is left of them is their signs",
        )
        progress = progress_of(evidence)
        if progress is not None and progress.learnt > SIGNS_SERVE:
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
        argument.advice = f"clip_value: {level:.2g} → far above what most elements have, or clip by norm."
        return argument
    clipped, total = evidence["clipped_norm"].finite, evidence["total_norm/gradients"].finite
    unclipped = evidence["unclipped_norm"].finite
    before = unclipped if len(unclipped) else total
    steps, ours, theirs = np.intersect1d(clipped.steps, before.steps, return_indices=True)
    if len(steps) < 5:
        return argument
    share = clipped.values[ours] / np.maximum(before.values[theirs], 1e-300)
    left = float(np.median(share))
    is_called = any(one.name.startswith("clipped_") and one.checked for one in evidence.facts.invariants)
    if not left and not is_called:  # they were zeroed: see no_update
        return argument
    if left < 0.05 and not _is_rescaled(share, before.values[theirs]):
        argument.add(
            0.5 if left > 0.01 else 0.6, f"clipping leaves {left:.1%} of a typical gradient", since=int(steps[0])
        )
        progress = progress_of(evidence)
        ratio = evidence["update_ratio"].finite
        typical = ratio.median()
        if typical < 3e-4:
            argument.add(STRONG, f"updates change weights by only {typical:.1g} of their size a step")
        elif (
            progress is not None and not progress.failed and progress.learnt < (0.3 if typical < HEALTHY_RATIO else 0.1)
        ):
            argument.add(MODERATE, f"the loss fell by {progress.fell:.0%}, to {progress.last:.3g}")
        if (decay := _outweighing_decay(evidence, float(np.median(clipped.values[ours])), left)) is not None:
            argument.add(STRONG, decay)
        elif evidence.facts.optimizer.startswith(ADAPTIVE):
            argument.against(MODERATE, f"{evidence.facts.optimizer} divides by the gradient's own size")
        if typical > HEALTHY_RATIO and progress is not None and progress.learnt > 0.6:
            argument.against(STRONG, f"steps are of a usual size, and the loss fell by {progress.fell:.0%}")
    level = float(np.median(before.values[theirs]))
    argument.advice = (
        f"Clip at a norm that only outliers exceed: the median is {level:.2g}, so max_norm={2 * level:.2g}."
    )
    scaled = next((one for one in evidence.facts.invariants if one.name == "clipped_after_unscaling"), None)
    if argument.confidence and scaled is not None and scaled.broken:
        argument.add(
            MODERATE,
            f"at {scaled.broken} steps the gradients still held the loss scale when they were clipped",
            since=scaled.first_step,
            where=[scaled.where] if scaled.where else [],
        )
        argument.advice = "Call scaler.unscale_(optimizer) before the clipping: its limit is smaller by the loss scale."
    return argument


def _value_of_all(evidence: Evidence) -> float | None:
    """The magnitude that nearly all elements of the gradients of all weights have, where the loop clips; else None.

    No gradient of a weight is as large in each of its elements as in those of another by itself.
    """
    known = [
        series.finite.values
        for name, series in evidence.of_tensors("gradient_rms").items()
        if name.endswith("weight") and len(series.finite) >= FEWEST_LOOKS
    ]
    if not evidence.facts.clips or len(known) < 2:
        return None
    sizes = np.array([values[-FEWEST_LOOKS:] for values in known] + [values[:FEWEST_LOOKS] for values in known])
    level = float(sizes.max())
    return level if level > 0 and float(np.median(sizes)) > AT_LIMIT * level else None


def _outweighing_decay(evidence: Evidence, clipped: float, left: float) -> str | None:
    """What to say of a weight decay that outweighs clipped gradients, and would not outweigh them as they were.

    Adam and others whose decay is a part of the gradient add it behind the clipping, and divide both by their size.
    """
    facts, size = evidence.facts, evidence["weight_norm"].finite.median(0.0)
    settings = [group.settings for group in facts.groups if not group.settings.get("decoupled_weight_decay")]
    known = [float(value) for one in settings if isinstance(value := one.get("weight_decay"), (int, float))]
    pull = size * max(known, default=0.0)
    if (
        facts.optimizer in DECOUPLED
        or not facts.optimizer.startswith(ADAPTIVE)
        or not clipped / 2 < pull < clipped / left
    ):
        return None
    return (
        f"what clipping leaves has a norm of {clipped:.2g}, and the weight decay of {max(known):g}, which is added to "
        f"it, one of {pull:.2g}: weights go where decay draws them"
    )


def _is_rescaled(shares: npt.NDArray[np.float64], norms: npt.NDArray[np.float64]) -> bool:
    """Whether all gradients were multiplied with one constant, as by a loop that takes its own loss scale out again.

    What is left of a gradient under a limit differs from step to step, as norms do.
    """
    return bool(np.ptp(shares) < 1e-3 * shares.min() and np.ptp(norms) > 1e-2 * norms.min())


def clipping_ineffective(evidence: Evidence) -> Argument:
    """The loop clips, its limit is never reached, and gradients explode all the same; or it clips too early or late."""
    argument = Argument("clipping_ineffective")
    facts, norms = evidence.facts, evidence["total_norm/gradients"].finite
    for invariant in facts.invariants:
        if invariant.name == "clipped_after_backward" and invariant.broken >= max(3, 0.8 * invariant.checked):
            argument.add(
                CERTAIN,
                f"{invariant.broken} of {invariant.checked} times gradients were clipped before the backward pass, or "
                "after the optimizer's step: the limit met none that a step used",
                since=invariant.first_step,
            )
            argument.advice = "Clip after loss.backward() and right before optimizer.step()."
            return argument
        if invariant.name == "clipped_gradients_exist" and invariant.broken >= max(3, 0.8 * invariant.checked):
            argument.add(
                CERTAIN,
                f"{invariant.where} was called {invariant.broken} times and was given none of the model's gradients: "
                "its parameters are a frozen copy's, or those of a generator that is used up",
                since=invariant.first_step,
            )
            argument.advice = "Clip the parameters that the optimizer holds: clip_grad_norm_(model.parameters(), …)."
            return argument
    if not facts.clips or len(evidence["clipped_norm"]) or len(norms) < 5 or are_turned_around(evidence):
        return argument
    progress, largest, typical = progress_of(evidence), float(norms.values.max()), norms.median()
    start = float(np.median(norms.values[:5]))
    argument.add(  # a limit that is for emergencies alone is sound
        WEAK / 2, f"clipping never changed a gradient, of a norm up to {largest:.3g}", since=int(norms.steps[0])
    )
    if found := evidence.found("exploding_gradient", "large_update"):
        argument.add(MODERATE, found[0].message, since=found[0].step)
    if largest > JUMP * max(start, typical) > 0:  # one that only falls has its largest values at first
        argument.add(MODERATE, f"the norm rises from {start:.3g} at first to {largest:.3g}")
    explodes = argument.confidence > WEAK / 2
    if explodes and progress is not None and (progress.failed or progress.learnt < 0.1):
        argument.add(MODERATE, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
    elif progress is not None and progress.learnt > 0.6:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
    argument.advice = (
        "Clip after the last backward pass and scaler.unscale_(optimizer), right before "
        f"optimizer.step(); max_norm near the usual norm, {min(start, typical):.2g}."
    )
    return argument


def accumulation_not_averaged(evidence: Evidence) -> Argument:
    """Several backward passes a step, each with the mean of its batch, and nothing divides by their number."""
    argument = Argument("accumulation_not_averaged")
    facts = evidence.facts
    loss = facts.loss
    if facts.backward_passes < 2 or loss is None or loss.reduction not in ("mean", ""):
        return argument
    passes = facts.backward_passes
    if abs(abs(loss.factor) * passes - 1) < 0.5 or abs(loss.factor) < 0.75:
        return argument
    if not loss.kind:
        return argument
    argument.add(0.5, f"{passes} backward passes a step, and the loss is not divided by {passes}", since=0)
    progress = progress_of(evidence)
    ratio = evidence["update_ratio"].finite
    if progress is not None and (progress.failed or progress.rose):
        argument.add(STRONG, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
    elif len(ratio) and float(ratio.values[:10].max()) > 0.05:
        argument.add(MODERATE, f"the first updates change weights by up to {ratio.values[:10].max():.2g} of their size")
    elif progress is not None and progress.learnt < 0.1:
        argument.add(MODERATE, f"the loss is at {progress.last:.3g} at the end, where it was {progress.first:.3g}")
    elif progress is not None and progress.learnt > 0.5:
        argument.against(MODERATE, f"the loss fell by {progress.fell:.0%}")
    if progress is not None and not progress.failed and progress.learnt > LEARNT_MOST:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%}: steps are not too large")
    if facts.optimizer.startswith(ADAPTIVE):
        argument.against(WEAK, f"{facts.optimizer} divides by the gradient's own size")
    argument.advice = f"(loss / {passes}).backward(), or divide the learning rate by {passes}."
    return argument
