"""A cause in the size of the steps: they are too small."""

import math

import numpy as np
from tracker_adapters.wording import from_to

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.initial_weights import fresh_weights
from debuggers.diagnosis.derived.rates import (
    USUAL_EPSILON,
    has_collapsed,
    highest_rate,
    is_searched,
    learning_rates,
    one_digit,
    outweighing_epsilon,
)
from debuggers.diagnosis.derived.updates import (
    EARLY,
    ENOUGH,
    HEALTHY_RATIO,
    ONE_DIRECTION,
    SMALL_RATIO,
    STAYED,
    UNDER_WAY,
    hardly_moved,
    is_trial,
    late_agreement,
    only_vectors_move,
    travelled,
)
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import Progress, progress_of

SMALL_RATE = 0.5
"""A rate below which its square is another one: the square of 1 is 1."""
ENOUGH_LOOKS = 10
"""Sampled steps from which it is said how many outputs are right."""
FAR_MORE = 0.2
"""Share of the outputs that are right beyond that of the most frequent class, from which they are far more often."""
SMALL_SCORES = 0.1
"""Standard deviation of scores below which a softmax of them is nearly uniform: e^0.1 is 1.1."""
GROWS, STEADILY = 1.3, 0.2
"""Times its first value that scores spread by at the end if they grow, and the share of the fall in the last third."""
LESS, ON_ITS_WAY, FALLS = 1.5, 0.25, 0.02
"""Times a healthy update ratio up to which steps may be too small, the way that they have come by then, and the share
by which the loss has fallen at least."""
ARRIVED = 1e-3
"""Share of their first size to which gradients fall where a training has arrived."""
OF_GROUPS = 10.0
"""Times its lowest rate that an optimizer's highest is, from which its groups are slowed on purpose."""


def learning_rate_too_low(evidence: Evidence) -> Argument:
    """Weights hardly change, gradients keep their direction, and the loss falls slowly and steadily or not at all.

    Weights that are where they began after steps of a usual size have been given too few: see ``stopped_too_early``.
    """
    argument = Argument("learning_rate_too_low")
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    if progress is None or not len(ratio) or (progress.failed and not _rose_by_itself(progress, evidence)):
        return argument
    typical, since = _typical(evidence), int(ratio.steps[0])
    if text := _multiplied_with_itself(evidence):
        argument.add(0.85, text, since=since)
        argument.advice = (
            "LambdaLR multiplies the initial rate with what its function returns: let it return a factor, such as 1."
        )
        return argument
    alive = evidence["total_norm/gradients"].finite
    # Updates are small beside weights that the first ones threw far away.
    thrown_far = float(ratio.values[:EARLY].max()) > 1
    if (
        not len(alive)
        or _has_arrived(evidence)
        or is_searched(evidence)
        or alive.median() == 0
        or thrown_far
        or only_vectors_move(evidence)
        or _falls(progress)
    ):
        return argument
    way, gains_nothing = travelled(evidence), _gained(progress, evidence) < 0.15
    if typical < SMALL_RATIO / 10:
        argument.add(0.75, f"updates change weights by only {typical:.1g} of their size a step", since=since)
    elif hardly_moved(evidence) and gains_nothing and not is_trial(evidence):
        argument.add(
            STRONG,
            f"all updates together change weights by no more than {way:.1%} of their size, and the loss went "
            f"{from_to(progress.first, progress.last)}",
            since=since,
        )
    elif typical < SMALL_RATIO:
        argument.add(0.5, f"updates change weights by only {typical:.1g} of their size a step", since=since)
    elif typical < HEALTHY_RATIO / 2:
        argument.add(WEAK, f"updates change weights by {typical:.1g} of their size a step", since=since)
    advice = _add_held_back(argument, progress, evidence) if gains_nothing else ""
    if argument.cause is not None:
        cosine = evidence["gradient_cosine"].finite
        if len(cosine) >= 5 and cosine.median() > 0.8:
            argument.add(WEAK, f"gradients keep their direction (cosine {cosine.median():.2f})")
        if way < STAYED and (agree := late_agreement(evidence)) > ONE_DIRECTION and not is_trial(evidence):
            argument.add(
                MODERATE,
                f"gradients of different batches agree to the end (cosine {agree:.2f}), and all updates together come "
                f"to {way:.1%} of the weights' size: far larger ones would go the same way",
            )
        if 0.2 < progress.late_fall < 0.6 and progress.fell > 0:
            argument.add(WEAK, f"the loss falls in a straight line, by {progress.fell:.1%} in all")
    if has_collapsed(learning_rates(evidence)):
        argument.against(STRONG, "it was higher before: see schedule_collapsed")
    argument.advice = advice or _raise(evidence, typical)
    return argument


