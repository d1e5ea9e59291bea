"""Losses put together of plain operators: which nodes are a cross entropy, a squared error, and so on."""

import math
from dataclasses import replace
from typing import Any, Final

from debuggers.observed_training.graphs.loss_term import Term, Way
from debuggers.observed_training.graphs.margins import margin_of
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import (
    PASSING,
    PICKING,
    behind,
    constant_operand,
    is_leaf,
    number_on_host,
    operands,
    operator,
    shape_of,
)

_SHIFTING = frozenset(["Add", "Sub", "Clamp", "ClampMin", "ClampMax"])
"""Operators that with a constant keep a probability from being 0 or 1."""
_NORMS = frozenset(["LinalgVectorNorm", "Norm"])
_OF_ERRORS = _NORMS | {"Cosh"}
"""Functions that are applied to errors, and that have saved them."""
MOST_LEVELS = 16
"""The most quantiles that one loss asks for."""
_FURTHEST = 8
"""How many nodes may lie between the parts of one formula."""


def written_out(name: str, node: Any, way: Way) -> Term | None:
    """Returns the term of a loss that a loop, or torch itself, has put together of plain operators; None for others."""
    inner = operands(node)
    if name == "Pow" and saved_value(node, "exponent") == 2:
        return of_difference("mse", node, inner[0], way)
    if name == "Mul" and len(inner) == 2 and inner[0] is inner[1]:
        return of_difference("mse", node, inner[0], way)
    if name == "Abs":
        return of_difference("l1", node, inner[0], way)
    if name in _OF_ERRORS and len(inner) == 1:
        return of_difference("", node, inner[0], way)
    if len(inner) == 2 and name in _OF_TWO:
        return _OF_TWO[name](node, inner, way)
    if len(inner) != 1:
        return None
    if name in PICKING:
        return _picked(node, inner[0], way)
    if name == "Log" and (kind := _of_probabilities(inner[0])) is not None:
        return way.ends(*kind, node, sign=-1.0) if kind[0] == "bce" or _picks(inner[0]) else None
    if name == "LogSigmoid":  # the logarithm of a probability is never positive
        return way.ends("bce_with_logits", inner[0], node, sign=-1.0, margin=margin_of(name, node))
    if name == "Mul" and (constant := constant_operand(node)) is not None:
        return _of_product(node, inner[0], constant, way)
    if name == "Sub" and node.next_functions[0][0] is None and operator(inner[0]) == "Mul":
        return _kl_term(inner[0], way)
    return None


def log_probabilities(node: Any) -> Any:
    """Returns the node of the logits if a node is a log-softmax, or the logarithm of a softmax; else None."""
    node = behind(node)
    name, inner = operator(node), operands(node)
    if name == "LogSoftmax":
        return inner[0] if inner else None
    if name == "Sub" and len(inner) == 2:  # logits - logsumexp(logits)
        total = behind(inner[1])
        same = operator(total) == "Logsumexp" and operands(total)[:1] == inner[:1]
        return inner[0] if same else None
    if name != "Log" or not inner:
        return None
    kind = _of_probabilities(inner[0])
    return kind[1] if kind is not None and kind[0] == "cross_entropy" else None


def _picked(node: Any, inner: Any, way: Way) -> Term | None:
    """The term of what is picked at the targets' classes."""
    logits = log_probabilities(inner)
    if logits is not None:
        return _of_choice(way, logits, node, sign=-1.0)
    probabilities = behind(inner)
    if operator(probabilities) == "Softmax" and operands(probabilities):
        return way.ends("", operands(probabilities)[0], node, sign=-1.0)
    return None


def _picked_beside_total(_: Any, inner: list[Any], way: Way) -> Term | None:
    """The term of ``logits[rows, classes] - logits.logsumexp(1)``, in this order or the other one."""
    for sign, (picked, total) in ((-1.0, inner), (1.0, inner[::-1])):
        picked, total = behind(picked), behind(total)
        logits = operands(picked)[:1]
        if operator(picked) in PICKING and operator(total) == "Logsumexp" and logits == operands(total)[:1] != []:
            return _of_choice(way, logits[0], picked, sign=sign)
    return None


