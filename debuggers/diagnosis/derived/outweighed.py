"""Signs that a loss itself keeps a model from saying what it could: blurred targets, or a term that costs far more."""

import math

import numpy as np

from debuggers.diagnosis.argument import Argument
from debuggers.diagnosis.derived.relation import FEWEST
from debuggers.diagnosis.derived.updates import TRIAL, UNDER_WAY, threw_weights, travelled
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import LossFacts
from debuggers.diagnosis.progress import Progress, adds_up_features, smoothed

NOTHING_GAINED = 0.95
"""Share of a constant output's loss, or of a uniform guess's entropy, above which nothing was gained over it."""
ONE, HALF = 1.0, 0.5
"""Difference of logits up to which a class is hardly likelier than another; the second for smoothed targets, whose
largest one is learnt as well as ever, but for noise."""
QUARTER = 0.25
"""Share of what there is to tell, or of the outputs' first spread over a batch, below which little is left."""


def add_blurred_targets(argument: Argument, evidence: Evidence) -> None:
    """Label smoothing, or a confidence penalty, whose least loss is that of nearly the same odds for each class.

    Even of rows that a model is sure of. Of many classes, a right one with a small probability may stand far above each
    of the others, which is why its distance counts, too.
    """
    loss = evidence.facts.loss
    if loss is None or loss.kind != "cross_entropy" or len(loss.outputs_shape) < 2 or loss.negated:
        return
    # A smoothing of 1 has no right class, and is meant so. Of several terms, another one may tell classes apart.
    smoothing = loss.smoothing if loss.terms == 1 and loss.smoothing < 1 else 0.0
    penalty = loss.confidence_penalty if loss.terms == 2 else 0.0
    classes = loss.outputs_shape[1]
    if classes < 2 or not (smoothing or penalty):
        return
    right = best_probability(classes, smoothing, penalty)
    other = (1 - right) / (classes - 1)
    entropy = -right * math.log(right) - (1 - right) * math.log(other)
    if entropy < NOTHING_GAINED * math.log(classes) or math.log(right / other) > (HALF if smoothing else ONE):
        return
    what = f"label smoothing of {smoothing:g}" if smoothing else f"a confidence penalty of {penalty:g}"
    argument.add(
        0.6,
        f"with {what}, the loss is least where the right one of {classes} classes has a probability of {right:.2g} and "
        f"each other one of {other:.2g}, however sure a model is",
        since=0,
    )
    argument.advice = (
        f"label_smoothing: {smoothing:g} → 0.1." if smoothing else f"Weigh the entropy by 0.1 in place of {penalty:g}."
    )


def best_probability(classes: int, smoothing: float, penalty: float) -> float:
    """The probability of the right class at which -Σ t log p + penalty Σ p log p is least, for smoothed targets t.

    There, t / p - penalty log p is the same for all classes.
    """
    right, wrong = smoothed(classes, smoothing)
    low, high = 1 / classes, right
    for _ in range(50 if penalty else 0):
        middle = (low + high) / 2
        other = (1 - middle) / (classes - 1)
        wants_more = right / middle - wrong / other > penalty * math.log(middle / other)
        low, high = (middle, high) if wants_more else (low, middle)
    return high


def outweighing_term(evidence: Evidence, progress: Progress) -> str:
    """What to say of another term that outweighs the comparison; "" if there is none.

    It costs more at first than all there is to learn, and the whole gains nothing over a constant output alone.
    With weights that say nothing, or outputs that are the same for all rows, such a term costs least, and the loss
    comes to what a constant output alone has. Outputs that tell rows apart less than those of fresh weights did are
    what it took away: where targets have nothing to do with inputs they are as they were. Where they come back, what
    was to be paid first has been paid.
    """
    loss, level = evidence.facts.loss, evidence["baseline_loss"].finite.median(0.0)
    if loss is None or level <= 0 or (loss.terms < 2 and not loss.penalized) or progress.points < TRIAL:
        return ""
    if progress.failed or travelled(evidence) < UNDER_WAY or threw_weights(evidence):
        return ""
    others, spread = _others_at_first(evidence, loss), evidence["outputs/batch_std"].finite
    if others <= level or progress.last < NOTHING_GAINED * level or len(spread) < 2 * FEWEST:
        return ""
    first, last = float(np.median(spread.values[:3])), spread.late(FEWEST).median()
    grows = last > np.median(spread.values[len(spread) // 3 : 2 * len(spread) // 3])
    share = told(evidence)
    if last > QUARTER * first or grows or share is None or share > QUARTER:
        return ""
    return (
        f"what is added to the comparison costs {others:.2g} or more at first, a constant output alone has "
        f"{level:.2g}: the whole ends at {progress.last:.3g}, and the outputs' spread over a batch fell from "
        f"{first:.2g} to {last:.2g}"
    )


def _others_at_first(evidence: Evidence, loss: LossFacts) -> float:
    """The least that other terms can cost at the first step: what the comparison cannot, whatever the targets are.

    A cross entropy is at most the logarithm of the number of classes and the range of the logits, a squared error that
    of outputs which fall where targets rise. 0 if unknown.
    """
    low, high, course = evidence["outputs/min"], evidence["outputs/max"], evidence["loss"]
    if not len(low) or not len(high) or low.steps[0] != course.steps[0] or high.steps[0] != course.steps[0]:
        return 0.0
    scaled = any(node.startswith(("Mul", "Div")) for node in loss.nodes)
    if loss.reduction != "mean" or loss.factor != 1 or loss.weighted or loss.positive_weight != 1 or scaled:
        return 0.0
    if loss.kind == "cross_entropy" and len(loss.outputs_shape) > 1:
        most = math.log(loss.outputs_shape[1]) + high.first - low.first
    elif loss.kind == "bce_with_logits":
        most = math.log(2) + max(abs(high.first), abs(low.first))
    elif loss.kind == "mse" and not adds_up_features(loss) and len(evidence["targets/std"]):
        apart = evidence["outputs/mean"].first - evidence["targets/mean"].first
        most = apart**2 + (evidence["outputs/std"].first + evidence["targets/std"].first) ** 2
    else:
        return 0.0
    return max(0.0, course.first - most)


def told(evidence: Evidence) -> float | None:
    """The share of what a guess does not tell that late outputs do: of right classes, or of the targets' variance.

    None where that is not known.
    """
    right, top = evidence["accuracy"].finite.late(FEWEST), evidence["targets/top_share_so_far"].finite
    if len(right) >= FEWEST and len(top) and top.last < 1:
        return (right.median() - top.last) / (1 - top.last)
    explained = evidence["r2"].finite.late(FEWEST)
    return explained.median() if len(explained) >= FEWEST else None
