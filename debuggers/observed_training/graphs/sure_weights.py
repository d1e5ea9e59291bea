"""Losses that weigh the logarithm of a probability with a power of that probability itself."""

import math
from dataclasses import dataclass
from typing import Any, Final, Literal

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.observed_training.graphs.loss_formulas import log_probabilities
from debuggers.observed_training.graphs.loss_term import Way
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import (
    PASSING,
    PICKING,
    behind,
    constant_operand,
    dimension_of,
    number_on_host,
    operands,
    operator,
    shape_of,
)

_LOSSES: Final = frozenset(["NllLoss", "BinaryCrossEntropy", "BinaryCrossEntropyWithLogits"])
"""Operators that put out minus the logarithm of the probability of what is right."""
_LIMITING: Final = frozenset(["Clamp", "ClampMin", "ClampMax"])
_FURTHEST = 12
_FEWEST, _STEADY, _TINY = 4, 0.01, 1e-30
"""Rows of which an exponent is read, how far it may seem to differ by rounding, and weights that are not lost to it."""


@dataclass(frozen=True, slots=True, eq=False)
class SureWeight:
    """What weighs a logarithm with its own probability.

    Attributes:
        weight: Whether the weight is ``trained`` or a ``constant``.
        logits: The node of what the probability was computed from; None where it is not known.
        picking: The node that picks the target's class; None where another one does.
    """

    weight: Literal["trained", "constant"]
    logits: Any = None
    picking: Any = None


def weighs_the_sure(node: Any, way: Way) -> SureWeight | None:
    """Returns what a product is, if it is a power of what the target's class is given, times minus its logarithm.

    Minus pᵍ log p is 0 for p = 0 as for p = 1, and falls toward 0 where p is below exp(-1 / g). Over all classes
    of a row it is their entropy, which may well be made small: that of a label alone is not.

    Args:
        node: Of a product.
        way: From the loss down to it.
    """
    inner = operands(node)
    if len(inner) == 1:
        found, constant = _logarithm(inner[0]), constant_operand(node)
        if found is None or not found[0] * way.factor > 0 or not isinstance(constant, torch.Tensor):
            return None
        picking = found[1]
        is_power = constant.is_cpu and _is_power(constant, _value(picking))
        return SureWeight("constant", _logits(picking), picking) if is_power else None
    if len(inner) != 2:
        return None
    for weight, other in (inner, inner[::-1]):
        if (found := _logarithm(other)) is None:
            continue
        power = _power_of(weight, found[1])
        if power is None or not found[0] * power * way.factor > 0:
            continue
        if operator(found[1]) in _LOSSES | PICKING:
            return SureWeight("trained", _logits(found[1]), found[1])
        return SureWeight("trained") if _picks(node, way) or _picks_within(weight) else None
    return None


def _value(node: Any) -> torch.Tensor | None:
    """The logarithms of probabilities that a node picks, or minus those that it puts out; None if not saved."""
    if operator(node) == "Gather":
        inner = operands(node)[0]
        index, dim = saved_value(node, "index"), dimension_of(saved_value(node, "dim"), len(shape_of(inner)))
        result = saved_value(inner, "result") if operator(inner) == "LogSoftmax" else None
    elif operator(node) == "NllLoss":
        result, index, dim = saved_value(node, "self"), saved_value(node, "target"), 1
        index = index[:, None] if isinstance(index, torch.Tensor) and index.ndim == 1 else None
        if index is not None and bool((index < 0).any()):
            return None
    else:
        return None
    if not isinstance(result, torch.Tensor) or not isinstance(index, torch.Tensor) or dim is None:
        return None
    with quiet_computation("cpu"):
        return result.detach().gather(dim, index)


def _is_power(weight: torch.Tensor, logarithms: torch.Tensor | None) -> bool:
    """Whether weights are powers of the probabilities with these logarithms, all of one exponent above 1."""
    if logarithms is None or weight.numel() != logarithms.numel() or not logarithms.is_cpu:
        return False
    with quiet_computation("cpu"):
        logarithms, weight = logarithms.reshape(-1).double(), weight.detach().reshape(-1).double()
        known = (logarithms < -_STEADY) & (weight > _TINY)
        exponents = (weight[known].log() / logarithms[known]).sort().values
        return len(exponents) >= _FEWEST and bool(
            (exponents[0] > 1 + _STEADY) & (exponents[-1] - exponents[0] < _STEADY * exponents[-1])
        )


def _logarithm(node: Any) -> tuple[float, Any] | None:
    """The sign with which a node is minus the logarithm of what is right, and the node that puts it out."""
    sign = 1.0
    for _ in range(_FURTHEST):
        name, inner = operator(node), operands(node)
        if name in _LOSSES:
            return (sign, node) if saved_value(node, "reduction") == 0 else None
        if name in PICKING:
            return (-sign, node) if log_probabilities(inner[0]) is not None else None
        if log_probabilities(node) is not None:
            return -sign, behind(node)
        if len(inner) != 1 or name not in PASSING | {"Neg"}:
            return None
        sign = -sign if name == "Neg" else sign
        node = inner[0]
    return None


def _power_of(node: Any, logarithm: Any) -> float | None:
    """The sign of a power of the probability that has a logarithm; None where a node is none, as of 1 minus it."""
    sign = 1.0
    for _ in range(_FURTHEST):
        name, inner = operator(node), operands(node)
        if name == "Exp":
            found = _logarithm(inner[0])
            is_same = found is not None and found[1] is logarithm
            return sign if is_same and found is not None and found[0] < 0 else None
        if name == "Softmax":
            return sign if inner and _logits(logarithm) is inner[0] else None
        if name == "Mul" and len(inner) == 2 and inner[0] is inner[1]:
            node = inner[0]
            continue
        if len(inner) != 1:
            return None
        if name == "Mul":
            constant = constant_operand(node)
            if not isinstance(constant, torch.Tensor) or not constant.ndim:
                number = number_on_host(constant)
                if not number:
                    return None
                sign = math.copysign(sign, sign * number)
        elif name == "Neg":
            sign = -sign
        elif name == "Pow":
            exponent = number_on_host(saved_value(node, "exponent"))
            if exponent is None or exponent <= 0:
                return None
        elif name not in PASSING | PICKING | _LIMITING:
            return None
        node = inner[0]
    return None


def _logits(logarithm: Any) -> Any:
    """The node of what a logarithm of shares was taken of."""
    inner = operands(logarithm)
    return (
        log_probabilities(inner[0] if operator(logarithm) in PICKING | _LOSSES and inner else logarithm)
        if inner
        else None
    )


def _picks(node: Any, way: Way) -> bool:
    """Whether what follows the product keeps one class of each row: one-hot targets that lie on the host."""
    return any(operator(one) in PICKING or _is_one_hot(one, shape_of(node)) for one in way.nodes)


def _picks_within(node: Any) -> bool:
    """Whether the weight itself is multiplied with one-hot targets."""
    for _ in range(_FURTHEST):
        if _is_one_hot(node, shape_of(node)):
            return True
        inner = operands(node)
        if len(inner) != 1:
            return False
        node = inner[0]
    return False


def _is_one_hot(node: Any, shape: tuple[int, ...]) -> bool:
    constant = constant_operand(node) if operator(node) == "Mul" else None
    if (
        not isinstance(constant, torch.Tensor)
        or not constant.is_cpu
        or len(shape) < 2
        or tuple(constant.shape) != shape
    ):
        return False
    with quiet_computation("cpu"):
        constant = constant.detach()
        return bool(((constant == 0) | (constant == 1)).all()) and bool((constant.sum(-1) == 1).all())
