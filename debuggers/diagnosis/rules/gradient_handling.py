"""Causes in what a loop does with gradients between backward and the optimizer's step."""

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of

ADAPTIVE = ("Adam", "RMSprop", "NAdam", "RAdam", "Lion", "Adagrad", "Adadelta")


def gradients_not_zeroed(evidence: Evidence) -> Argument:
    """The first backward pass after an optimizer step finds the gradients of the step before."""
    argument = Argument("gradients_not_zeroed")
    for invariant in evidence.facts.invariants:
        if invariant.name == "gradients_zeroed" and invariant.broken >= 3:
            share = invariant.broken / max(1, invariant.checked)
            if share > 0.3:
                argument.add(
                    CERTAIN,
                    f"at {invariant.broken} of {invariant.checked} steps the gradients "
                    "of the step before were still there",
                    since=invariant.first_step,
                    where=[invariant.where] if invariant.where else [],
                )
    argument.advice = "Call optimizer.zero_grad() once a step, before backward (after it, if micro-batches accumulate)."
    return argument


def clipping_too_strong(evidence: Evidence) -> Argument:
    """Clipping leaves less than a twentieth of most gradients, so that steps are tiny."""
    argument = Argument("clipping_too_strong")
    clipped, total = evidence["clipped_norm"].finite, evidence["total_norm/gradients"].finite
    unclipped = evidence["unclipped_norm"].finite
    before = unclipped if len(unclipped) else total
    steps, ours, theirs = np.intersect1d(clipped.steps, before.steps, return_indices=True)
    if len(steps) < 5:
        return argument
    share = clipped.values[ours] / np.maximum(before.values[theirs], 1e-300)
    left = float(np.median(share))
    if left < 0.05:
        argument.add(
            0.5 if left > 0.01 else 0.6, f"clipping leaves {left:.1%} of a typical gradient", since=int(steps[0])
        )
        progress = progress_of(evidence)
        ratio = evidence["update_ratio"].finite
        if len(ratio) and float(np.median(ratio.values)) < 3e-4:
            argument.add(STRONG, f"updates change weights by only {np.median(ratio.values):.1g} of their size a step")
        elif progress is not None and progress.learnt < 0.3 and not progress.failed:
            argument.add(MODERATE, f"the loss fell by {progress.fell:.0%} only")
        if evidence.facts.optimizer.startswith(ADAPTIVE):
            argument.against(MODERATE, f"{evidence.facts.optimizer} divides by the gradient's own size")
    level = float(np.median(before.values[theirs]))
    argument.advice = (
        f"Clip at a norm that only outliers exceed: the median is {level:.2g}, so max_norm={2 * level:.2g}."
    )
    return argument


def clipping_ineffective(evidence: Evidence) -> Argument:
    """The loop clips, and yet the optimizer gets gradients far above the limit, or under a loss scale."""
    argument = Argument("clipping_ineffective")
    if not evidence.facts.clips:
        return argument
    clipped, total = evidence["clipped_norm"].finite, evidence["unclipped_norm"].finite
    steps, ours, theirs = np.intersect1d(clipped.steps, total.steps, return_indices=True)
    if len(steps) >= 5 and evidence.found("exploding_gradient", "large_update"):
        share = clipped.values[ours] / np.maximum(total.values[theirs], 1e-300)
        if float(share.min()) > 0.99:
            argument.add(
                0.6, f"clipping never changed a gradient, of a norm up to {total.values.max():.3g}", since=int(steps[0])
            )
    argument.advice = (
        "Clip after the last backward pass and scaler.unscale_(optimizer), right before "
        "optimizer.step(); max_norm near the median norm."
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
    elif progress is not None and progress.learnt > 0.5:
        argument.against(MODERATE, f"the loss fell by {progress.fell:.0%}")
    if facts.optimizer.startswith(ADAPTIVE):
        argument.against(WEAK, f"{facts.optimizer} divides by the gradient's own size")
    argument.advice = f"(loss / {passes}).backward(), or divide the learning rate by {passes}."
    return argument
