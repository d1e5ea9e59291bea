"""A cause in the targets: all are of one class."""

import math

from debuggers.diagnosis.argument import CERTAIN, MODERATE, Argument
from debuggers.diagnosis.derived.updates import TRIAL
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES, LossFacts

NOT_LEARNT = 0.2
"""Share of the loss of a uniform guess above which a constant is not learnt, and half as far below which nothing is."""


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
    nothing is learnt.
    """
    loss, losses = evidence.facts.loss, evidence["loss"].finite
    width = loss.outputs_shape[1] if loss is not None and len(loss.outputs_shape) > 1 else 0
    late = losses.late(3).median() if len(losses) >= TRIAL else 0.0
    if loss is None or _is_smoothed(loss):
        return False
    in_part = width > 1 and NOT_LEARNT < late / math.log(width) < 1 - NOT_LEARNT / 2
    return loss.kind == "cross_entropy" and in_part


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
    """Whether each step has one loss, which is one binary cross entropy."""
    facts = evidence.facts
    loss = facts.loss
    alone = loss is not None and loss.terms == 1 and loss.kind in ("bce", "bce_with_logits")
    return alone and facts.backward_passes == 1 and not facts.trained_with_others
