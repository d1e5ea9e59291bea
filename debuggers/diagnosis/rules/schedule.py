"""Causes in the course of the learning rate."""

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.attention import attends_at_first, norms_come_first, trains_attention
from debuggers.diagnosis.derived.rates import COLLAPSED, falls_by_inverse_root, learning_rates
from debuggers.diagnosis.derived.updates import (
    HEALTHY_RATIO,
    LARGE_RATIO,
    collapse,
    died,
    early_collapse,
    is_ramped,
    setback,
    thrown_by_first_squares,
)
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of
from debuggers.diagnosis.series import Series

SHORT_WAY = 0.2
"""Share of the way at its largest rate from which a schedule has ended the training long before its end."""
DECAYED = 0.1
"""Share of its largest below which a rate is near its end."""
ABOUT = 1.001
"""Times a limit that a rate still keeps to: a hundredth of one is not exactly 0.01 times it in floating point."""
LEARNT = 0.95
"""Part of a constant output's loss that is learnt by what its first steps have not harmed."""
GROWN = 1.5
"""Times their first size from which weights have been led away by first steps that are too large at any time."""
SUDDEN = 0.05
"""Update ratio of first steps that is too large for attention: in the zoo, what attends and trains well without a
warm-up has 0.042 and less at first, and of eight that fail for want of one, all but one have 0.057 and more."""
MANY_NORMS = 8
"""Layer norms from which a model counts as deep."""
STANDS, PART, LEARNT_HALF = 0.05, 0.15, 0.5
"""Of a loss that stands before its rate falls: the share of its fall that comes from the third quarter to the last, the
share of the run, and the share of what a constant output leaves to learn."""
FEWEST_FOR_QUARTERS = 20
"""Steps whose quarters tell a fall from noise."""
UNFINISHED = 0.6
"""Share of the loss of a constant output below which much is left to learn."""


def schedule_collapsed(evidence: Evidence) -> Argument:
    """The learning rate is below a hundredth of its largest for more than a third of the run, and the loss stands.

    Or all steps together go no further than a fifth of them at the largest rate would, and much was left to learn. A
    decay to zero at the end is healthy: a straight line or a cosine goes half of that way.
    """
    argument = Argument("schedule_collapsed")
    rates, loss, progress = learning_rates(evidence), evidence["loss"].finite, progress_of(evidence)
    if len(rates) < 4 or float(rates.values.max()) <= 0:
        return argument
    peak = int(rates.values.argmax())
    largest, first = float(rates.values[peak]), int(rates.steps[0])
    last = max(int(rates.steps[-1]), evidence.facts.last_step)
    low = np.flatnonzero(rates.values[peak:] < ABOUT * COLLAPSED * largest)
    step = int(rates.steps[peak + low[0]]) if len(low) else last
    share = (last - step) / max(1, last - first)
    stays = len(low) > 0 and bool((rates.values[peak + low[0] :] < 2 * COLLAPSED * largest).all())
    if share >= 0.35 and stays:
        argument.add(
            STRONG,
            f"the learning rate fell from {largest:.3g} to {rates.values[-1]:.3g}, "
            f"since step {step} it is below a "
            f"hundredth of its largest: {share:.0%} of the run",
            since=step,
        )
    elif (way := _way(rates.since(int(rates.steps[peak])))) is not None and way < SHORT_WAY:
        step = int(rates.steps[peak + int(np.flatnonzero(rates.values[peak:] < DECAYED * largest)[0])])
        unfinished = progress is not None and not progress.failed and progress.learnt < UNFINISHED
        if last - int(rates.steps[peak]) > 0.5 * (last - first) and unfinished:
            argument.add(
                0.45,
                f"the learning rate fell from {largest:.3g} to {rates.values[-1]:.3g}: all steps together go as far as "
                f"{way:.0%} of them would at its largest",
                since=int(rates.steps[peak]),
            )
    if argument.cause is None:
        return argument
    after, before = loss.since(step).values, loss.until(step).values
    if len(after) >= 4 and len(before) >= 2 and float(np.median(before[:3])) > float(np.median(after[-5:])) > 0.0:
        rest = float(np.median(after[-5:])) / float(np.median(before[:3]))
        if rest > 0.1:
            argument.add(MODERATE, f"the loss has stood at {np.median(after[-5:]):.3g} since")
    if _had_arrived(evidence, rates.since(int(rates.steps[peak]))):
        argument.against(STRONG, "the loss had hardly fallen any more while the rate was above a tenth of its largest")
    argument.advice = (
        f"Let the schedule end with the training: it reaches {rates.last:.2g} after {step - first} of "
        f"{last - first} steps; call scheduler.step() once an epoch if it counts epochs."
    )
    return argument


def _had_arrived(evidence: Evidence, rates: Series) -> bool:
    """Whether a loss had fallen far, and stood, before its rate fell below a tenth: larger steps had nothing to gain.

    What comes near its end as exp(-t) does falls by a twentieth from the third to the last quarter of four times that.
    A seventh of the run or more is asked for: noise may make the first steps of a longer way look like its end.
    """
    loss, progress, end = evidence["loss"].finite, progress_of(evidence), evidence.facts.last_step
    low = np.flatnonzero(rates.values < ABOUT * DECAYED * float(rates.values[0]))
    step = int(rates.steps[low[0]]) if len(low) else end
    values = loss.until(step).values
    if progress is None or progress.learnt < LEARNT_HALF or len(values) < FEWEST_FOR_QUARTERS or step < PART * end:
        return False
    quarters = [float(np.median(part)) for part in np.array_split(values, 4)]
    return quarters[2] - quarters[3] < STANDS * (float(np.median(values[:3])) - quarters[3])


