"""Causes in how a loss is put together: its sign, and a sum over the batch."""

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.chance import binomial_deviation
from debuggers.diagnosis.derived.contradiction import contradiction
from debuggers.diagnosis.derived.pairs import add_exchanged, add_lowered
from debuggers.diagnosis.derived.policies import add_descended_gains
from debuggers.diagnosis.derived.relation import FEWEST
from debuggers.diagnosis.derived.roles import none_is_trained, with_role
from debuggers.diagnosis.derived.updates import ADAPTIVE, LARGE_RATIO, STAYED, climbs, threw_weights, travelled
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_MARGINS, OF_NUMBERS, LossFacts
from debuggers.diagnosis.progress import EARLY, LITTLE, Progress, progress_of
from debuggers.diagnosis.series import Series

BELOW_CHANCE = 3.0
"""Standard deviations of a binomial share by which an accuracy is below chance: one in 700 of a normal one."""
DIVE = 100.0
"""Times its first magnitude below zero from which a loss has no bound."""
STEEP = 10.0
"""The same where gradients have grown to so many times their first norm."""
FASTER, AS_FAST = 0.5, 1 / 3
"""Shares of a fall that come in the last third of one that has no end in sight: of a straight line it is a third."""
GROWN, SPREAD = 3.0, 10.0
"""Times the first norm of gradients and the first deviation of outputs, from which nothing holds a loss below zero."""
FALLS = 0.2
"""Share of what a constant output leaves to learn from which a loss that is known does fall."""
SERVES = 0.7
"""The same from which trained centres are such that the farthest one is the answer."""
_LINEAR = (
    *("Neg", "Add", "Sub", "Mean", "Sum", "View", "UnsafeView", "Reshape", "Squeeze", "Unsqueeze", "Select", "Slice"),
    *("Split", "Mm", "Convolution"),
)
"""Operators of a loss that is linear in the scores it is made of, down to the layer that makes them."""
_LOGARITHMS = ("LogSoftmax", "LogSigmoid")
_PICKS = (
    *("Mean", "Sum", "Div", "Diagonal", "Gather", "Index", "Select", "Slice", "Squeeze", "Unsqueeze", "View"),
    *("Reshape", "Clone", "AsStrided"),
)
"""Operators that keep the sign of what they are given; a division is one by a number of rows."""
_ORDER = ("Index", "Sort", "Logcumsumexp", "Cumsum", "ExpBackward")
"""How the names of operators begin that put a batch's outputs in an order."""
NEVER_NEGATIVE = OF_NUMBERS | OF_MARGINS | {"cross_entropy", "bce", "bce_with_logits"}


