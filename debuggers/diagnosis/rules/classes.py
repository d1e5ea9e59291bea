"""Causes in the classes of the targets: all are of one, or one outweighs the others."""

import math

import numpy as np
import numpy.typing as npt

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.batch_kinds import always_the_same_class, of_one_class
from debuggers.diagnosis.derived.labels import are_drawn
from debuggers.diagnosis.derived.rates import has_collapsed, learning_rates
from debuggers.diagnosis.derived.updates import TRIAL
from debuggers.diagnosis.derived.visits import FEW_VISITS, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES, LossFacts
from debuggers.diagnosis.progress import progress_of

NOT_LEARNT = 0.2
"""Share of the loss of a uniform guess above which a constant is not learnt, and half as far below which nothing is."""
IMBALANCE = 10.0
"""Ratio of the most frequent to the rarest class (ClassImbalance of SageMaker Debugger)."""
EQUALLY = 3.0
"""The same up to which classes come about equally often."""
FINDS = 0.7
"""Share of the rows of the other classes from which a model that predicts them finds them."""
FAR_RARER = 30.0
"""The same from which a class is far too rare for a loss that weighs all rows alike."""
KNOWN = 0.95
"""Share of a constant output's loss that is learnt where nearly all of it is."""
FEW_OF_A_CLASS = 10.0
"""Rows of a class that are too few to learn it from."""
_OF_SCORES = ("Cat", "Stack", "Bmm", "Sum", "Div", "Mul", "View", "Squeeze")
"""Operators that put scores of pairs together, and scale them."""
OF_A_TAIL = 0.3
"""Share of the most frequent class, where another one is so rare, from which the others count; else it is half."""


def single_class_labels(evidence: Evidence) -> Argument:
    """All targets of all sampled batches are of one class.

    Ones that are no class indices are weak evidence: adversarial losses, and losses of positives beside negatives,
    compare with nothing but ones. They are not where one binary cross entropy of the model's outputs is the whole loss,
    and nothing else is trained in between.
    """
    argument = Argument("single_class_labels")
    classes, size, highest = evidence["targets/classes_so_far"], evidence["inputs/batch_size"], evidence["targets/max"]
    is_one = len(classes) >= 3 and classes.last == 1 and (not len(size) or size.median() > 1)
    if is_one and not _are_places(evidence) and not _is_zero_of_a_norm(evidence):
        known = evidence.facts.targets
        ones = known is not None and not known.integer and len(highest) > 0 and bool(highest.last == 1)
        argument.add(
            MODERATE if ones and not _is_whole_loss(evidence) else CERTAIN,
            f"the targets of {len(classes)} sampled batches are all of one class",
            since=int(classes.steps[0]),
        )
    argument.advice = (
        "Look at the targets as they are read: a wrong column, a filter, or a class index that is overwritten."
    )
    return argument


def _are_places(evidence: Evidence) -> bool:
    """Whether the class is a place that is learnt in part: that of the positive among pairs, first in each row.

    What is of one class is learnt by a constant output, soon and to the last. Of places where the positive is not,
    nothing is learnt. A linear layer with an output for each class has no places.
    """
    loss, losses = evidence.facts.loss, evidence["loss"].finite
    width = loss.outputs_shape[1] if loss is not None and len(loss.outputs_shape) > 1 else 0
    late = losses.late(3).median() if len(losses) >= TRIAL else 0.0
    if loss is None or _is_smoothed(loss) or _are_of_a_layer(loss):
        return False
    in_part = width > 1 and NOT_LEARNT < late / math.log(width) < 1 - NOT_LEARNT / 2
    is_learnt = width > 1 and losses.values.size >= TRIAL and late <= NOT_LEARNT * math.log(width)
    return loss.kind == "cross_entropy" and (in_part or (is_learnt and _are_scores_of_pairs(loss)))


def _are_of_a_layer(loss: LossFacts) -> bool:
    """Whether the logits are what a linear layer with biases puts out, as it is."""
    return any(
        node.startswith("LogSoftmax") and after.startswith(("Addmm", "Linear"))
        for node, after in zip(loss.nodes, loss.nodes[1:], strict=False)
    )


def _are_scores_of_pairs(loss: LossFacts) -> bool:
    """Whether no layer makes the logits, but what joins, scales or multiplies several parts, as scores of pairs are.

    Then a class is a place, and no output unit has weights of its own for it.
    """
    softmax = next((place for place, node in enumerate(loss.nodes) if node.startswith("LogSoftmax")), len(loss.nodes))
    behind = loss.nodes[softmax + 1 :]
    return bool(behind) and all(node.startswith(_OF_SCORES) for node in behind)


def _is_smoothed(loss: LossFacts) -> bool:
    """Whether labels are smoothed, so that even what is learnt to the last leaves a loss.

    The graph adds the mean over all classes, which is no term of its own.
    """
    adds = any(node.startswith("AddBackward") for node in loss.nodes[:2])
    return adds and loss.terms == 1 and not loss.penalized