def _way(rates: Series) -> float | None:
    """The mean learning rate over its largest, which is the first one; None if it does not fall below a tenth."""
    if len(rates) < 4 or float(rates.values[-1]) >= DECAYED * float(rates.values[0]):
        return None
    steps = np.arange(int(rates.steps[0]), int(rates.steps[-1]) + 1)
    return float(np.interp(steps, rates.steps, rates.values).mean() / rates.values[0])


def missing_warmup(evidence: Evidence) -> Argument:
    """The first updates are too large: the loss rises at once and comes back, or a transformer collapses.

    Attention with adaptive steps needs small first ones (Xiong et al. 2020): of less than a twentieth of the weights,
    which is what Adam's first steps are with the learning rate itself. More than a tenth is too large at any time.
    """
    argument = Argument("missing_warmup")
    progress, ratio, loss = progress_of(evidence), evidence["update_ratio"].finite, evidence["loss"].finite
    rates = learning_rates(evidence)
    if progress is None or len(loss) < 20 or len(ratio) < 8 or progress.became_non_finite is not None:
        return argument
    if len(rates) > 1 and rates.first < 0.5 * float(rates.values.max()):
        return argument
    adaptive = evidence.facts.optimizer.startswith(("Adam", "RAdam", "NAdam", "Lion", "RMSprop"))
    first, later = float(ratio.values[:5].max()), float(np.median(ratio.values[len(ratio) // 2 :]))
    normalised = any("Norm" in layer.kind for layer in evidence.facts.layers)
    attends = trains_attention(evidence)
    if (found := setback(evidence)) is not None and adaptive and is_ramped(evidence):
        argument.add(0.45, found[1], since=found[0])
        argument.add(
            MODERATE, f"the first updates change weights by {first:.2g} of their size, later ones by {later:.2g}"
        )
    if argument.cause is None and (thrown := thrown_by_first_squares(evidence)):
        argument.add(0.6, thrown, since=int(loss.steps[0]))
    is_deep = _normalises_often(evidence) and progress.learnt < LEARNT_HALF
    if (normalised and attends) or is_deep:
        fell = (collapse(evidence) or early_collapse(evidence)) if adaptive and first < LARGE_RATIO else None
        if fell is not None:
            argument.add(0.55, fell[1], since=fell[0])
            if (units := died(evidence)) is not None:
                name, share = units
                argument.add(
                    0.55, f"units of {name} died: {share.first:.0%} were dead at first, {share.last:.0%} later"
                )
        elif (
            adaptive
            and first > max(LARGE_RATIO, 10 * later)
            and not _has_grown(evidence)
            and (progress.learnt < 0.5 or (progress.learnt < LEARNT and attends_at_first(evidence)))
            and argument.cause is None
        ):
            argument.add(
                0.5,
                f"the first updates change weights by {first:.2g} of their size, later ones, which are sound, by "
                f"{later:.2g}, and the loss went from {progress.first:.3g} to {progress.last:.3g}",
                since=int(loss.steps[0]),
            )
        wants_a_rise = adaptive and progress.learnt < LEARNT and attends_at_first(evidence)
        wants_a_rise &= argument.cause is None and not norms_come_first(evidence)
        if wants_a_rise and SUDDEN < first < LARGE_RATIO:
            argument.add(
                0.5,
                f"the first updates change weights by {first:.2g} of their size, {first / HEALTHY_RATIO:.0f} times "
                "what is usual: an adaptive optimizer takes whole steps before it knows what gradients are like",
                since=int(loss.steps[0]),
            )
        elif wants_a_rise and SUDDEN / 2 < first < LARGE_RATIO and falls_by_inverse_root(rates):
            argument.add(
                0.5,
                f"the learning rate begins at {rates.first:.3g} and falls with the inverse root of the step, as in a "
                f"schedule that rises to it first, and the first updates change weights by {first:.2g} of their size",
                since=int(loss.steps[0]),
            )
        if argument.cause is not None:
            kind = "a transformer" if attends else f"deep, with {MANY_NORMS} layer norms or more"
            argument.add(WEAK, f"the model is {kind}, which needs small first steps")
    argument.advice = (
        f"Raise the learning rate from 0 over the first {max(10, len(loss) // 10)} steps or more "
        "(torch.optim.lr_scheduler.LinearLR)."
    )
    return argument


def _normalises_often(evidence: Evidence) -> bool:
    """Whether a model has many layer norms, as behind the sums of many blocks, whose first gradients are large there.

    So it is of any block, with attention or without (Xiong et al. 2020); of batch norms nothing of the kind is known.
    """
    return sum("LayerNorm" in layer.kind or "RMSNorm" in layer.kind for layer in evidence.facts.layers) >= MANY_NORMS


def _has_grown(evidence: Evidence) -> bool:
    """Whether weights have grown so that later updates are small beside them for that: see learning_rate_too_high."""
    norm = evidence["weight_norm"].finite
    return len(norm) > 1 and norm.last > GROWN * norm.first
