"""What a loss was told beside outputs and targets, as its graph has kept it."""

import math
from typing import Any

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.observed_training.graphs.loss_formulas import log_probabilities
from debuggers.observed_training.graphs.loss_term import Term
from debuggers.signals.batch_statistics import IGNORED, MOST_CLASSES
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import constant_operand, number_on_host, operands, operator, shape_of


def has_weights(term: Term) -> bool:
    """Whether one of torch's own losses has got weights of classes or elements."""
    node = term.comparison
    return node is not None and any(saved_value(node, name) is not None for name in ("weight", "pos_weight"))


def positive_weight_of(term: Term) -> float:
    """The weight of positive targets; 1 where there is none, or several, or where it lies on a device."""
    weight = None if term.comparison is None else number_on_host(saved_value(term.comparison, "pos_weight"))
    return 1.0 if weight is None else weight


def class_weights_of(term: Term) -> tuple[float, float]:
    """The ratio of the largest weight of a class to the smallest, and whether weights go with how often classes come.

    That is their correlation with how often classes are among the batch's targets, rounded to -1, 0 or 1: what is the
    same in most batches counts. 1 and 0 where classes have no weights, or where they lie on a device; weights of zero
    leave classes out.
    """
    node = term.comparison
    if node is None or not operator(node).startswith("NllLoss"):
        return 1.0, 0.0
    weights, targets = saved_value(node, "weight"), saved_value(node, "target")
    if weights is None or targets is None or not (weights.is_cpu and targets.is_cpu):
        return 1.0, 0.0
    with quiet_computation("cpu"):
        counts = weights > 0
        if weights.numel() > MOST_CLASSES or int(counts.count_nonzero()) < 2:
            return 1.0, 0.0
        known = targets.reshape(-1)
        known = known[(known >= 0) & (known < weights.numel())]
        often = torch.bincount(known, minlength=weights.numel())[counts].double()
        kept = weights[counts].double()
        ratio = float(kept.amax() / kept.amin())
        together = torch.stack([kept - kept.mean(), often - often.mean()])
        spread = together.square().sum(1).sqrt().prod()
        related = float(together.prod(0).sum() / spread) if float(spread) > 0 else 0.0
    return ratio, float(round(related))


def limit_of(term: Term) -> float:
    """The error from which one of torch's own losses grows as the error itself; 1 where it has none."""
    name = {"huber": "delta", "smooth_l1": "beta"}.get(term.kind)
    value = None if name is None or term.comparison is None else saved_value(term.comparison, name)
    return value if isinstance(value, float) else 1.0


def temperature_of(term: Term) -> float:
    """What divides the outputs that a loss compares, as a number on the host; 1 where nothing does."""
    name = "" if term.outputs is None else operator(term.outputs)
    number = number_on_host(constant_operand(term.outputs)) if name in ("Mul", "Div") else None
    if not number:
        return 1.0
    return number if name == "Div" else 1 / number


def ignored_of(term: Term) -> int | None:
    """The class index that one of torch's own losses leaves out, where it is not the usual one."""
    value = None if term.comparison is None else saved_value(term.comparison, "ignore_index")
    if not isinstance(value, int):
        return None
    index = value - (1 << 64) if value >= 1 << 63 else value  # torch shows it as an unsigned number
    return None if index == IGNORED else index


def smoothing_of(known: Term, other: Term, factor: float) -> float:
    """The share of each target that label smoothing spreads over all classes; 0 where the terms do not tell.

    What a cross entropy keeps, and the share that goes to the mean of all log-probabilities, or to their sum in equal
    parts as in torch's own, come to the factor of the whole.
    """
    names = [operator(node) for node in other.nodes]
    if not factor or names.count("LogSoftmax") != 1 or "Mul" not in names:
        return 0.0
    place = names.index("LogSoftmax")
    if operands(other.nodes[place])[:1] != [known.outputs]:
        return 0.0
    above = [node for node, name in zip(other.nodes[:place], names, strict=False) if name == "Mul"]
    given, shape = number_on_host(constant_operand(above[-1])) if above else None, shape_of(known.outputs)
    share, classes = 1 - abs(known.factor / factor), shape[1] if len(shape) > 1 else 0
    if given is None or not 0 < share <= 1:
        return 0.0
    return share if any(math.isclose(share, given * times, rel_tol=1e-3) for times in (1, classes)) else 0.0


def confidence_penalty(known: Term, other: Term) -> float:
    """Times a cross entropy that another term is the negative entropy of the same probabilities; 0 for other terms.

    Both are means over rows, and the entropy is a sum over classes.
    """
    node, above = (other.nodes[-1], other.nodes[-2]) if len(other.nodes) > 1 else (None, None)
    if known.kind != "cross_entropy" or other.kind or node is None or operator(node) != "Mul" or not known.factor:
        return 0.0
    if operator(above) != "Sum" or not known.reduction == other.reduction == "mean":
        return 0.0
    sides = operands(node)
    if len(sides) != 2:
        return 0.0
    for probabilities, logarithm in (sides, sides[::-1]):
        if operator(logarithm) == "Clamp":  # as in the entropy of torch's own categorical distribution
            logarithm = operands(logarithm)[0]
        if log_probabilities(logarithm) is known.outputs and _is_softmax(probabilities, known.outputs):
            return other.factor / known.factor
    return 0.0


def _is_softmax(node: Any, logits: Any) -> bool:
    """Whether a node is the softmax of logits, or the exponential of their log-softmax."""
    inner = operands(node)
    if operator(node) == "Softmax":
        return inner[:1] == [logits] or (bool(inner) and log_probabilities(inner[0]) is logits)
    return operator(node) == "Exp" and bool(inner) and log_probabilities(inner[0]) is logits