def _of_choice(way: Way, logits: Any, node: Any, *, sign: float) -> Term:
    """The term of log-probabilities of classes; weights may be the advantages of a policy's gradient, of any sign."""
    is_drawn = way.weighted and not way.opaque
    return way.ends("" if way.weighted else "cross_entropy", logits, node, sign=sign, is_drawn=is_drawn)


def of_difference(kind: str, node: Any, inner: Any, way: Way) -> Term | None:
    """Returns the term of a function of outputs minus targets, or the opposite; None for another one."""
    inner = behind(inner)
    if operator(inner) != "Sub" or len(operands(inner)) != 1 or len(inner.next_functions) != 2:
        return None
    sign = 1 if inner.next_functions[0][0] is not None else -1
    outputs = operands(inner)[0]
    if is_leaf(outputs):
        return None
    return way.ends(kind, outputs, node, difference_sign=sign, shape=shape_of(inner))


def _quantile(node: Any, inner: list[Any], way: Way) -> Term | None:
    """The term of max(q·e, (q - 1)·e), the loss of a quantile q: an error times two factors that differ by 1."""
    scaled = [behind(one) for one in inner]
    if any(operator(one) != "Mul" or len(operands(one)) != 1 for one in scaled):
        return None
    difference, other = (behind(operands(one)[0]) for one in scaled)
    factors = [constant_operand(one) for one in scaled]
    if not _are_same_difference(difference, other) or not all(
        isinstance(one, torch.Tensor) and one.numel() for one in factors
    ):
        return None
    term = of_difference("quantile", node, difference, way)
    first, second = (number_on_host(one.reshape(-1)[0]) for one in factors)
    if term is None or first is None or second is None or not math.isclose(abs(first - second), 1, rel_tol=1e-4):
        return None
    larger = factors[0 if first > second else 1]
    return replace(
        term,
        difference_sign=term.difference_sign if first > second else -term.difference_sign,
        levels=tuple(larger.reshape(-1).tolist()) if larger.numel() <= MOST_LEVELS else (),
    )


def _are_same_difference(node: Any, other: Any) -> bool:
    """Whether two nodes are one, or subtract the same outputs in the same order: a loop may write it down twice."""
    if node is other:
        return True
    places = [[following for following, _ in one.next_functions] for one in (node, other)]
    return operator(node) == operator(other) == "Sub" and places[0] == places[1]


def _of_product(node: Any, inner: Any, constant: Any, way: Way) -> Term | None:
    """The term of a product of targets and log-probabilities, or of targets and unit vectors."""
    if not isinstance(constant, torch.Tensor) or not constant.ndim:
        return None
    sign = 1.0 if has_minus(constant) else -1.0
    if operator(inner) == "Sub" and inner.next_functions[0][0] is None:
        logits = log_probabilities(operands(inner)[0])
        return None if logits is None else way.ends("kl_div", logits, node, sign=sign)
    if tuple(constant.shape) != shape_of(inner):
        return None
    logits = log_probabilities(inner)
    if logits is not None and operator(inner) not in PICKING:
        return way.ends("cross_entropy", logits, node, sign=sign)
    if operator(inner) == "Log" and (kind := _of_probabilities(operands(inner)[0])) is not None:
        return way.ends(*kind, node, sign=sign)
    if operator(inner) == "LogSigmoid":
        return way.ends("" if _are_counts(constant) else "bce_with_logits", operands(inner)[0], node, sign=sign)
    direction = _of_length_one(inner)
    if direction is not None and way.reduction:
        return way.ends("cosine", direction, node, sign=-1.0)
    return None


