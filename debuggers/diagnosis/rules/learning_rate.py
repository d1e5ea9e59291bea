"""Causes in the size of the steps: the learning rate, its schedule, warm-up, and when training ended."""

import math

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import Progress, progress_of
from debuggers.diagnosis.series import Series

HEALTHY_RATIO = 1e-3
"""|Δw| / |w| a step at which training usually goes well (Karpathy's lecture notes CS231n)."""
LARGE_RATIO = 0.1
SMALL_RATIO = 1e-4
"""Outside of these an update ratio is worth telling (TheDeepChecker; DeepDiagnosis: 1e-5 to 0.1)."""
COLLAPSED = 1e-2
"""Share of the largest learning rate below which nothing is learnt any more."""
STAYED = 0.1
"""Sum of all update ratios up to which weights stay where they were initialised, even if all updates agreed."""
UNDER_WAY = 0.5
"""The same up to which most of a model is still what it was initialised with."""
EARLY = 10
"""Steps in which an update that is too large shows first."""


def learning_rate_too_high(evidence: Evidence) -> Argument:
    """Updates are large from the first steps, and the loss blows up, rises, swings or stands far above its best.

    Gradients of neighbouring steps that point against each other say that steps jump over a valley.
    """
    argument = Argument("learning_rate_too_high")
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    early = ratio.until(int(ratio.steps[0]) + EARLY).values if len(ratio) else np.empty(0)
    largest = float(early.max()) if len(early) else 0.0
    typical = float(np.median(ratio.values)) if len(ratio) else 0.0
    if largest > LARGE_RATIO:
        step = int(ratio.steps[int(early.argmax())])
        strength = MODERATE if largest < 5 * LARGE_RATIO else 0.45
        argument.add(strength, f"the update at step {step} changes weights by {largest:.2g} of their size", since=step)
    elif typical > LARGE_RATIO / 3:
        argument.add(WEAK, f"updates change weights by {typical:.2g} of their size a step")
    if progress is not None:
        _add_course(argument, progress, evidence)
        if largest > 3 * LARGE_RATIO and progress.learnt < 0.1 and len(evidence["baseline_loss"]):
            argument.add(MODERATE, f"the loss is at {progress.last:.3g} at the end, no better than a constant output's")
    cosine = evidence["gradient_cosine"].finite
    if len(cosine) >= 5 and float(np.median(cosine.values)) < -0.3:
        value = float(np.median(cosine.values))
        argument.add(
            MODERATE, f"gradients turn round from step to step (cosine {value:.2f})", since=int(cosine.steps[0])
        )
    for kind in ("large_update", "exploding_gradient"):
        if found := evidence.found(kind):
            argument.add(WEAK, found[0].message, since=found[0].step, where=[one.name for one in found[:3]])
    if 0 < typical < HEALTHY_RATIO / 3 and largest < LARGE_RATIO:
        argument.against(STRONG, f"updates change weights by only {typical:.1g} of their size a step")
    argument.advice = _lower(evidence, max(typical, largest / 3))
    return argument


def _add_course(argument: Argument, progress: Progress, evidence: Evidence) -> None:
    loss = evidence["loss"]
    if progress.blew_up is not None:
        argument.add(0.55, f"the loss rose from {progress.first:.3g} to {progress.highest:.3g}", since=progress.blew_up)
    elif progress.rose:
        argument.add(0.5, f"the loss rose from {progress.first:.3g} to {progress.last:.3g}", since=int(loss.steps[0]))
    elif (
        progress.fell > 0
        and progress.noise > 0.3 * abs(progress.last)
        and progress.swings > 0.5
        and progress.fell < 0.5
    ):
        argument.add(WEAK, f"the loss swings by {progress.noise:.2g} from step to step around {progress.last:.3g}")
    if progress.became_non_finite is not None:
        before = loss.until(progress.became_non_finite - 1).finite
        if len(before) >= 2 and float(before.values[-3:].max()) > 2 * abs(float(before.values[0])):
            argument.add(
                0.55,
                f"the loss grew to {before.values[-3:].max():.3g} before it became NaN or infinite",
                since=int(before.steps[0]),
            )
        elif len(before) >= 1:
            argument.add(WEAK, f"the loss became NaN or infinite at step {progress.became_non_finite}")
    elif progress.learnt > 0.6:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
    if progress.stands and not progress.failed and progress.highest > 3 * abs(progress.first):
        argument.add(MODERATE, f"the loss rose to {progress.highest:.3g} and came back to no less than at first")


