"""What pairs show in losses that ask for an order: they have none, it is exchanged, or some are left out."""

import math

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, STRONG, Argument
from debuggers.diagnosis.derived.relation import CHANCE, FEWEST
from debuggers.diagnosis.derived.updates import UNDER_WAY, travelled
from debuggers.diagnosis.derived.visits import FEW_VISITS, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import LossFacts
from debuggers.diagnosis.progress import progress_of

FEWEST_ROWS = 8
"""Rows of a batch from which those that go together can be told from others by more than luck."""
ROUNDED, BY_HEART = 0.01, 0.02
"""Share of a loss within which it is the same; the second where rows that come again and again are learnt by heart."""


def order_of_pairs(evidence: Evidence) -> tuple[float, float, float] | None:
    """Which share of pairs is in the order that a loss of margins asks for, at first and at the end, by thirds.

    Returns:
        Both, and their deviation, at least that of outputs that have nothing to do with their pairs; None
        where pairs are not known, or the loop may have chosen them by what the model puts out: of those that are hard
        for it, none is in order.
    """
    order, rows = evidence["order"].finite.values, evidence["inputs/batch_size"].finite.median(1.0)
    part = len(order) // 3
    if part < FEWEST or not order[:part].any():
        return None
    chance = 0.5 / math.sqrt(part * max(1.0, rows))
    scatter = float(max(order[:part].std(ddof=1), order[-part:].std(ddof=1))) / math.sqrt(part)
    return float(order[:part].mean()), float(order[-part:].mean()), max(chance, scatter)


def add_exchanged(argument: Argument, evidence: Evidence) -> None:
    """Pairs in the wrong order in the first steps, of a loss that gets no better than that of equal outputs, if known.

    An untrained network keeps much of how near its inputs are (Johnson and Lindenstrauss 1984): what belongs together
    is in order more often than by chance. Where it is less often, the loss draws apart what belongs together; and where
    training finds nothing better than equal outputs, there are none with the order that it asks for.
    """
    progress, found = progress_of(evidence), order_of_pairs(evidence)
    if progress is None or found is None:
        return
    first, last, deviation = found
    gained = len(evidence["baseline_loss"]) > 0 and progress.learnt >= 0.05
    if first < 0.5 - CHANCE * deviation and last < 0.5 + CHANCE * deviation and not gained:
        argument.add(
            0.6,
            f"{first:.0%} of the pairs are in the order that the loss asks for at first, fewer than by chance, and "
            f"{last:.0%} at the end, no more than by chance, with a loss of {progress.last:.3g}: what belongs "
            "together and what does not seem to be exchanged",
            since=int(evidence["loss"].steps[0]),
        )


def add_lowered(argument: Argument, evidence: Evidence, loss: LossFacts) -> None:
    """Scores of what labels pick that a loss of margins makes smaller than all others of their rows.

    Where the lowest of several energies is the answer (LeCun et al. 2006), and where a label says what a row is not, a
    margin is asked of each other one in the same way: which of both it is the outputs do not tell.
    """
    meet = evidence["picked_meet_all"].finite.values
    if not loss.lowers or len(meet) < FEWEST or float(meet.min()) < 1:
        return
    others = "the largest of the others" if loss.lowers == "largest" else "each of the others"
    argument.add(
        STRONG if loss.lowers == "largest" else 0.6,
        f"the {loss.kind.replace('_', ' ')} loss is 0 where the score that the label picks is below {others} by the "
        "margin: it makes the right one the smallest",
        since=int(evidence["loss"].steps[0]) if len(evidence["loss"]) else None,
    )


def add_unordered(argument: Argument, evidence: Evidence) -> None:
    """Pairs of two kinds that are in order by chance, from the first steps to the last, on a long way."""
    pairs = order_of_pairs(evidence)
    if pairs is None or travelled(evidence) < UNDER_WAY:
        return
    first, late, deviation = pairs
    if max(abs(first - 0.5), abs(late - 0.5)) < CHANCE * deviation:
        argument.add(
            0.6,
            f"{first:.0%} of the pairs are in the order that the loss asks for at first, {late:.0%} at the end: no "
            "more than by chance, although weights move",
            since=int(evidence["loss"].steps[0]),
        )


def add_left_out(argument: Argument, evidence: Evidence, loss: LossFacts) -> None:
    """Targets of 0 and 1 where a loss wants 1 and -1.

    One of margins multiplies scores with them; one of torch's losses for pairs takes those of 0 for neither kind.
    """
    neither = evidence["pairs_left_out"].finite
    if len(neither) < FEWEST or float(neither.values.min()) <= 0:
        return
    argument.advice = "Give it targets of 1 and -1, such as 2 * targets - 1."
    if loss.kind in ("hinge", "soft_margin"):
        argument.add(
            CERTAIN,
            f"the {loss.kind.replace('_', ' ')} loss multiplies {neither.median():.0%} of the scores with a target "
            "of 0, which asks for nothing",
        )
    else:
        argument.add(
            STRONG,
            f"{neither.median():.0%} of the pairs are taken for neither of two kinds, or for both: their targets are "
            "not 1 or -1",
        )


def uncertainty_of_contrast(evidence: Evidence) -> float:
    """The loss of equal scores, where each row of a batch is to be told from the others of it; 0 for other losses.

    Of n rows it is log n for each cross entropy over the n × n scores (InfoNCE, van den Oord et al. 2018).
    """
    loss = evidence.facts.loss
    if loss is None or loss.kind != "cross_entropy" or loss.reduction != "mean" or loss.parts or loss.weighted:
        return 0.0
    rows = loss.outputs_shape[0] if len(loss.outputs_shape) == 2 else 0
    is_square = loss.outputs_shape == (rows, rows) and loss.targets_shape == (rows,)
    return loss.factor * loss.terms * math.log(rows) if is_square and rows >= FEWEST_ROWS else 0.0


def uncertainty_of_classes(evidence: Evidence) -> float:
    """The cross entropy of equal scores, log n of n classes, where a training began with it; 0 for others.

    Of targets that are shares of classes, or that count in several terms, the loss of a constant output is not known.
    """
    loss, progress = evidence.facts.loss, progress_of(evidence)
    if loss is None or progress is None or loss.kind != "cross_entropy" or loss.parts or len(loss.outputs_shape) != 2:
        return 0.0
    classes, targets, spread = loss.outputs_shape[1], evidence.facts.targets, evidence["targets/std"].finite
    of_one = math.sqrt(max(0, classes - 1)) / max(1, classes)  # the deviation of the shares of a single class
    is_soft = targets is not None and not targets.integer
    if is_soft and spread.median(0.0) < of_one / 2:  # shares that are nearly equal themselves, as of a teacher
        return 0.0
    equal = math.log(max(1, classes))
    return equal if abs(progress.first - equal) < 2 * ROUNDED * equal else 0.0


def stays_at(evidence: Evidence, floor: float) -> bool:
    """Whether the loss came to that of equal scores and stayed there, which a contrast of what goes together leaves.

    Rows that have come often bring it down by a little more, as they are learnt by heart.
    """
    late, seen = np.array_split(evidence["loss"].finite.values, 8)[4:], visits(evidence)
    near = ROUNDED if seen is None or seen.each <= FEW_VISITS else BY_HEART
    return all(len(part) and abs(float(np.median(part)) - floor) < near * floor for part in late)
