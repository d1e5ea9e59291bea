"""Walks from a loss to the terms that it is made of, and to the operator that compares outputs with targets in each."""

import math
from collections.abc import Container
from dataclasses import dataclass, replace
from typing import Any, Final

from debuggers.observed_training.graph_nodes import (
    PASSING,
    constant_operand,
    is_leaf,
    number_on_host,
    operands,
    operator,
    shape_of,
)
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number, saved_value

MAX_NODES = 64
"""The most nodes that are looked at."""
FUSED: Final = {
    "NllLoss": "nll",
    "NllLoss2D": "nll",
    "MseLoss": "mse",
    "SmoothL1Loss": "smooth_l1",
    "HuberLoss": "huber",
    "BinaryCrossEntropy": "bce",
    "BinaryCrossEntropyWithLogits": "bce_with_logits",
    "KlDiv": "kl_div",
}
"""Operators that compare outputs with targets, and the loss that each is."""
_JOINING = frozenset(["Add", "Sub", "Stack", "Cat", "Where", "Maximum", "Minimum"])
_PICKING = frozenset(["Gather", "Index", "Take", "TakeAlongDim"])
_SHIFTING = frozenset(["Add", "Sub", "Clamp", "ClampMin", "ClampMax"])
"""Operators that with a constant keep a probability from being 0 or 1."""


@dataclass(frozen=True, slots=True, kw_only=True, eq=False)
class Term:
    """One term of a loss, from the loss down to the outputs.

    Attributes:
        kind: As in ``LossFacts``; ``""`` for one that is not known.
        factor: What it is multiplied with, with its sign.
        reduction: ``mean``, ``sum``, or ``""`` where nothing was reduced on the way.
        nodes: The nodes passed, down to the comparison.
        outputs: The node of what is compared with the targets; None if it was not found.
        comparison: The node that compares, multiplies with the targets, picks the targets' class, or is applied to the
            difference of outputs and targets.
        difference_sign: 1 where ``comparison`` saved outputs minus targets, -1 for the opposite, 0 for neither.
        shape: The shape of that difference, else ().
        weighted: Whether single elements are multiplied with weights of their own.
    """

    kind: str = ""
    factor: float = 1.0
    reduction: str = ""
    nodes: tuple[Any, ...] = ()
    outputs: Any = None
    comparison: Any = None
    difference_sign: int = 0
    shape: tuple[int, ...] = ()
    weighted: bool = False


@dataclass(frozen=True, slots=True)
class _Way:
    """What was passed on the way from the loss to a node."""

    factor: float = 1.0
    reduction: str = ""
    opaque: bool = False
    weighted: bool = False
    nodes: tuple[Any, ...] = ()

    def ends(self, kind: str, outputs: Any, comparison: Any, *, sign: float = 1.0, **known: Any) -> Term:
        return Term(
            kind="" if self.opaque else kind,
            factor=self.factor * sign,
            reduction=self.reduction,
            nodes=self.nodes,
            outputs=outputs,
            comparison=comparison,
            weighted=self.weighted,
            **known,
        )


