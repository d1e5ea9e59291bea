"""Causes in the course of the learning rate, and in when training ended."""

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.rates import COLLAPSED, learning_rates
from debuggers.diagnosis.derived.relation import hits
from debuggers.diagnosis.derived.updates import (
    AGREE,
    ENOUGH,
    HEALTHY_RATIO,
    LARGE_RATIO,
    SMALL_RATIO,
    STAYED,
    UNDER_WAY,
    attention_layers,
    collapse,
    died,
    early_collapse,
    is_ramped,
    is_trial,
    late_agreement,
    setback,
    travelled,
)
from debuggers.diagnosis.derived.visits import FEW_VISITS, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import Progress, progress_of
from debuggers.diagnosis.series import Series

FEWEST = 20
"""Points of a loss from which its end is judged."""
SLOWED = 0.25
"""Share of a fall that comes in the last third where it has hardly slowed down: three quarters of a straight line's."""
HALF = 0.5
"""Share of a fall that comes in the last third of one that accelerates: of a straight line it is a third."""
BEGUN = 0.1
"""Share of a constant output's loss up to which little of what there is was learnt."""
HALF_WAY = 0.5
"""The same, of both, from which a training has not only begun, however fast its loss falls at the end."""
LOWERED = 0.03
"""Share of its largest by which a rate has fallen that has begun to."""
FASTER = 0.8
"""Share of a third's slope below which the third before it was flatter: of a cosine's first half it is 0.6 and less."""
LITTLE = 0.3
"""The same up to which a model is still on its way where its weights are."""
MOSTLY_LEARNT = 0.7
"""Share of the way to a loss of zero that a training has gone, from its first loss or from that of a constant output
where it went on from weights that were trained before, from which it was not stopped too early."""
SHORT_WAY = 0.2
"""Share of the way at its largest rate from which a schedule has ended the training long before its end."""
DECAYED = 0.1
"""Share of its largest below which a rate is near its end."""
LEARNT = 0.95
"""Part of a constant output's loss that is learnt by what its first steps have not harmed."""
SUDDEN = 0.05
"""Update ratio of first steps that is too large for attention: in the zoo, what attends and trains well without a
warm-up has 0.042 and less at first, and of eight that fail for want of one, all but one have 0.057 and more."""
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
    largest, first, last = float(rates.values[peak]), int(rates.steps[0]), int(rates.steps[-1])
    low = np.flatnonzero(rates.values[peak:] < COLLAPSED * largest)
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
    argument.advice = (
        f"Let the schedule end with the training: it reaches {rates.last:.2g} after {step - first} of "
        f"{last - first} steps; call scheduler.step() once an epoch if it counts epochs."
    )
    return argument


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
    attends = _trains_attention(evidence)
    if (found := setback(evidence)) is not None and adaptive and is_ramped(evidence):
        argument.add(0.45, found[1], since=found[0])
        argument.add(
            MODERATE, f"the first updates change weights by {first:.2g} of their size, later ones by {later:.2g}"
        )
    if normalised and attends:
        fell = (collapse(evidence) or early_collapse(evidence)) if adaptive and first < LARGE_RATIO else None
        if fell is not None:
            argument.add(0.55, fell[1], since=fell[0])
            if (units := died(evidence)) is not None:
                name, share = units
                argument.add(
                    0.55, f"units of {name} died: {share.first:.0%} were dead at first, {share.last:.0%} later"
                )
        elif adaptive and first > max(LARGE_RATIO, 10 * later) and progress.learnt < 0.5 and argument.cause is None:
            argument.add(
                0.5,
                f"the first updates change weights by {first:.2g} of their size, later ones, which are sound, by "
                f"{later:.2g}, and the loss went from {progress.first:.3g} to {progress.last:.3g}",
                since=int(loss.steps[0]),
            )
        if adaptive and SUDDEN < first < LARGE_RATIO and argument.cause is None and progress.learnt < LEARNT:
            argument.add(
                0.5,
                f"the first updates change weights by {first:.2g} of their size, {first / HEALTHY_RATIO:.0f} times "
                "what is usual: an adaptive optimizer takes whole steps before it knows what gradients are like",
                since=int(loss.steps[0]),
            )
        if argument.cause is not None:
            argument.add(WEAK, "the model is a transformer, which needs small first steps")
    argument.advice = (
        f"Raise the learning rate from 0 over the first {max(10, len(loss) // 10)} steps or more "
        "(torch.optim.lr_scheduler.LinearLR)."
    )
    return argument


def _trains_attention(evidence: Evidence) -> bool:
    """Whether a layer of attention is trained: before a frozen transformer, a prompt alone may be."""
    names = attention_layers(evidence.facts.layers)
    roles = [one.role for one in evidence.facts.parameters if any(one.name.startswith(f"{name}.") for name in names)]
    return bool(names) and (not roles or set(roles) != {"frozen"})


def _weigh_visits(argument: Argument, evidence: Evidence) -> None:
    """How often the rows have come by then: the length of a training is counted in epochs.

    One that went through its rows for long and still learns was not broken off near its beginning. Where no validation
    says that others gain, too, a loss of rows that have come for more than a few times may fall because they are known.
    """
    seen, few = visits(evidence), FEW_VISITS * (2 if len(evidence.validation) else 1)
    if argument.cause is not None and seen is not None and seen.each > few:
        argument.against(MODERATE, f"each of about {seen.rows:,.0f} rows has come {seen.each:.0f} times by then")