def _lower(evidence: Evidence, ratio: float) -> str:
    rate = _rate(evidence)
    if rate is None:
        return "Lower the learning rate by a factor of 10."
    factor = min(max(ratio / HEALTHY_RATIO, 10.0), 1e4)
    why = f" (the update ratio is {ratio:.2g}, about {HEALTHY_RATIO:g} is usual)" if ratio else ""
    return f"lr: {rate:.3g} → {_one_digit(rate / factor):g}{why}."


def learning_rate_too_low(evidence: Evidence) -> Argument:
    """Weights hardly change, gradients keep their direction, and the loss falls slowly and steadily or not at all."""
    argument = Argument("learning_rate_too_low")
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    if progress is None or progress.failed or not len(ratio):
        return argument
    typical = float(np.median(ratio.values))
    alive = evidence["total_norm/gradients"].finite
    if not len(alive) or float(np.median(alive.values)) == 0 or progress.fell > 0.5:
        return argument
    since = int(ratio.steps[0])
    travelled = _travelled(evidence)
    if typical < SMALL_RATIO / 10:
        argument.add(0.75, f"updates change weights by only {typical:.1g} of their size a step", since=since)
    elif travelled < STAYED and max(progress.learnt, progress.fell) < 0.15:
        argument.add(
            STRONG,
            f"all updates together change weights by no more than {travelled:.1%} of their size, and the loss fell by "
            f"{progress.fell:.1%}",
            since=since,
        )
    elif typical < SMALL_RATIO:
        argument.add(0.5, f"updates change weights by only {typical:.1g} of their size a step", since=since)
    elif typical < HEALTHY_RATIO / 2:
        argument.add(WEAK, f"updates change weights by {typical:.1g} of their size a step", since=since)
    if argument.cause is not None:
        cosine = evidence["gradient_cosine"].finite
        if len(cosine) >= 5 and float(np.median(cosine.values)) > 0.8:
            argument.add(WEAK, f"gradients keep their direction (cosine {np.median(cosine.values):.2f})")
        if 0.2 < progress.late_fall < 0.6 and progress.fell > 0:
            argument.add(WEAK, f"the loss falls in a straight line, by {progress.fell:.1%} in all")
    rates = evidence["learning_rate"].finite
    if len(rates) and float(rates.values[-1]) < COLLAPSED * float(rates.values.max()):
        argument.against(STRONG, "it was higher before: see schedule_collapsed")
    rate = _rate(evidence)
    if rate is not None and typical > 0:
        factor = min(max(HEALTHY_RATIO / typical, 10.0), 1e6)
        argument.advice = (
            f"lr: {rate:.3g} → {_one_digit(rate * factor):g} (the update ratio is {typical:.1g}, about "
            f"{HEALTHY_RATIO:g} is usual)."
        )
    else:
        argument.advice = "Raise the learning rate tenfold, until the loss falls."
    return argument


def schedule_collapsed(evidence: Evidence) -> Argument:
    """The learning rate is below a hundredth of its largest for more than a third of the run, and the loss stands.

    A decay to zero at the end is healthy.
    """
    argument = Argument("schedule_collapsed")
    rates, loss = evidence["learning_rate"].finite, evidence["loss"].finite
    if len(rates) < 4 or float(rates.values.max()) <= 0:
        return argument
    peak = int(rates.values.argmax())
    low = np.flatnonzero(rates.values[peak:] < COLLAPSED * rates.values[peak])
    if not len(low):
        return argument
    step, first, last = int(rates.steps[peak + low[0]]), int(rates.steps[0]), int(rates.steps[-1])
    share = (last - step) / max(1, last - first)
    if share < 0.35 or not (rates.values[peak + low[0] :] < 2 * COLLAPSED * rates.values[peak]).all():
        return argument
    argument.add(
        STRONG,
        f"the learning rate fell from {rates.values[peak]:.3g} to {rates.values[-1]:.3g}, "
        f"since step {step} it is below a "
        f"hundredth of its largest: {share:.0%} of the run",
        since=step,
    )
    after, before = loss.since(step).values, loss.until(step).values
    if len(after) >= 4 and len(before) >= 2 and float(np.median(before[:3])) > float(np.median(after[-5:])) > 0.0:
        rest = float(np.median(after[-5:])) / float(np.median(before[:3]))
        if rest > 0.1:
            argument.add(MODERATE, f"the loss has stood at {np.median(after[-5:]):.3g} since")
    argument.advice = (
        f"Let the schedule end with the training: it reaches {rates.values[-1]:.2g} after {step - first} of "
        f"{last - first} steps; call scheduler.step() once an epoch if it counts epochs."
    )
    return argument