def _is_zero_of_a_norm(evidence: Evidence) -> bool:
    """Whether outputs are compared with zero, and something is added to that: the volume, in a flow's likelihood."""
    loss, highest = evidence.facts.loss, evidence["targets/max"]
    is_zero = len(highest) > 0 and bool(highest.last == 0)
    adds = loss is not None and any(node.startswith(("AddBackward", "SubBackward")) for node in loss.nodes[:4])
    return is_zero and adds and loss is not None and loss.kind in OF_VALUES


def _is_whole_loss(evidence: Evidence) -> bool:
    """Whether each step has one loss, which is one binary cross entropy of an output.

    Of differences of two outputs, as of the better and the worse one of a pair, what is added to both cancels: ones are
    learnt by no bias.
    """
    facts = evidence.facts
    loss = facts.loss
    alone = loss is not None and loss.terms == 1 and loss.kind in ("bce", "bce_with_logits")
    return alone and not (loss and loss.differences) and facts.backward_passes == 1 and not facts.trained_with_others


def class_imbalance(evidence: Evidence) -> Argument:
    """One class is more than 10 times as frequent as another, and the model predicts it nearly always.

    Where each row has several labels, the classes are whether one applies. Most do not, by nature: then it takes 30
    times, and a model that predicts hardly any at all. A weight of positive targets makes them as frequent as it is
    large, or rarer if it is below 1. Where no class has half of the rows, as in a long tail, the rarest one has to have
    a handful of rows. Nothing is said where a class counts for nothing, as padding: it may be the most frequent.
    """
    argument = Argument("class_imbalance")
    top, rare = evidence["targets/top_share_so_far"], evidence["targets/rarest_share_so_far"]
    if evidence.facts.loss is not None and evidence.facts.loss.ignored is not None:
        return argument
    if (weighed := _weighed_apart(evidence)) is not None:
        argument.add(0.6, weighed, since=int(top.steps[0]))
        argument.advice = "Weigh classes by 1 / how often they come, or give none a weight."
        return argument
    if are_drawn(evidence) or not len(top) or not len(rare) or 1.0 in evidence["targets/classes_so_far"].values[-1:]:
        return argument
    most, least = shares = _shares(evidence)
    weight = _weight_of_rare(evidence)
    if weight != 1:  # of two classes, so that their shares are 1 together
        most, least = (share / (most + least * weight) for share in (most, least * weight))
    if not 0 < IMBALANCE * least <= most:
        return argument
    has_a_tail = _comes_again(evidence) and most > FAR_RARER * least and _has_a_class_for_each_row(evidence)
    if most < (OF_A_TAIL if has_a_tail and _has_few_rows(evidence, least) else 0.5):
        return argument
    others = 1 - float(evidence["top_predicted_share"].late(3).values.min(initial=1.0))
    if _has_several_labels(evidence) and (most < FAR_RARER * least or others > least / 10):
        return argument
    argument.add(
        MODERATE,
        f"the most frequent class has {shares[0]:.1%} of the targets, the rarest {shares[1]:.2%}"
        + (f", each of which counts {weight:g} times (pos_weight)" if weight < 1 else ""),
        since=int(top.steps[0]),
    )
    _weigh_predictions(argument, evidence, most, least, has_a_tail=has_a_tail)
    if of_one_class(evidence) is not None and always_the_same_class(evidence):
        argument.against(STRONG, "batches of one class and of several are no draws from the same rows")
    if has_collapsed(learning_rates(evidence)):
        argument.against(
            MODERATE,
            "the learning rate is next to nothing: what has hardly learnt answers with the most frequent class",
        )
    argument.advice = (
        "Weigh classes by their frequency (CrossEntropyLoss(weight=...), BCEWithLogitsLoss(pos_weight=...)), or draw "
        "them equally often (WeightedRandomSampler); judge by recall of each class, not by accuracy."
    )
    if weight < 1:
        argument.advice = (
            f"pos_weight: {weight:g} → {shares[0] / shares[1]:.2g}, negatives over positives; or leave it out."
        )
    return argument


def _weighed_apart(evidence: Evidence) -> str | None:
    """What to say of weights that make classes count unlike each other, or more so; None of others.

    Weights are there to make up for how often classes come: those of classes that come equally often are equal, and
    where some are rare, it is these that count more. Where errors in a class cost more, it may count more on purpose:
    the others are found all the same.
    """
    loss, most, least = evidence.facts.loss, *_shares(evidence)
    few = evidence["minority_accuracy"].finite.late(3).values
    if loss is None or not least > 0 or len(few) < 3 or float(np.mean(few)) > FINDS:
        return None
    equally = most <= EQUALLY * least
    if loss.class_weight_ratio < (FAR_RARER if equally else IMBALANCE):
        return None
    if not equally and loss.class_weights_follow <= 0:
        return None
    often = f"{most:.0%} of the targets, the rarest {least:.1%}"
    return (
        f"a class counts up to {loss.class_weight_ratio:.0f} times as much as another, "
        + ("though all come about equally often: " if equally else "the more the more often it comes: ")
        + f"the most frequent has {often}, and of the targets of the other classes the model finds {np.mean(few):.0%}"
    )