def flipped_loss_sign(evidence: Evidence) -> Argument:
    """The loss is negated, maximised, below what it can be, or the accuracy is below chance."""
    argument = Argument("flipped_loss_sign")
    loss = evidence.facts.loss or LossFacts()
    series, progress = evidence["loss"].finite, progress_of(evidence)
    if loss.negated and loss.kind in NEVER_NEGATIVE and not _is_positive(loss, series):
        argument.add(CERTAIN, f"the loss is the negative of {loss.kind}")
    if loss.negated and loss.kind == "log_mse" and loss.terms == 1:
        argument.add(CERTAIN, "the loss falls as errors grow: it is a logarithm of their squares, with a minus sign")
    if loss.negated and loss.kind == "cosine":
        argument.add(0.85, "the cosine similarity of outputs and constants is minimised, and drawn to nothing else")
    if any(one.negated and one.kind == "overlap" and _counts_classes(evidence, one) for one in (loss, *loss.parts)):
        argument.add(CERTAIN, "the share in which outputs and targets overlap is minimised: 1 minus it is the loss")
    may_fall = not loss.confidence_penalty  # an entropy that is taken away has no end at zero
    if loss.kind in NEVER_NEGATIVE and may_fall and not loss.negated and len(series) and series.last < -1e-6:
        reached = evidence["targets/max"].finite
        if not (loss.kind.startswith("bce") and len(reached) and float(reached.values.max()) > 1):
            argument.add(MODERATE, f"{loss.kind} cannot be negative, the loss is {series.last:.3g}")
    goes_up = _add_climb(argument, evidence, loss, progress)
    if loss.distances:
        argument.add(0.85, "the cross entropy takes distances for scores: the farthest one counts as the answer")
        if progress is not None and progress.learnt > SERVES:
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    _add_fall(argument, evidence, loss, progress)
    accuracy, top = evidence["accuracy"].finite, evidence["targets/classes_so_far"]
    is_trained = not none_is_trained(evidence, with_role(evidence, "without_gradient"))
    # Where the loss falls it is no sign: a margin may be taken from the target's logit (Deng et al. 2019).
    falls = loss.kind in NEVER_NEGATIVE and not loss.negated and progress is not None and progress.learnt > FALLS
    # Of scores with targets of 1 and -1, what they are multiplied with may be the negative of what the loop tells.
    falls &= not (loss.kind in ("hinge", "soft_margin") and len(loss.targets_shape) > 0)
    # Of one class, of a model that nothing trains, or whose weights were thrown away, accuracy is no matter of chance.
    is_lost = threw_weights(evidence) and progress is not None and progress.failed
    # Nor of one that still answers as it did before it was trained.
    is_lost |= travelled(evidence) < STAYED
    if len(accuracy) >= 5 and len(top) and top.last > 1 and is_trained and not falls and not is_lost:
        late = accuracy.late(3).median()
        chance = 1 / max(2.0, top.last)
        deviation = binomial_deviation(evidence, chance, max(3, len(accuracy) // 3))
        if late < 0.4 * chance and late < chance - BELOW_CHANCE * deviation:
            argument.add(
                STRONG if argument.cause is not None or late < 0.2 * chance else MODERATE,
                f"the accuracy is {late:.1%}, below chance ({chance:.1%})",
            )
            if (progress is not None and progress.fell > 0 and progress.first < 0) or (progress and progress.last < 0):
                argument.add(MODERATE, "while the loss falls")
    _add_likelihood(argument, loss, progress)
    _add_reversal(argument, evidence)
    _add_correlation(argument, evidence, loss)
    _add_dive(argument, evidence, loss)
    add_exchanged(argument, evidence)
    add_lowered(argument, evidence, loss)
    descends = add_descended_gains(argument, evidence, loss)
    argument.advice = (
        "Go down the gradient: with a rate above 0, and with gradients as the backward pass leaves them."
        if goes_up
        else "Give the cross entropy minus the distances: the nearest is to have the highest score."
        if loss.distances
        else "Minimise -(gain * log_prob).mean(), with the minus sign."
        if descends
        else "Minimise the loss itself: remove the minus sign, or maximize=True."
    )
    return argument


def _add_climb(argument: Argument, evidence: Evidence, loss: LossFacts, progress: Progress | None) -> bool:
    """A loss that steps raise: by ``maximize``, or else, which is returned."""
    if loss.kind not in NEVER_NEGATIVE:
        return False
    if any(group.settings.get("maximize") for group in evidence.facts.groups):
        argument.add(STRONG, "the optimizer maximises the loss (maximize=True)")
        return False
    uphill = "" if loss.negated else climbs(evidence)
    if uphill:
        argument.add(0.85, uphill, since=0)
        if progress is not None and progress.learnt > FALLS:
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    return bool(uphill)


def _add_fall(argument: Argument, evidence: Evidence, loss: LossFacts, progress: Progress | None) -> None:
    """A loss that nobody knows, of which what is below zero falls on and on."""
    if progress is None or loss.kind or _is_of_scores(loss):
        return
    # Where a policy's advantages are centred, it begins at zero, but for rounding, and swings about zero from there.
    early = float(evidence["loss"].finite.values[:EARLY].min(initial=0.0))
    if progress.first < 0 and progress.last < 5 * early:
        argument.add(MODERATE, f"the loss is negative and falls from {progress.first:.3g} to {progress.last:.3g}")
        if progress.late_fall > FASTER and (progress.last < DIVE * early or _steepens(evidence, progress)):
            argument.add(
                STRONG,
                f"it falls faster and faster, {progress.late_fall:.0%} of the way in the last third of the steps: what "
                "has a lowest value slows down before it",
            )
    if _runs_away(evidence, progress):
        argument.add(
            STRONG,
            f"the loss falls to {progress.last:.3g} and does not slow down, while its gradients and the outputs grow: "
            "what has a lowest value lets them become smaller before it",
        )


def _add_reversal(argument: Argument, evidence: Evidence) -> None:
    """Outputs that are the more wrong, the lower their loss is."""
    found = contradiction(evidence)
    if found is not None and found.is_reversed:
        argument.add(
            0.85,
            f"the loss falls to {found.level:.3g}, and the outputs are right less often than by chance "
            f"({found.found:.1%}): the loss takes the smallest one for the largest, as distances for scores",
        )


def _is_positive(loss: LossFacts, series: Series) -> bool:
    """Whether a loss of one term is above zero, as no negative of one is that is never negative.

    Then the minus sign stands in targets on a device, which are not read. Not where it is subtracted from a number.
    """
    shifts = any(node.startswith(("AddBackward", "Rsub", "SubBackward")) for node in loss.nodes)
    return loss.terms == 1 and not loss.penalized and not shifts and series.median(0.0) > 0


def _add_likelihood(argument: Argument, loss: LossFacts, progress: Progress | None) -> None:
    """A loss that only picks and averages what a logarithm of a softmax or a sigmoid puts out, and falls.

    What weighs them, as a policy's gains do, may have either sign.
    """
    ends = [place for place, node in enumerate(loss.nodes) if node.startswith(_LOGARITHMS)]
    if not ends or loss.kind or not all(node.startswith(_PICKS) for node in loss.nodes[: ends[0]]):
        return
    if progress is not None and progress.first < 0 and progress.last < progress.first:
        argument.add(
            0.85,
            "the loss is a mean of logarithms of probabilities, without a minus sign: what falls from "
            f"{progress.first:.3g} to {progress.last:.3g} is the likelihood",
        )


def _is_of_scores(loss: LossFacts) -> bool:
    """Whether a loss is a mean of scores or a difference of such means, as a critic's: it may well fall below zero.

    No negative of what is never negative is linear.
    """
    return bool(loss.nodes) and all(node.startswith(_LINEAR) for node in loss.nodes)


def _counts_classes(evidence: Evidence, loss: LossFacts) -> bool:
    """Whether what outputs are multiplied with are targets of 0 and 1, and no costs: what is cheap is to be likely."""
    return loss.before == "softmax" or len(evidence["targets/classes"]) > 0


def _steepens(evidence: Evidence, progress: Progress) -> bool:
    """Whether a loss has fallen far below what shares and cosines can be, and its gradients have grown on the way.

    On the way to a lowest value they become smaller in the end.
    """
    return progress.last <= STEEP * min(progress.first, -1.0) and _growth(evidence["total_norm/gradients"]) > STEEP


def _runs_away(evidence: Evidence, progress: Progress) -> bool:
    """Whether a loss falls below zero as fast as ever, and gradients and outputs grow on the way.

    The likelihood of a density may fall below zero, with gradients and outputs that grow; it slows down.
    """
    return (
        progress.last < min(progress.first, 0.0)
        and progress.late_fall > AS_FAST
        and _growth(evidence["total_norm/gradients"]) > GROWN
        and _growth(evidence["outputs/std"]) > SPREAD
    )


def _growth(series: Series) -> float:
    """How many times their first values the last ones are; 0 of too few, and of those that begin at zero."""
    values = series.finite.values
    if len(values) < 2 * FEWEST:
        return 0.0
    first, last = float(np.median(values[:FEWEST])), float(np.median(values[-FEWEST:]))
    return last / first if first > 0 else 0.0


def _add_dive(argument: Argument, evidence: Evidence, loss: LossFacts) -> None:
    """A loss that falls without a bound, as one of several terms does while outputs say nothing of their targets.

    Distances, entropies and divergences are bounded below: what dives has one of them with a minus sign. So has
    what dives while its gradients grow.
    """
    progress, correlation = progress_of(evidence), evidence["correlation"].finite
    several = max(loss.terms, len(loss.parts)) > 1
    if progress is None or not (several or not loss.kind):
        return
    if progress.last < -DIVE * max(1.0, abs(progress.first)) and _steepens(evidence, progress):
        argument.add(
            STRONG,
            f"the loss falls without a bound, from {progress.first:.3g} to {progress.last:.3g}, and its gradients have "
            "grown on the way",
        )
        return
    if not several or len(correlation) < FEWEST:
        return
    late = correlation.late(3).median()
    if progress.last < -DIVE * abs(progress.first) and progress.late_fall > 0.2 and late < 0.3:
        argument.add(
            STRONG,
            f"the loss of several terms falls without a bound, from {progress.first:.3g} to {progress.last:.3g}, and "
            f"the correlation of outputs and targets is {late:.2f}",
        )


def _add_correlation(argument: Argument, evidence: Evidence, loss: LossFacts) -> None:
    """Outputs that come to vary against the targets: a loss of values that falls meanwhile has the wrong sign.

    A loss that is known and not negated falls only if outputs come nearer to the targets; of one with margins, what it
    multiplies with may be the targets or their negative. One that is not known may put outputs in an order that falls
    with the targets, as risks with the time of survival (Cox 1972).
    """
    correlation, progress = evidence["correlation"].finite, progress_of(evidence)
    if len(correlation) < FEWEST or progress is None or progress.last >= progress.first:
        return
    if loss.kind and loss.kind not in OF_MARGINS and not loss.negated:
        return
    if not loss.kind and any(node.startswith(_ORDER) for node in loss.nodes):
        return
    late = correlation.late(3).median()
    if late < -0.5 and late < correlation.first - 0.3:
        argument.add(
            STRONG,
            f"outputs and targets have a correlation of {late:.2f} at the end, {correlation.first:.2f} at first, "
            "while the loss falls",
            since=int(correlation.steps[0]),
        )


def loss_sum_not_mean(evidence: Evidence) -> Argument:
    """The loss is the sum over the batch, nothing divides it, and updates are large: gradients grow with the batch.

    Or it is the sum of the means of many positions, which a loop adds up, and little comes of it.
    """
    argument = Argument("loss_sum_not_mean")
    loss = evidence.facts.loss
    rows = evidence["inputs/batch_size"].median(float(loss.outputs_shape[0]) if loss and loss.outputs_shape else 0.0)
    of_positions = loss is not None and loss.reduction == "mean" and bool(loss.kind) and not loss.parts
    if loss is not None and of_positions:
        rows = float(loss.terms)
    if loss is None or not (loss.reduction == "sum" or of_positions) or rows < 8:
        return argument
    if abs(loss.factor) / loss.temperature**2 < 3 / rows:  # T² is to undo what dividing by T has made of gradients
        return argument
    of = "positions, each a mean" if of_positions else "samples"
    argument.add(
        MODERATE, f"the loss is summed over {rows:.0f} {of}, its gradients are {rows:.0f} times those of the mean"
    )
    progress = progress_of(evidence)
    divides = evidence.facts.optimizer.startswith(ADAPTIVE)
    ratio = evidence["update_ratio"].finite
    largest = float(ratio.values.max(initial=0.0))
    if 0 < largest < LARGE_RATIO:  # the rate is one for a sum
        argument.against(STRONG, f"no update changes weights by more than {largest:.1g} of their size")
    elif not divides and progress is not None and (progress.failed or progress.rose or progress.learnt < LITTLE):
        argument.add(STRONG, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
    elif of_positions:
        argument.against(STRONG, "it is learnt all the same: the rate may be one for the sum")
    if not divides and len(ratio) and float(ratio.values[:10].max()) > 0.1:
        argument.add(MODERATE, f"the first updates change weights by up to {ratio.values[:10].max():.2g} of their size")
    if divides:
        argument.against(WEAK, f"{evidence.facts.optimizer} divides by the gradient's own size")
    argument.advice = f'Use reduction="mean", or divide the learning rate by {rows:.0f}.'
    return argument
