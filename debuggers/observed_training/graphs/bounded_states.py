"""Tells outputs that are bounded without an activation: unit vectors, recurrent states, standard scores."""

import math
from typing import Any

from debuggers.observed_training.graphs.loss_formulas import length_one_of
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import PASSING, is_leaf, operands, operator, shape_of

_RECURRENT = frozenset(["CudnnRnn", "MiopenRnn", "MkldnnRnnLayer"])
"""Fused recurrent layers; they put out the states of all steps, the last state, and what an LSTM's cells hold."""
_BATCH_NORMS = frozenset(["NativeBatchNorm", "CudnnBatchNorm", "MiopenBatchNorm"])
_RELU, _GRU = 0, 3
"""Modes of fused recurrent layers."""
_JOINING = frozenset(["Cat", "Stack"])
_MOST_STATES = 256
_FURTHEST = 8


def is_divided_by_its_length(node: Any) -> bool:
    """Whether a node divides vectors by their own norm: none of their elements is larger than it.

    A small constant may be added to the norm, or bound it from below. Not of a norm that is multiplied, as in RMSNorm.
    """
    norm = length_one_of(node) if operator(node) == "Div" else None
    if norm is None:
        return False
    between = operands(node)[1]
    for _ in range(_FURTHEST):
        if between is norm:
            return True
        if operator(between) not in PASSING | {"Add", "ClampMin"}:
            return False
        between = operands(between)[0]
    return False


def is_recurrent_state(node: Any, place: int = 0) -> bool:
    """Whether a node's output ``place`` is made of hidden states of an LSTM or GRU, or fused layers with tanh.

    An LSTM's state is sigmoid times tanh. A GRU's is a weighted mean of the one before it and of a tanh, back to an
    initial state that is not trained, as zeros.
    """
    waiting, seen = [(node, place)], {node}
    while waiting and len(seen) < _MOST_STATES:
        node, place = waiting.pop()
        name = operator(node)
        if name in _RECURRENT:
            if place > 1 or not _is_bounded(node):
                return False
            continue
        if name in _JOINING or (name in PASSING and len(operands(node)) == 1):
            before = list(node.next_functions)
        elif name == "Mul" and sorted(map(operator, operands(node))) == ["Sigmoid", "Tanh"]:
            continue
        elif (mean := _weighted_mean(node)) is not None:
            before = [mean] if mean[0] is not None else []
        else:
            return False
        if any(one is None for one, _ in before):
            return False
        waiting += [pair for pair in before if pair[0] not in seen]
        seen.update(one for one, _ in before)
    return not waiting


def bound_of_standard_scores(node: Any) -> float:
    """Returns the largest magnitude that a norm without trained weights can put out; 0 for another node.

    Of n values, none is further from their mean than their deviation times the root of n - 1 (Samuelson 1968). A batch
    norm in eval mode has the mean and deviation of other values.
    """
    name, shape = operator(node), shape_of(node)
    if len(operands(node)) != 1 or not shape or saved_value(node, "weight") is not None:
        return 0.0
    if name in _BATCH_NORMS and len(shape) > 1 and saved_value(node, "training") is not False:
        values = math.prod(shape) // max(1, shape[1])
    elif name == "NativeLayerNorm" and isinstance(ends := saved_value(node, "normalized_shape"), (tuple, list)):
        values = math.prod(ends)
    else:
        return 0.0
    return math.sqrt(max(0, values - 1))


def _is_bounded(node: Any) -> bool:
    """Whether the states of a fused layer have the bounds of tanh: a GRU's not from an initial state of any size."""
    mode = saved_value(node, "mode")
    computed = any(one is not None and not is_leaf(one) for one, _ in node.next_functions[1:])
    return mode != _RELU and not (mode == _GRU and computed)


def _weighted_mean(node: Any) -> tuple[Any, int] | None:
    """What a node computes as (x - tanh) · sigmoid + tanh, as a GRU does: x, with None for a constant; else None."""
    parts = operands(node)
    if operator(node) != "Add" or [operator(one) for one in parts] != ["Mul", "Tanh"]:
        return None
    product, new = parts
    factors = operands(product)
    if [operator(one) for one in factors] != ["Sub", "Sigmoid"]:
        return None
    before, subtracted = factors[0].next_functions
    return before if subtracted[0] is new else None