class LossTerms:
    """The terms of a loss, found from its graph before it is differentiated.

    A sum is followed into each of its terms.

    Attributes:
        terms: Those that come from something else than leaves; label smoothing is part of the cross entropy.
        penalized: Whether there is a term of leaves alone, such as a penalty on weights.
    """

    def __init__(self, root: Any, outputs: Container[int]) -> None:
        """Takes the loss's node, and the numbers of the nodes that made the model's outputs, scalars left out."""
        self._outputs = outputs
        self._left = MAX_NODES
        self.penalized = False
        self.terms = self._terms(root, _Way())

    def _terms(self, node: Any, way: _Way) -> list[Term]:
        while self._left > 0:
            self._left -= 1
            if is_leaf(node):
                return []
            if node_number(node) in self._outputs:
                return [way.ends("", node, None)]
            name = operator(node)
            way = replace(way, nodes=(*way.nodes, node))
            if name in FUSED:
                return [_fused(FUSED[name], node, way)]
            if (term := _written_out(name, node, way)) is not None:
                return [term]
            inner = operands(node)
            if len(inner) > 1 and name in _JOINING:
                return self._joined(name, node, way)
            if len(inner) != 1:
                return [way.ends("", None, None)]
            way = _passed(name, node, way)
            node = inner[0]
        return [way.ends("", None, None)]

    def _joined(self, name: str, node: Any, way: _Way) -> list[Term]:
        """The terms of a sum, of a difference, or of a choice between two."""
        found: list[Term] = []
        for place, (following, _) in enumerate(node.next_functions):
            if following is not None:
                negative = name == "Sub" and place > 0
                terms = self._terms(following, replace(way, factor=-way.factor) if negative else way)
                self.penalized |= not terms
                found += terms
        known = [term for term in found if term.kind]
        if len(known) == 1 and len(found) == 2 and name == "Add" and _is_smoothing(known[0], found):
            return [replace(known[0], factor=math.copysign(way.factor, known[0].factor))]
        if math.prod(shape_of(node)) > 1:
            # Parts of one term, such as both summands of a binary cross entropy.
            return known[: 1 if len({term.kind for term in known}) == 1 else None] or found[:1]
        return found


def _passed(name: str, node: Any, way: _Way) -> _Way:
    """What is known after an operator with one operand that has a gradient."""
    if name in PASSING or name in _PICKING or (name == "Add" and len(node.next_functions) == 1):
        return way
    if name in ("Mean", "Sum", "Nansum"):
        reduced = way.reduction or ("mean" if name == "Mean" else "sum")
        return replace(way, reduction=reduced)
    if name in ("Neg", "Rsub"):
        return replace(way, factor=-way.factor)
    if name == "Sub":  # of a constant, or from one
        return way if node.next_functions[0][0] is not None else replace(way, factor=-way.factor)
    if name in ("Mul", "Div"):
        return _multiplied(name, node, way)
    return way if name in _JOINING or name == "NativeDropout" else replace(way, opaque=True)


def _multiplied(name: str, node: Any, way: _Way) -> _Way:
    constant = constant_operand(node)
    if isinstance(constant, torch.Tensor) and constant.ndim:
        return replace(way, weighted=True)
    number = number_on_host(constant)
    if name == "Mul":
        return way if number is None else replace(way, factor=way.factor * number)
    if node.next_functions[0][0] is None:
        return replace(way, opaque=True)  # something divided by the loss
    if number is None or number == 0:
        return way
    if isinstance(constant, torch.Tensor) and constant.dtype.is_floating_point and constant.dtype != torch.float64:
        # A number of the loop is of float64, a tensor of the loop such as a mask's sum seldom.
        return replace(way, reduction=way.reduction or "mean")
    return replace(way, factor=way.factor / number)


def _fused(kind: str, node: Any, way: _Way) -> Term:
    """The term of one of torch's own losses."""
    reduction = {1: "mean", 2: "sum"}.get(saved_value(node, "reduction") or 0, "")
    way = replace(way, reduction=way.reduction or reduction)
    inner = operands(node)
    outputs = inner[0] if inner else None
    if kind == "nll" and outputs is not None and (logits := _log_probabilities(outputs)) is not None:
        kind, outputs = "cross_entropy", logits
    if len(inner) > 1 and kind != "cross_entropy":
        kind = ""  # both sides are trained
    return way.ends(kind, outputs, node)


def _written_out(name: str, node: Any, way: _Way) -> Term | None:
    """The term of a loss that a loop, or torch itself, has put together of plain operators; None for others."""
    inner = operands(node)
    if name == "Pow" and saved_value(node, "exponent") == 2:
        return _of_difference("mse", node, inner[0], way)
    if name == "Mul" and len(inner) == 2 and inner[0] is inner[1]:
        return _of_difference("mse", node, inner[0], way)
    if name == "Abs":
        return _of_difference("l1", node, inner[0], way)
    if len(inner) != 1:
        return None
    if name in _PICKING and (logits := _log_probabilities(inner[0])) is not None:
        # Weights may be the advantages of a policy's gradient, of any sign.
        return way.ends("" if way.weighted else "cross_entropy", logits, node, sign=-1.0)
    if name == "Log" and (kind := _of_probabilities(inner[0])) is not None:
        return way.ends(*kind, node, sign=-1.0) if kind[0] == "bce" or _picks(inner[0]) else None
    if name == "Mul" and (constant := constant_operand(node)) is not None:
        return _of_product(node, inner[0], constant, way)
    if name == "Sub" and node.next_functions[0][0] is None and operator(inner[0]) == "Mul":
        return _kl_term(inner[0], way)
    return None


