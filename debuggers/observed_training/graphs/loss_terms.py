"""Walks from a loss to the terms that it is made of, and to the operator that compares outputs with targets in each."""

import math
from collections.abc import Container
from dataclasses import replace
from typing import Any, Final

from debuggers.diagnosis.facts import OF_VALUES
from debuggers.observed_training.graphs.contrasts import contrast_of
from debuggers.observed_training.graphs.loss_formulas import log_probabilities, of_difference, written_out
from debuggers.observed_training.graphs.loss_settings import confidence_penalty, smoothing_of
from debuggers.observed_training.graphs.loss_term import Term, Way
from debuggers.observed_training.graphs.margins import margin_of
from debuggers.observed_training.graphs.overlaps import overlap_of
from debuggers.observed_training.graphs.sure_weights import weighs_the_sure
from debuggers.observed_training.graphs.target_sides import are_of_the_other_side, draw_to_one_side
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number, saved_value
from debuggers.torch_internals.graph_nodes import (
    PASSING,
    PICKING,
    constant_operand,
    is_leaf,
    number_on_host,
    operands,
    operator,
    shape_of,
)

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
    "SoftMarginLoss": "soft_margin",
    "MultiMarginLoss": "multi_margin",
}
"""Operators that compare outputs with targets, and the loss that each is."""
_JOINING = frozenset(["Add", "Sub", "Stack", "Cat", "Where", "Maximum", "Minimum"])
_COMBINING = frozenset(["Add", "Sub", "Rsub", "Mul", "Div", "Maximum", "Minimum"])
"""Operators that broadcast two operands."""
_ARITHMETIC = _COMBINING | {"Neg", "Pow", "Abs", "Exp"}
_LOGARITHMS = frozenset(["Log", "Log10", "Log2", "Log1P"])


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
        self.terms = self._terms(root, Way())

    def _terms(self, node: Any, way: Way) -> list[Term]:
        while self._left > 0:
            self._left -= 1
            if is_leaf(node):
                return []
            if node_number(node) in self._outputs:
                return [way.ends("", node, None)]
            name = operator(node)
            inner = operands(node)
            way = replace(way, nodes=(*way.nodes, node), paired=way.paired or _paired(name, node, inner))
            if name in FUSED:
                return [self._fused(FUSED[name], node, way)]
            if (term := written_out(name, node, way) or _with_margin(name, node, way)) is not None:
                return [term]
            if (contrast := contrast_of(name, node)) is not None:
                return [way.ends("contrast", contrast.number, node, contrast=contrast)]
            if (overlap := overlap_of(name, node)) is not None:
                return [way.ends("overlap", overlap.outputs, overlap.product, sign=-1.0)]
            if name == "Mul" and (sure := weighs_the_sure(node, way)) is not None:
                return [replace(way.ends("", sure.logits, sure.picking), weighs_the_sure=sure.weight)]
            if len(inner) > 1 and name in _JOINING:
                return self._joined(name, node, way)
            if len(inner) != 1:
                return [replace(way, paired=way.paired or self._paired_below(inner)).ends("", None, None)]
            way = _passed(name, node, way)
            node = inner[0]
        return [way.ends("", None, None)]

    def _fused(self, kind: str, node: Any, way: Way) -> Term:
        """The term of one of torch's own losses; where an error is compared with zeros, these are no targets."""
        term, inner = _fused(kind, node, way), operands(node)
        if kind in OF_VALUES and inner and self._is_computed(inner[0]) and _are_zero(node, inner):
            reduced = replace(way, reduction=term.reduction)
            return of_difference(kind, node, inner[0], reduced) or reduced.ends(kind, inner[0], None)
        return term

    def _is_computed(self, node: Any) -> bool:
        """Whether a node is arithmetic of a loop, and no output of the model."""
        while node_number(node) not in self._outputs and operator(node) in PASSING and operands(node):
            node = operands(node)[0]
        return node_number(node) not in self._outputs and operator(node) in _ARITHMETIC

    def _paired_below(self, nodes: list[Any]) -> tuple[int, ...]:
        """What ``_paired`` says of the operators between these nodes and the model's outputs, as in a focal loss."""
        waiting, seen = list(nodes), set(nodes)
        while waiting and self._left > 0 and self._outputs:
            self._left -= 1
            node = waiting.pop(0)
            if is_leaf(node) or node_number(node) in self._outputs:
                continue
            inner = operands(node)
            if found := _paired(operator(node), node, inner):
                return found
            new = [one for one in inner if one not in seen]
            seen.update(new)
            waiting += new
        return ()

    def _joined(self, name: str, node: Any, way: Way) -> list[Term]:
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
            other = found[0] if found[1] is known[0] else found[1]
            smoothing = smoothing_of(known[0], other, way.factor)
            return [replace(known[0], factor=math.copysign(way.factor, known[0].factor), smoothing=smoothing)]
        if math.prod(shape_of(node)) > 1:
            if draw_to_one_side(known):
                return [replace(known[0], one_sided=True)]
            if len(found) == 2 and known and are_of_the_other_side(known[0]):
                known = [*known[1:], replace(known[0], complementary=True)]
            # Parts of one term, such as both summands of a binary cross entropy.
            return known[: 1 if len({term.kind for term in known}) == 1 else None] or _first_of(found, node, way)
        if len(known) == 1 and (penalty := sum(confidence_penalty(known[0], term) for term in found)) > 0:
            found = [replace(term, confidence_penalty=penalty) if term is known[0] else term for term in found]
        return found