def _weigh_predictions(argument: Argument, evidence: Evidence, most: float, least: float, *, has_a_tail: bool) -> None:
    """What the model predicts, of the most frequent class and of the others."""
    predicted, minority = evidence["top_predicted_share"], evidence["minority_accuracy"].finite
    late = predicted.late().median(0.0)
    few = minority.late(3).values
    finds = len(few) >= 3 and float(np.mean(few[-3:])) > FINDS  # at last
    if late > max(0.97, (1 + most) / 2) and not finds:  # a perfect model predicts a class as often as it comes
        argument.add(STRONG, f"the model predicts one class for {late:.0%} of a batch")
    elif len(few) >= 3 and float(np.mean(few)) < 0.5 and not finds and not _makes_up(evidence, few):
        argument.add(0.5, f"of the targets of the other classes it finds {np.mean(few):.0%}")
    elif _comes_again(evidence):
        if has_a_tail:
            argument.add(WEAK, f"no class has a weight, and the rarest one is {most / least:.0f} times rarer")
    elif finds or late < most + 0.02:
        argument.against(MODERATE, "the model predicts the other classes, too")


def _shares(evidence: Evidence) -> tuple[float, float]:
    """Of the most frequent class and of the rarest one; where labels apply to a row or not, of those that do not or do.

    Where one label of many applies to each row, the classes that are counted are the labels.
    """
    most, least = (evidence[f"targets/{name}_share_so_far"].last for name in ("top", "rarest"))
    if _has_several_labels(evidence) and most < 0.5:
        least = evidence["targets/mean"].finite.median(0.5)
        most = 1 - least
    return most, least


def _makes_up(evidence: Evidence, late: npt.NDArray[np.float64]) -> bool:
    """Whether the loss weighs its classes, and more and more rows of the rare ones are found."""
    loss, minority = evidence.facts.loss, evidence["minority_accuracy"].finite.values
    before = minority[len(minority) // 3 : -len(late)]
    return loss is not None and loss.weighted and len(before) > 0 and bool(np.mean(late) > np.mean(before))


def _weight_of_rare(evidence: Evidence) -> float:
    """What positive targets that are rare count beside others; 1 where that is not known."""
    loss, mean = evidence.facts.loss, evidence["targets/mean"].finite
    if loss is None or loss.kind != "bce_with_logits" or not mean.median(1.0) < 0.5:
        return 1.0
    return max(loss.positive_weight, 0.0)


def _has_several_labels(evidence: Evidence) -> bool:
    """Whether each row has several labels, each of which applies or not; not one label for each of its positions."""
    targets, loss, inputs = evidence.facts.targets, evidence.facts.loss, evidence.facts.inputs
    is_binary = loss is not None and loss.kind in ("bce", "bce_with_logits")
    if not is_binary or targets is None or len(targets.shape) != 2 or targets.shape[1] < 2:
        return False
    has_positions = inputs is not None and (inputs.integer or len(inputs.shape) > 2)
    return not (has_positions and inputs is not None and inputs.shape[:2] == targets.shape)


def _comes_again(evidence: Evidence) -> bool:
    """Whether rows have come so often that what the model predicts of them may be learnt by heart."""
    seen = visits(evidence)
    return seen is not None and seen.each > FEW_VISITS


def _has_few_rows(evidence: Evidence, least: float) -> bool:
    """Whether the rarest class has a handful of rows, and not nearly everything is learnt all the same."""
    seen, progress = visits(evidence), progress_of(evidence)
    is_known = progress is not None and progress.learnt > KNOWN
    return seen is not None and least * seen.rows < FEW_OF_A_CLASS and not is_known


def _has_a_class_for_each_row(evidence: Evidence) -> bool:
    """Whether each row has one target, as pixels and words have not, in a loss that weighs all classes alike.

    Nor are the next tokens of a text classes that somebody has to find: most are rare by nature (Zipf 1949).
    """
    targets, inputs, loss = evidence.facts.targets, evidence.facts.inputs, evidence.facts.loss
    if targets is None or inputs is None or loss is None or not targets.shape or not inputs.shape:
        return False
    if inputs.integer and loss.outputs_shape[1:2] in _sizes_of_vocabularies(evidence):
        return False
    alike = loss.kind in ("cross_entropy", "nll", "bce", "bce_with_logits") and not loss.weighted and loss.terms == 1
    return alike and int(np.prod(targets.shape)) == targets.shape[0] == inputs.shape[0]


def _sizes_of_vocabularies(evidence: Evidence) -> set[tuple[int, ...]]:
    """How many rows tables of embeddings have."""
    tables = {f"{layer.name}.weight" for layer in evidence.facts.layers if layer.kind == "Embedding"}
    return {one.shape[:1] for one in evidence.facts.parameters if one.name in tables}