def missing_warmup(evidence: Evidence) -> Argument:
    """The first updates are too large and the loss rises at once, though later updates are of a usual size."""
    argument = Argument("missing_warmup")
    progress, ratio, loss = progress_of(evidence), evidence["update_ratio"].finite, evidence["loss"].finite
    rates = evidence["learning_rate"].finite
    if progress is None or len(loss) < 20 or len(ratio) < 8 or progress.became_non_finite is not None:
        return argument
    if len(rates) > 1 and float(rates.values[0]) < 0.5 * float(rates.values.max()):
        return argument
    early = loss.values[1 : max(4, len(loss) // 8)]
    start = max(float(loss.values[0]), progress.first)
    hump = float(early.max()) / max(abs(start), 1e-12)
    adaptive = evidence.facts.optimizer.startswith(("Adam", "RAdam", "NAdam", "Lion", "RMSprop"))
    first, later = float(ratio.values[:5].max()), float(np.median(ratio.values[len(ratio) // 2 :]))
    stands_out = float(early.max()) > start + 5 * progress.noise
    came_back = progress.learnt > 0.1 and progress.last < 0.9 * start
    if hump > 1.3 and stands_out and came_back and adaptive and first > 3 * later and not progress.failed:
        step = int(loss.steps[1 + int(early.argmax())])
        argument.add(
            0.45,
            f"the loss rises to {early.max():.3g} at step {step}, {hump:.1f} times "
            "its first value, and comes back later",
            since=int(loss.steps[0]),
        )
        argument.add(
            MODERATE, f"the first updates change weights by {first:.2g} of their size, later ones by {later:.2g}"
        )
    normalised = any("Norm" in layer.kind for layer in evidence.facts.layers)
    attends = any(
        "Attention" in layer.kind or "NonDynamicallyQuantizable" in layer.kind for layer in evidence.facts.layers
    )
    if argument.cause is not None and normalised and attends:
        argument.add(WEAK, "the model is a transformer, which needs small first steps")
    argument.advice = (
        f"Raise the learning rate from 0 over the first {max(10, len(loss) // 10)} steps or more "
        "(torch.optim.lr_scheduler.LinearLR)."
    )
    return argument


def stopped_too_early(evidence: Evidence) -> Argument:
    """The loss still falls at the end, weights are not far from where they began, the validation loss is at its lowest.

    A loss that falls in a straight line is too weak to tell by itself: every short training that goes well looks so.
    """
    argument = Argument("stopped_too_early")
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    if progress is None or progress.points < 20 or progress.failed or evidence.facts.error:
        return argument
    typical = float(np.median(ratio.values)) if len(ratio) else 0.0
    if typical < SMALL_RATIO or not 0.05 < progress.fell < 0.7:
        return argument
    if progress.late_fall > 0.3 and progress.fell > 0.1:
        argument.add(
            MODERATE,
            f"{progress.late_fall:.0%} of the loss's fall came in the last third of the steps, at {progress.last:.3g}",
        )
    travelled = _travelled(evidence)
    if STAYED < travelled < UNDER_WAY and progress.late_fall > 0.1:
        argument.add(MODERATE, f"all updates together come to {travelled:.0%} of the weights' size")
    validation = evidence["validation/loss"].finite
    if argument.cause is not None and len(validation) >= 3 and float(validation.values[-1]) <= validation.values.min():
        argument.add(MODERATE, f"the validation loss was at its lowest at the end ({validation.values[-1]:.3g})")
    argument.advice = (
        f"Train longer: twice {evidence.facts.steps or progress.points:,} steps, or until the validation loss stands."
    )
    return argument


def _travelled(evidence: Evidence) -> float:
    """The sum of the update ratios of all steps: how far weights may have come, in units of their size."""
    ratio, loss = evidence["update_ratio"].finite, evidence["loss"]
    steps = np.arange(int(loss.steps[0]), int(loss.steps[-1]) + 1)
    return float(np.interp(steps, ratio.steps, ratio.values).sum()) if len(ratio) else math.inf


def _rate(evidence: Evidence) -> float | None:
    rates: Series = evidence["learning_rate"].finite
    if len(rates):
        return float(rates.values.max())
    settings = [group.settings.get("lr") for group in evidence.facts.groups]
    return next((float(rate) for rate in settings if isinstance(rate, (int, float))), None)


def _one_digit(value: float) -> float:
    """1, 3 or 10 times a power of ten, the nearest on a logarithmic scale."""
    if not 0 < value < math.inf:
        return value
    power = 10.0 ** math.floor(math.log10(value))
    return min((power, 3 * power, 10 * power), key=lambda choice: abs(math.log(choice / value)))
