"""A cause in when a training ended: too early."""

import math

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, Argument
from debuggers.diagnosis.derived.rates import learning_rates
from debuggers.diagnosis.derived.relation import hits
from debuggers.diagnosis.derived.updates import (
    AGREE,
    ENOUGH,
    HEALTHY_RATIO,
    ONE_DIRECTION,
    SMALL_RATIO,
    STAYED,
    TRIAL,
    UNDER_WAY,
    is_trial,
    late_agreement,
    travelled,
)
from debuggers.diagnosis.derived.visits import FEW_VISITS, MANY_VISITS, are_all_new, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import Progress, is_of_whole_loss, known_baseline, progress_of

FEWEST = 20
"""Points of a loss from which its end is judged."""
FEWEST_OF_LARGE, MANY_ROWS = 10, 500
"""The same of batches that are a good part of many rows, and how many these are."""
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
MORE_LEARNT = 0.85
"""The same of a short training whose rows have come a few times: its next epochs are worth more than later ones."""
STILL_FALLS = 0.1
"""Share of a fall that comes in the last third of one that has not ended: three tenths of a straight line's."""
FALLS_ON = 0.2
"""The same of one that falls on as it did: six tenths of a straight line's."""
NOT_ALL, ONE_PASS = 0.95, 1.5
"""Times that each row has come up to which many of them have not come at all, or most of them no more than once."""
BARELY = 0.25
"""Share of a constant output's loss up to which a training that has not come through its rows has more to learn."""
FEWEST_FALLING = 4
"""Validations, each better than the one before, that say that the next one would have been better still."""
EACH_EPOCH = 0.02
"""Share of a constant output's loss by which a validation loss falls in an epoch where another is worth its time."""
FEW_STEPS, NEARLY_ALL = 128, 0.9
"""Steps below which a training is short, and the share of what there is to learn that is nearly all of it."""


def stopped_too_early(evidence: Evidence) -> Argument:
    """The loss still falls at the end, weights are not far from where they began, the validation loss is at its lowest.

    A training decelerates on its way to its end: a loss most of whose fall comes in the last third has only begun,
    unless it has come half of the way to zero by then. One that falls in a straight line is too weak to tell by itself:
    every short training that goes well looks so. Without validations, fewer than 100 steps are a trial of the loop, not
    a training that was stopped; fewer than 60 where little was learnt and weights are on their way. Weights that are
    where they began after steps of a usual size have been given too few of them, and outputs that are right more often
    than by chance before the loss shows it have only begun to be surer. Validations of a short training that gain much
    in an epoch to the end say that the next one would have gained, too. Fewer than 20 steps count only where they were
    epochs of many rows.
    """
    argument = Argument("stopped_too_early")
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    if progress is None or progress.failed or evidence.facts.error or evidence.facts.trained_on:
        return argument
    if progress.points < FEWEST:
        _add_few_steps(argument, evidence, progress)
        return argument
    if (cut := _cut_schedule(evidence, progress)) is not None:
        argument.add(0.6, cut)
        argument.advice = "Train to the schedule's end, or make the schedule for as many steps as there are."
        return argument
    gaining = _gaining_validations(evidence, progress)
    if ratio.median(0.0) < SMALL_RATIO and gaining is None:
        return argument
    if (few := _few_epochs(evidence, progress)) is not None:
        argument.add(0.55, few)
    if few is None and gaining is not None:
        argument.add(0.55, gaining)
    _weigh_course(argument, evidence, progress)
    if gaining is None:
        _weigh_visits(argument, evidence)
    _weigh_end(argument, evidence)
    argument.advice = (
        f"Train longer: twice {evidence.facts.steps or progress.points:,} steps, or until the validation loss stands."
    )
    return argument


def _add_few_steps(argument: Argument, evidence: Evidence, progress: Progress) -> None:
    """A handful of steps for a few epochs of many rows, as of batches that are far too large for so little.

    Their gradients agree to the end, and the loss is not yet below that of a constant output. Of few rows, and of one
    batch again and again, it is a trial of the loop.
    """
    seen, agree = visits(evidence), late_agreement(evidence)
    if progress.points < FEWEST_OF_LARGE or seen is None or seen.rows < MANY_ROWS or seen.each < 2:
        return
    if agree > ONE_DIRECTION and len(evidence["baseline_loss"]) and progress.fell > 0 and progress.learnt < 0:
        argument.add(
            0.55,
            f"{seen.each:.0f} epochs of about {seen.rows:,.0f} rows are {progress.points} steps, whose gradients agree "
            f"to the end (cosine {agree:.2f}), and the loss, at {progress.last:.3g}, has not come to that of a "
            "constant output",
        )
        argument.advice = "Take smaller batches, or more epochs: what counts is the number of steps."


