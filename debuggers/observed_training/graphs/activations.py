"""Activations in a graph: which stands before a loss, and which bounds what it compares."""

from collections.abc import Container
from typing import Any, Final

from debuggers.observed_training.graphs.bounded_states import (
    bound_of_standard_scores,
    is_divided_by_its_length,
    is_recurrent_state,
)
from debuggers.observed_training.graphs.cosines import are_cosines
from debuggers.torch_internals.autograd import node_number, saved_value
from debuggers.torch_internals.graph_nodes import (
    PASSING,
    PICKING,
    constant_operand,
    is_leaf,
    number_on_host,
    operands,
    operator,
)

_ACTIVATIONS: Final = {
    "Softmax": "softmax",
    "LogSoftmax": "log_softmax",
    "Sigmoid": "sigmoid",
    "LogSigmoid": "log_sigmoid",
    "Tanh": "tanh",
    "Relu": "relu",
    "Softplus": "softplus",
    "Exp": "exp",
    "Silu": "silu",
    "Gelu": "gelu",
    "Mish": "mish",
    "Hardswish": "hardswish",
    "Hardsigmoid": "hardsigmoid",
    "Abs": "abs",
}
_WITH_BOUNDS: Final[dict[str, tuple[str, str, dict[tuple[float | None, float | None], str]]]] = {
    "Hardtanh": ("min_val", "max_val", {(-1.0, 1.0): "hardtanh", (0.0, 6.0): "relu6"}),
    "Clamp": ("min", "max", {(0.0, None): "relu", (-1.0, 1.0): "hardtanh", (0.0, 1.0): "hardsigmoid"}),
    "ClampMin": ("min", "", {(0.0, None): "relu"}),
    "Elu": ("alpha", "scale", {(1.0, 1.0): "elu"}),
    "Pow": ("exponent", "", {(2.0, None): "square"}),
}
"""Operators whose constants say which activation they are: the attributes that hold them, and the names."""
_FURTHEST = 16
FURTHEST_ACTIVATION = 10
"""How many nodes before the loss may lie between it and the activation that is looked for."""


def activation_of(name: str, node: Any) -> str:
    """Returns the name of a node's activation, as in ``LossFacts.before``; ``""`` for another operator."""
    if name not in _WITH_BOUNDS:
        return _ACTIVATIONS.get(name, "")
    first, second, names = _WITH_BOUNDS[name]
    low, high = (saved_value(node, one) if one else None for one in (first, second))
    return names.get((_number(low), _number(high)), "")


def _number(value: Any) -> float | None:
    return float(value) if isinstance(value, int | float) else None


def bounded_by(node: Any) -> tuple[str, float]:
    """Returns the activation that bounds what a node puts out, and what it is multiplied with by constants after it.

    The mean of bounded values is bounded as they are. ``cosine`` are cosine similarities of trained vectors,
    ``unit_vector`` vectors divided by their own lengths, ``recurrent_state`` the states of an LSTM or GRU,
    ``standard_score`` what a norm without trained weights puts out, in multiples of its bound; ``""`` and 0 where there
    is none of these, or a number is added in between.
    """
    factor, place = 1.0, 0
    for _ in range(_FURTHEST):
        if node is None or is_leaf(node):
            break
        name, inner = operator(node), operands(node)
        if are_cosines(node):
            return "cosine", abs(factor)
        if is_divided_by_its_length(node):
            return "unit_vector", abs(factor)
        if is_recurrent_state(node, place):
            return "recurrent_state", abs(factor)
        if bound := bound_of_standard_scores(node):
            return "standard_score", abs(factor) * bound
        if found := activation_of(name, node):
            return found, factor
        if name in ("Hardtanh", "Clamp"):
            return _limited(name, node, factor)
        if len(inner) != 1 or node.next_functions[0][0] is None:
            break
        if name in ("Mul", "Div"):
            number = number_on_host(constant_operand(node))
            if not number:
                break
            factor = factor * number if name == "Mul" else factor / number
        elif name not in PASSING and name != "Mean":
            break
        node, place = node.next_functions[0]
    return "", 0.0


def _limited(name: str, node: Any, factor: float) -> tuple[str, float]:
    """The activation that cuts off at other numbers than 0 or 1, as a multiple of the one that cuts off there."""
    low, high = (_number(saved_value(node, one)) for one in _WITH_BOUNDS[name][:2])
    if low is None or high is None or high <= 0 or low not in (0.0, -high):
        return "", 0.0
    return ("hardtanh" if low else "hardsigmoid"), factor * high


def back_to_activation(node: Any, outputs: Container[int]) -> tuple[list[Any], str, bool]:
    """Returns the nodes to the model's end, the last activation on the way, and whether that end was found."""
    nodes: list[Any] = []
    before, in_model = "", False
    for _ in range(FURTHEST_ACTIVATION):
        if node is None or hasattr(node, "variable"):
            break
        if not in_model:
            nodes.append(node)
            in_model = node_number(node) in outputs
        name, inner = operator(node), operands(node)
        before = activation_of(name, node)
        passes = len(inner) == 1 and (name in PASSING or name in PICKING)
        if before or not (passes or _joins_alike(name, inner)):
            break
        node = inner[0]
    return nodes, before, in_model


def _joins_alike(name: str, inner: list[Any]) -> bool:
    """Whether a node joins results of one operator, such as the log-softmax of each step of a sequence."""
    return name in ("Cat", "Stack") and len({operator(one) for one in inner}) == 1