def _first_of(found: list[Term], node: Any, way: Way) -> list[Term]:
    """The first of the parts of a term, with the shape of one that meets each row of a constant.

    Only where another part has fewer elements, so that it was expanded, too, to what is reduced as it is: pairs that
    are meant, such as those of kernels, are added to pairs.
    """
    paired = next((term.paired for term in found if term.paired), ())
    is_meant = way.opaque or all(shape_of(one) == shape_of(node) for one in operands(node))
    return found[:1] if is_meant or not paired else [replace(found[0], paired=paired)]


def _paired(name: str, node: Any, inner: list[Any]) -> tuple[int, ...]:
    """The shape of an operand of which each row meets each row of a constant, as in (N, 1) - (N,), else ().

    Not where the loop has added a dimension to compare vectors in pairs.
    """
    if name not in _COMBINING or len(inner) != 1:
        return ()
    ours, result = shape_of(inner[0]), shape_of(node)
    if len(result) < 2 or result[0] != result[1] or result[0] < 2 or not ours or ours[0] not in (1, result[0]):
        return ()
    if len(result) > 2 and operator(inner[0]) == "Unsqueeze":
        return ()
    if math.prod(ours) * result[0] != math.prod(result):
        return ()
    constant = constant_operand(node)
    is_whole = isinstance(constant, torch.Tensor) and constant.numel() == math.prod(result)
    return () if is_whole else ours  # one that has pairs itself, such as who is at risk with whom, is meant so


def _passed(name: str, node: Any, way: Way) -> Way:
    """What is known after an operator with one operand that has a gradient."""
    if name in PASSING or name in PICKING or name == "Scatter" or (name == "Add" and len(node.next_functions) == 1):
        return way
    if name in ("Mean", "Sum", "Nansum"):
        # The number of summands is a summand of a logarithm: gradients do not grow with it.
        reduced = way.reduction or ("mean" if name == "Mean" or way.logarithm else "sum")
        return replace(way, reduction=reduced)
    if name in ("Neg", "Rsub"):
        return replace(way, factor=-way.factor)
    if name == "Sub":  # of a constant, or from one
        return way if node.next_functions[0][0] is not None else replace(way, factor=-way.factor)
    if name in _LOGARITHMS and not way.logarithm and not way.root:
        return replace(way, logarithm=True)
    if name == "Reciprocal" and way.logarithm:  # log(1 / x) is -log(x)
        return replace(way, factor=-way.factor)
    if name in ("Mul", "Div"):
        return _multiplied(name, node, way)
    if name == "Sqrt" or (name == "Pow" and saved_value(node, "exponent") == 0.5):
        single = math.prod(shape_of(node)) == 1 and not way.root
        return replace(way, root=single, opaque=way.opaque or not single)
    return way if name in _JOINING or name == "NativeDropout" else replace(way, opaque=True)


def _multiplied(name: str, node: Any, way: Way) -> Way:
    constant = constant_operand(node)
    if name == "Div" and node.next_functions[0][0] is None:  # something divided by the loss
        return replace(way, factor=-way.factor) if way.logarithm else replace(way, opaque=True)
    if way.logarithm:  # a positive factor within a logarithm is a summand without it
        number = number_on_host(constant)
        return way if number is None or number > 0 else replace(way, factor=-way.factor)
    if isinstance(constant, torch.Tensor) and constant.ndim:
        return replace(way, weighted=True)
    number = number_on_host(constant)
    if name == "Mul":
        return way if number is None else replace(way, factor=way.factor * number)
    if number is None or number == 0:
        return way
    narrow = isinstance(constant, torch.Tensor) and constant.dtype.is_floating_point and constant.dtype != torch.float64
    inner = operands(node)[0]
    if narrow and operator(inner) != "Mean" and saved_value(inner, "reduction") != 1:
        # A number of the loop is of float64, a tensor of the loop such as a mask's sum seldom.
        return replace(way, reduction=way.reduction or "mean")
    return replace(way, factor=way.factor / number)


def _fused(kind: str, node: Any, way: Way) -> Term:
    """The term of one of torch's own losses."""
    reduction = {1: "mean", 2: "sum"}.get(saved_value(node, "reduction") or 0, "")
    way = replace(way, reduction=way.reduction or reduction)
    inner = operands(node)
    outputs = inner[0] if inner else None
    if kind == "nll" and outputs is not None and (logits := log_probabilities(outputs)) is not None:
        kind, outputs = "cross_entropy", logits
    if len(inner) > 1 and kind != "cross_entropy":
        kind = ""  # both sides are trained
    return way.ends(kind, outputs, node)


def _are_zero(node: Any, inner: list[Any]) -> bool:
    """Whether what one of torch's own losses compares with is zeros, as ``zeros_like(error)`` or ``0 * error``.

    Of zeros that no product with 0 has made, only where they lie on the host: nothing waits for a device.
    """
    if len(inner) > 1:
        return operator(inner[1]) == "Mul" and number_on_host(constant_operand(inner[1])) == 0
    targets = saved_value(node, "target")
    return isinstance(targets, torch.Tensor) and targets.is_cpu and targets.numel() > 0 and not bool(targets.any())


def _with_margin(name: str, node: Any, way: Way) -> Term | None:
    """The term of pairs, ranks, or scores with targets, whose error counts beyond a margin."""
    margin = margin_of(name, node)
    if margin is None or name == "LogSigmoid":
        return None
    compared = margin.terms[0] if not margin.compares else operands(margin.targets or margin.node)[0]
    return way.ends(margin.kind, compared, margin.targets or margin.node, margin=margin)


def _is_smoothing(known: Term, both: list[Term]) -> bool:
    """Whether two terms are those of label smoothing: cross entropy, and the mean over all classes."""
    other = both[0] if both[1] is known else both[1]
    return known.kind == "cross_entropy" and (known.outputs is other.outputs or known.outputs in other.nodes)