def _typical(evidence: Evidence) -> float:
    """The median update ratio; beside a table, of which a batch reads few rows, that of others if it is larger."""
    typical = evidence["update_ratio"].finite.median()
    tables = {f"{layer.name}.weight" for layer in evidence.facts.layers if layer.kind.startswith("Embedding")}
    ratios = evidence.of_tensors("parameter_update_ratio")
    others = [
        ratios[one.name].finite.median()
        for one in evidence.facts.parameters
        if len(one.shape) > 1 and one.name not in tables and one.name in ratios and len(ratios[one.name].finite)
    ]
    return max(typical, float(np.median(others))) if tables and others else typical


def _creeping(progress: Progress, evidence: Evidence) -> str:
    """What to say of steps at the lower end of what is usual that have hardly come anywhere; "" of others.

    The loss falls by little, and on.
    """
    typical, way = _typical(evidence), travelled(evidence)
    is_small = HEALTHY_RATIO / 2 <= typical < LESS * HEALTHY_RATIO and way < ON_ITS_WAY and not is_trial(evidence)
    if not is_small or progress.fell <= FALLS or not progress.falls_late:
        return ""
    return (
        f"updates change weights by {typical:.1g} of their size a step, by {way:.0%} in all, and the loss has only "
        f"fallen from {progress.first:.3g} to {progress.last:.3g}"
    )


def _has_arrived(evidence: Evidence) -> bool:
    """Whether steps were of a usual size at first, and gradients are next to nothing now: nothing is left to be learnt.

    Only where batches do not differ, or not much, do gradients fall so far.
    """
    ratio, norms = evidence["update_ratio"].finite, evidence["total_norm/gradients"].finite
    if len(ratio) < ENOUGH_LOOKS or len(norms) < 3 * EARLY:
        return False
    usual = float(np.median(ratio.values[:EARLY])) > SMALL_RATIO
    return usual and norms.late(3).median() < ARRIVED * float(np.median(norms.values[:EARLY]))


def _add_held_back(argument: Argument, progress: Progress, evidence: Evidence) -> str:
    """Adds settings of the optimizer that make steps smaller than its rate says; returns what to try, or ""."""
    since, advice = int(evidence["update_ratio"].finite.steps[0]), ""
    epsilon = outweighing_epsilon(evidence) if len(evidence["baseline_loss"]) and not is_trial(evidence) else None
    if epsilon is not None and travelled(evidence) < UNDER_WAY:
        argument.add(
            STRONG,
            f"the optimizer's eps of {epsilon[0]:.2g} outweighs gradients of about {epsilon[1]:.2g}: steps are far "
            "smaller than lr, and little is learnt",
            since=since,
        )
        advice = f"eps: {epsilon[0]:.3g} → {USUAL_EPSILON:g}, which is far below the gradients."
    if progress.points >= ENOUGH and (text := _slowed(evidence)):
        argument.add(STRONG, text, since=since)
        advice = "One learning rate for all layers that nothing has trained before: that of the last one."
    if text := _right_but_small(progress, evidence):
        argument.add(0.6, text, since=since)
    if text := _creeping(progress, evidence):
        argument.add(MODERATE, text, since=since)
    return advice