def _are_counts(constant: torch.Tensor) -> bool:
    """Whether what stands beside the logarithm of a share counts successes, as of a binomial, and is no probability.

    Only where it lies on the host: nothing waits for a device.
    """
    if not constant.is_cpu or constant.is_complex() or not constant.numel():
        return False
    return bool(constant.abs().max() > 1)


def has_minus(constant: torch.Tensor) -> bool:
    """Whether a loop has put its minus sign into the targets, as in ``(-targets * log_probabilities).sum(1)``.

    Only where they lie on the host: nothing waits for a device.
    """
    if not constant.is_cpu or constant.is_complex() or not constant.numel():
        return False
    return bool(constant.min() < 0) and bool(constant.max() <= 0)


def _cosine(node: Any, inner: list[Any], way: Way) -> Term | None:
    """The term of outputs times targets, summed and divided by the outputs' norm."""
    product = behind(inner[0])
    if operator(product) != "Sum" or not operands(product):
        return None
    product = operands(product)[0]
    constant = constant_operand(product) if operator(product) == "Mul" and len(operands(product)) == 1 else None
    if not isinstance(constant, torch.Tensor) or tuple(constant.shape) != shape_of(product):
        return None
    outputs = operands(product)[0]
    return way.ends("cosine", outputs, product, sign=-1.0) if _norm_of(inner[1]) is outputs else None


def _of_length_one(node: Any) -> Any:
    """Returns the node of the vectors if a node is their quotient by their norms; else None."""
    inner = operands(node)
    if operator(node) != "Div" or len(inner) != 2:
        return None
    return inner[0] if _norm_of(inner[1]) is inner[0] else None


def length_one_of(node: Any) -> Any:
    """Returns the node of the norm if a node is the quotient of vectors by it; else None."""
    inner = operands(node)
    norm = _norm_node(inner[1]) if len(inner) == 2 else None
    return norm if norm is not None and operands(norm)[0] is inner[0] else None


def _norm_of(node: Any) -> Any:
    """Returns the node whose norm a node is, perhaps shifted or times a constant; None for no norm."""
    norm = _norm_node(node)
    return None if norm is None else operands(norm)[0]


def _norm_node(node: Any) -> Any:
    for _ in range(_FURTHEST):
        name, inner = operator(node), operands(node)
        if len(inner) != 1:
            return None
        if name in _NORMS:
            return node
        if not (name in PASSING or name in _SHIFTING or name == "Mul"):
            return None
        node = inner[0]
    return None


def _kl_term(product: Any, way: Way) -> Term | None:
    """The term of ``torch.nn.functional.kl_div``: t · (log t - x), written t · log t - t · x."""
    constant = constant_operand(product)
    if not isinstance(constant, torch.Tensor) or not constant.ndim or len(operands(product)) != 1:
        return None
    logits = operands(product)[0]
    way = replace(way, nodes=(*way.nodes, product))
    known = log_probabilities(logits)
    return way.ends("kl_div", logits if known is None else known, product)


def _of_probabilities(node: Any) -> tuple[str, Any] | None:
    """Returns what the logarithm of a node is a part of, and the node of the outputs, if it is a probability."""
    for _ in range(_FURTHEST):
        name, inner = operator(node), operands(node)
        if len(inner) != 1:
            return None
        if name == "Softmax":
            return "cross_entropy", inner[0]
        if name == "Sigmoid":
            return "bce", node
        if not (name in PASSING or name in PICKING or name in _SHIFTING or name == "Rsub"):
            return None
        node = inner[0]
    return None


def _picks(node: Any) -> bool:
    """Whether the probability of the target's class is picked between a logarithm and its softmax."""
    for _ in range(_FURTHEST):
        if operator(node) in PICKING:
            return True
        inner = operands(node)
        if len(inner) != 1:
            return False
        node = inner[0]
    return False


_OF_TWO: Final = {"Maximum": _quantile, "Div": _cosine, "Sub": _picked_beside_total}
"""Formulas that end with an operator of two operands that are computed from outputs."""