def _weigh_end(argument: Argument, evidence: Evidence) -> None:
    """What the validation loss and the schedule say of the end."""
    validation, rates = evidence.validation.finite, learning_rates(evidence).values
    if argument.cause is not None and len(validation) >= 3 and validation.last <= validation.values.min():
        argument.add(MODERATE, f"the validation loss was at its lowest at the end ({validation.last:.3g})")
    if len(rates) and float(rates[-1]) < 0.1 * float(rates.max()):
        argument.against(STRONG, "the learning rate had fallen to less than a tenth: the schedule has come to its end")


def _cut_schedule(evidence: Evidence, progress: Progress) -> str | None:
    """What to say of a schedule that has only begun to lower the rate, while the loss still falls; None of others.

    A rate that falls faster and faster, as a cosine does in its first half, is on its way to an end that was planned
    for later. One that falls in a line or ever more slowly says nothing of that, nor does one that hardly falls.
    """
    rates, validation = learning_rates(evidence).finite, evidence.validation.finite
    if len(rates) < FEWEST or not progress.falls_late or progress.fell < BEGUN:
        return None
    if len(validation) >= 3 and validation.last > validation.values.min():  # stopped for what it validated
        return None
    peak = int(rates.values.argmax())
    falling = rates.since(int(rates.steps[peak]))
    if len(falling) < FEWEST or not HALF < falling.last / falling.first < 1 - LOWERED:
        return None
    changes = np.diff(falling.values) / np.diff(falling.steps)
    parts = [float(part.mean()) for part in np.array_split(changes, 3)]
    is_smooth = bool((changes[1:] < 0).all())
    if not is_smooth or not 0 > parts[0] > FASTER * parts[1] or not parts[1] > FASTER * parts[2]:
        return None
    return (
        f"the schedule has only begun: the learning rate has fallen from {falling.first:.3g} to {falling.last:.3g}, "
        f"faster and faster, while the loss still falls, at {progress.last:.3g}"
    )


def stopped_too_early(evidence: Evidence) -> Argument:
    """The loss still falls at the end, weights are not far from where they began, the validation loss is at its lowest.

    A training decelerates on its way to its end: a loss most of whose fall comes in the last third has only begun,
    unless it has come half of the way to zero by then. One that falls in a straight line is too weak to tell by itself:
    every short training that goes well looks so. Without validations, fewer than 100 steps are a trial of the loop, not
    a training that was stopped; fewer than 60 where little was learnt and weights are on their way. Weights that are
    where they began after steps of a usual size have been given too few of them, and outputs that are right more often
    than by chance before the loss shows it have only begun to be surer.
    """
    argument = Argument("stopped_too_early")
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    if progress is None or progress.points < FEWEST or progress.failed or evidence.facts.error:
        return argument
    if (cut := _cut_schedule(evidence, progress)) is not None:
        argument.add(0.6, cut)
        argument.advice = "Train to the schedule's end, or make the schedule for as many steps as there are."
        return argument
    typical = ratio.median(0.0)
    loss, way = evidence.facts.loss, travelled(evidence)
    under_way = STAYED < way < UNDER_WAY and progress.learnt < LITTLE
    still_falls = progress.late_fall > SLOWED and progress.falls_late
    hit = hits(evidence) if under_way and still_falls and 0 < progress.learnt < BEGUN else None
    has_moved = progress.fell >= 0.05 or (hit is not None and progress.points >= ENOUGH)
    if typical < SMALL_RATIO or not has_moved or max(progress.fell, progress.learnt_at_end) > MOSTLY_LEARNT:
        return argument
    if progress.first - progress.last <= progress.noise:  # batches differ by as much
        return argument
    is_certain = progress.fell > 0.1 and progress.first - progress.last > 5 * progress.noise
    has_begun = progress.late_fall > HALF and min(progress.fell_at_end, progress.learnt_at_end) < HALF_WAY
    if progress.points >= ENOUGH and has_begun and is_certain and loss is not None and loss.kind:
        argument.add(
            0.55,
            f"the loss falls faster and faster: {progress.late_fall:.0%} of its fall came in the last third of the "
            f"steps, at {progress.last:.3g}",
        )
    elif is_trial(evidence) and not (progress.points >= ENOUGH and under_way):
        return argument
    elif progress.late_fall > 0.3 and progress.falls_late and progress.fell > 0.1:
        argument.add(
            MODERATE,
            f"{progress.late_fall:.0%} of the loss's fall came in the last third of the steps, at {progress.last:.3g}",
        )
    if way <= STAYED and typical >= HEALTHY_RATIO and progress.learnt < LITTLE and not is_trial(evidence):
        argument.add(
            0.55,
            f"{progress.points} steps of a usual size, {typical:.1g} of the weights' each, come to {way:.0%} of it: "
            "the weights are still where they began",
        )
    agree = late_agreement(evidence)
    if under_way and (still_falls or (agree > AGREE and progress.learnt < BEGUN)):
        argued = f", and gradients agree to the end (cosine {agree:.2f})" if agree > AGREE else ""
        argument.add(MODERATE, f"all updates together come to {way:.0%} of the weights' size{argued}")
        above_noise = progress.first - progress.last > 5 * progress.noise
        if above_noise and len(evidence["baseline_loss"]) and progress.learnt < BEGUN:
            argument.add(
                MODERATE, f"the loss, at {progress.last:.3g}, is {1 - progress.learnt:.0%} of that of a constant output"
            )
    if hit is not None:
        argument.add(
            MODERATE,
            f"the accuracy is {hit[0]:.0%} already, above the {hit[1]:.0%} of the most frequent class, while the loss, "
            f"at {progress.last:.3g}, is hardly below that of a constant output",
        )
    _weigh_visits(argument, evidence)
    _weigh_end(argument, evidence)
    argument.advice = (
        f"Train longer: twice {evidence.facts.steps or progress.points:,} steps, or until the validation loss stands."
    )
    return argument