def _right_but_small(progress: Progress, evidence: Evidence) -> str:
    """What to say of scores that mostly choose the right class, and differ by so little that the loss is as at first.

    However small the weights are that they come from, larger steps go the same way. "" where scores are of a usual
    size, do not grow, or answer with the most frequent class.
    """
    loss, accuracy, spread = evidence.facts.loss, evidence["accuracy"].finite, evidence["outputs/std"].finite
    if loss is None or loss.kind != "cross_entropy" or min(len(accuracy), len(spread)) < ENOUGH_LOOKS:
        return ""
    right, size, top = accuracy.late(3).median(), spread.late(3).median(), evidence["targets/top_share_so_far"]
    grows = size > GROWS * spread.first and progress.late_fall > STEADILY
    if not grows or size > SMALL_SCORES or right < (top.last if len(top) else 1.0) + FAR_MORE:
        return ""
    return (
        f"{right:.0%} of the outputs are right at the end, and differ by {size:.2g} only: the loss is "
        f"{progress.last:.3g} all the same, hardly below that of equal scores, and falls on"
    )


def _slowed(evidence: Evidence) -> str:
    """What to say of groups whose low rates hold back most of a model, in weights that nothing trained; "" if none do.

    Rates that fall from layer to layer keep what is trained already: layers that begin at random stay random.
    """
    rates = [float(value) for group in evidence.facts.groups if isinstance(value := group.settings.get("lr"), float)]
    if len(rates) < 2 or max(rates) < OF_GROUPS * min(rates):
        return ""
    sizes = {one.name: math.prod(one.shape) for one in evidence.facts.parameters if len(one.shape) > 1}
    fresh, ratios = fresh_weights(evidence, "trained"), evidence.of_tensors("parameter_update_ratio")
    still = [name for name in fresh if name in ratios and 0 < ratios[name].finite.median(0.0) < SMALL_RATIO]
    share = sum(sizes[name] for name in still) / max(1, sum(sizes.values()))
    if share <= 0.5:
        return ""
    return (
        f"{share:.0%} of the weights, as PyTorch initialises them, change by less than {SMALL_RATIO:g} of their size a "
        f"step: the groups of the optimizer have learning rates from {min(rates):.2g} to {max(rates):.2g}"
    )


def _multiplied_with_itself(evidence: Evidence) -> str:
    """What to say of a rate that is the square of the one that the optimizer was made with; "" if none is.

    So it is where the function of a ``LambdaLR`` returns a rate in place of a factor. A schedule that warms up to a
    higher rate begins low, too.
    """
    rates, groups = learning_rates(evidence), evidence.facts.groups
    initial = groups[0].initial_rate if groups else None
    if initial is None or not 0 < initial < SMALL_RATE or not len(rates):
        return ""
    first = float(rates.values[0])
    if not math.isclose(first, initial**2, rel_tol=1e-3) or first < float(rates.values.max()):
        return ""
    return f"the rate begins at {first:.2g}, the square of the optimizer's {initial:g}, and is never higher"


def _raise(evidence: Evidence, ratio: float) -> str:
    rate = highest_rate(evidence)
    if rate is None or ratio <= 0:
        return "Raise the learning rate tenfold, until the loss falls."
    factor = min(max(HEALTHY_RATIO / ratio, 10.0), 1e6)
    return (
        f"lr: {rate:.3g} → {one_digit(rate * factor):g} (the update ratio is {ratio:.1g}, about "
        f"{HEALTHY_RATIO:g} is usual)."
    )


def _rose_by_itself(progress: Progress, evidence: Evidence) -> bool:
    """Whether a finite loss rose for other reasons than its updates: weights are where they began."""
    return progress.became_non_finite is None and travelled(evidence) < STAYED


def _falls(progress: Progress) -> bool:
    """Whether the loss came to less than half; of one of both signs, which may begin anywhere, beyond its noise."""
    by_chance = progress.lowest < 0 and progress.first - progress.last < 2 * progress.noise
    return progress.fell > 0.5 and not by_chance


def _gained(progress: Progress, evidence: Evidence) -> float:
    """What was learnt beside a constant output, where its loss is known; else by how much the loss fell.

    A first loss of few rows falls by chance, and one that is far from that of a constant output before all else.
    """
    return progress.learnt if len(evidence["baseline_loss"]) else max(progress.learnt, progress.fell)