def _weigh_course(argument: Argument, evidence: Evidence, progress: Progress) -> None:
    """What the ends of the losses and the way of the weights say."""
    typical = evidence["update_ratio"].finite.median(0.0)
    loss, way = evidence.facts.loss, travelled(evidence)
    under_way = STAYED < way < UNDER_WAY and progress.learnt < LITTLE
    still_falls = progress.late_fall > SLOWED and progress.falls_late
    hit = hits(evidence) if under_way and still_falls and 0 < progress.learnt < BEGUN else None
    has_moved = progress.fell >= 0.05 or (hit is not None and progress.points >= ENOUGH)
    if not has_moved or max(progress.fell, progress.learnt_at_end) > MOSTLY_LEARNT:
        return
    if progress.first - progress.last <= progress.noise:  # batches differ by as much
        return
    is_certain = progress.fell > 0.1 and progress.first - progress.last > 5 * progress.noise
    has_begun = progress.late_fall > HALF and min(progress.fell_at_end, progress.learnt_at_end) < HALF_WAY
    if progress.points >= ENOUGH and has_begun and is_certain and loss is not None and loss.kind:
        argument.add(
            0.55,
            f"the loss falls faster and faster: {progress.late_fall:.0%} of its fall came in the last third of the "
            f"steps, at {progress.last:.3g}",
        )
    elif is_trial(evidence) and not (progress.points >= ENOUGH and under_way):
        return
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
    if (falling := _falling_validations(evidence, progress)) is not None:
        argument.add(0.55, falling)
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


def _weigh_visits(argument: Argument, evidence: Evidence) -> None:
    """How often the rows have come by then: the length of a training is counted in epochs.

    One that went through its rows for long and still learns was not broken off near its beginning. Where no validation
    says that others gain, too, a loss of rows that have come for more than a few times may fall because they are known.
    """
    seen = visits(evidence)
    if argument.cause is not None and seen is not None and seen.each > _few_visits(evidence):
        argument.against(MODERATE, f"each of about {seen.rows:,.0f} rows has come {seen.each:.0f} times by then")


def _few_visits(evidence: Evidence) -> float:
    """How often each row may have come where what the loss says of the rows still holds for others."""
    return FEW_VISITS * (2 if len(evidence.validation) else 1)


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


def _falling_validations(evidence: Evidence, progress: Progress) -> str | None:
    """What to say of a short training whose every validation was better than the one before; None of others.

    Longer ones, as of text, may learn little more for long although they are sound.
    """
    values = evidence.validation.finite.values
    is_short = progress.points < TRIAL and progress.learnt < LITTLE and is_of_whole_loss(evidence)
    if not is_short or len(values) < FEWEST_FALLING or not bool((np.diff(values) < 0).all()):
        return None
    return (
        f"the validation loss fell at each of {len(values)} validations, to {values[-1]:.3g}, and the training loss is "
        f"at {1 - progress.learnt:.0%} of that of a constant output after {progress.points} steps"
    )


def _gaining_validations(evidence: Evidence, progress: Progress) -> str | None:
    """What to say of a short training of a few epochs whose last validations still gained much; None of others.

    So ends what stops at the first validation that gains less than was asked for. The fall of the last third of the
    validations is counted by epochs, as they may come often or seldom; rows that have not come again are one epoch.
    """
    seen, validation = visits(evidence), evidence.validation.finite
    if progress.points >= FEW_STEPS or len(validation) < 2 or not is_of_whole_loss(evidence):
        return None
    if seen is None and not (are_all_new(evidence) and progress.late_fall > FALLS_ON):
        return None
    learns_on = progress.falls_late and progress.late_fall > STILL_FALLS and progress.learnt_at_end < NEARLY_ALL
    if not learns_on or (seen is not None and seen.each >= MANY_VISITS) or validation.last > validation.values.min():
        return None
    back = math.ceil((len(validation) - 1) / 3)
    before, share = float(validation.values[-1 - back]), float(validation.steps[-1] - validation.steps[-1 - back])
    epochs = max(seen.each * share / progress.points, 1.0) if seen is not None else 1.0
    each = (before - validation.last) / epochs / (known_baseline(evidence) or progress.first)
    if each < EACH_EPOCH:
        return None
    return (
        f"the validation loss still fell, from {before:.3g} to {validation.last:.3g}: in an epoch by {each:.1%} of "
        f"that of a constant output, after {progress.points} steps"
    )


def _few_epochs(evidence: Evidence, progress: Progress) -> str | None:
    """What to say of a short training whose rows have come a few times, and that still learns from them; else None.

    One that has not come through its rows has more to learn, however its loss falls at the end; one that came through
    them once, if it falls at all. Where the gradients of several batches add up, it is as long as it has batches.
    """
    seen, batches = visits(evidence), progress.points * evidence.facts.backward_passes
    is_short = progress.points >= ENOUGH and batches < TRIAL
    if not is_short or not is_of_whole_loss(evidence):
        return None
    if progress.fell < 0.1 or progress.first - progress.last < 5 * progress.noise:
        return None
    level = f"the loss is at {1 - progress.learnt_at_end:.0%} of that of a constant output"
    if seen is None:
        most = MORE_LEARNT if progress.late_fall > FALLS_ON else BARELY
        is_new = are_all_new(evidence) and progress.falls_late and progress.learnt_at_end < most
        return f"after {progress.points} steps hardly a row has come twice, and {level}" if is_new else None
    each = seen.each * evidence.facts.backward_passes
    falls = progress.falls_late and progress.late_fall > STILL_FALLS and progress.learnt_at_end < MORE_LEARNT
    is_one_pass = each < (ONE_PASS if progress.falls_late else NOT_ALL) and progress.learnt_at_end < BARELY
    if not (falls and each <= _few_visits(evidence)) and not is_one_pass:
        return None
    often = f"{each:.1f} times" if each > NOT_ALL else "less than once on average"
    return f"after {progress.points} steps each of about {seen.rows:,.0f} rows has come {often}, and {level}"