def _of_difference(kind: str, node: Any, inner: Any, way: _Way) -> Term | None:
    """The term of a function of outputs minus targets, or the opposite."""
    inner = _behind(inner)
    if operator(inner) != "Sub" or len(operands(inner)) != 1 or len(inner.next_functions) != 2:
        return None
    sign = 1 if inner.next_functions[0][0] is not None else -1
    outputs = operands(inner)[0]
    if is_leaf(outputs):
        return None
    return way.ends(kind, outputs, node, difference_sign=sign, shape=shape_of(inner))


def _of_product(node: Any, inner: Any, constant: Any, way: _Way) -> Term | None:
    """The term of a product of targets and log-probabilities."""
    if not isinstance(constant, torch.Tensor) or not constant.ndim:
        return None
    if operator(inner) == "Sub" and inner.next_functions[0][0] is None:
        logits = _log_probabilities(operands(inner)[0])
        return None if logits is None else way.ends("kl_div", logits, node, sign=-1.0)
    if tuple(constant.shape) != shape_of(inner):
        return None
    logits = _log_probabilities(inner)
    if logits is not None and operator(inner) not in _PICKING:
        return way.ends("cross_entropy", logits, node, sign=-1.0)
    if operator(inner) == "Log" and (kind := _of_probabilities(operands(inner)[0])) is not None:
        return way.ends(*kind, node, sign=-1.0)
    return None


def _kl_term(product: Any, way: _Way) -> Term | None:
    """The term of ``torch.nn.functional.kl_div``: t · (log t - x), written t · log t - t · x."""
    constant = constant_operand(product)
    if not isinstance(constant, torch.Tensor) or not constant.ndim or len(operands(product)) != 1:
        return None
    logits = operands(product)[0]
    way = replace(way, nodes=(*way.nodes, product))
    known = _log_probabilities(logits)
    return way.ends("kl_div", logits if known is None else known, product)


def _behind(node: Any) -> Any:
    """The node behind those that only pass on."""
    for _ in range(MAX_NODES):
        if operator(node) not in PASSING or not operands(node):
            return node
        node = operands(node)[0]
    return node


def _log_probabilities(node: Any) -> Any:
    """Returns the node of the logits if a node is a log-softmax, or the logarithm of a softmax; else None."""
    node = _behind(node)
    name, inner = operator(node), operands(node)
    if name == "LogSoftmax":
        return inner[0] if inner else None
    if name != "Log" or not inner:
        return None
    kind = _of_probabilities(inner[0])
    return kind[1] if kind is not None and kind[0] == "cross_entropy" else None


def _of_probabilities(node: Any) -> tuple[str, Any] | None:
    """Returns what the logarithm of a node is a part of, and the node of the outputs, if it is a probability."""
    for _ in range(8):
        name, inner = operator(node), operands(node)
        if len(inner) != 1:
            return None
        if name == "Softmax":
            return "cross_entropy", inner[0]
        if name == "Sigmoid":
            return "bce", node
        if not (name in PASSING or name in _PICKING or name in _SHIFTING or name == "Rsub"):
            return None
        node = inner[0]
    return None


def _picks(node: Any) -> bool:
    """Whether the probability of the target's class is picked between a logarithm and its softmax."""
    for _ in range(8):
        if operator(node) in _PICKING:
            return True
        inner = operands(node)
        if len(inner) != 1:
            return False
        node = inner[0]
    return False


def _is_smoothing(known: Term, both: list[Term]) -> bool:
    """Whether two terms are those of label smoothing: cross entropy, and the mean over all classes."""
    other = both[0] if both[1] is known else both[1]
    return known.kind == "cross_entropy" and (known.outputs is other.outputs or known.outputs in other.nodes)
