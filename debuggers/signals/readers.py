"""Tells rectifiers and bounded activations: of modules, and in the graph of a pass, which has the model's outputs."""

from collections.abc import Iterable, Mapping
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number, saved_value
from debuggers.torch_internals.graph_nodes import PASSING, constant_operand, number_on_host, operator

MOST_NODES = 20_000
_MOST_OPERATIONS = 20
RECTIFIERS = (torch.nn.ReLU, torch.nn.ReLU6)
_SHARES = (torch.nn.Sigmoid, torch.nn.Hardsigmoid, torch.nn.Softmax)
"""Modules whose outputs lie from 0 to 1."""
_ACTIVATIONS = {
    "ReluBackward0": "relu", "TanhBackward0": "tanh", "SigmoidBackward0": "sigmoid", "SinBackward0": "sine",
}  # fmt: skip
_SHAPING = PASSING - {
    "IndexSelect",
    "MaskedFill",
    "MaskedSelect",
    "Select",
    "Slice",
    "Split",
    "SplitWithSizes",
    "Unbind",
}
"""Operators that pass all elements on: of a part, such as the gates, what reads it says nothing of the others."""
_MOST_BETWEEN = 4
"""Nodes between an activation and the layer that it reads."""


def makers_of(outputs: Iterable[torch.Tensor], nodes: Mapping[int, str]) -> set[str]:
    """Returns the layers whose outputs become the model's by operations on one tensor each, such as a sigmoid.

    Args:
        outputs: Of the model.
        nodes: Names of the layers, by the numbers of the nodes that made their outputs.
    """
    found = set()
    for output in outputs:
        node = output.grad_fn
        for _ in range(_MOST_OPERATIONS):
            if node is None:
                break
            if (name := nodes.get(node_number(node))) is not None:
                found.add(name)
            below = [one for one, _ in node.next_functions if one is not None]
            node = below[0] if len(below) == 1 else None
    return found


def readers_of(outputs: Iterable[torch.Tensor], nodes: Mapping[int, str]) -> dict[str, str]:
    """Returns for layers by name ``relu``, ``tanh``, ``sigmoid`` or ``sine``, if that is what reads their output.

    Behind a star follows the constant number that the output is multiplied with before: ``sine*30.0``.

    Args:
        outputs: Of the model.
        nodes: Names of the layers, by the numbers of the nodes that made their outputs.
    """
    waiting = [output.grad_fn for output in outputs if output.grad_fn is not None]
    seen, found = set(waiting), {}
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        if (kind := _kind_of(node)) is not None and (read := _read_by(node, nodes)) is not None:
            name, factor = read
            if kind != "relu":
                found[name] = kind if factor == 1 else f"{kind}*{factor}"
            elif factor > 0:  # else it is what lies above zero that is cut off
                found[name] = kind
        for below, _ in node.next_functions:
            if below is not None and below not in seen:
                seen.add(below)
                waiting.append(below)
    return found


def _read_by(node: Any, nodes: Mapping[int, str]) -> tuple[str, float] | None:
    """The layer that an activation reads, and what its output is multiplied with in between."""
    factor = 1.0
    for _ in range(_MOST_BETWEEN):
        below = [one for one, _ in node.next_functions if one is not None]
        if len(below) != 1:
            break
        node = below[0]
        if (name := nodes.get(node_number(node))) is not None:
            return name, factor
        kind = operator(node)
        if kind in ("Mul", "Div"):
            number = number_on_host(constant_operand(node))
            if not number:
                break
            factor = factor * number if kind == "Mul" else factor / number
        elif kind not in _SHAPING:
            break
    return None


def _kind_of(node: Any) -> str | None:
    """What a node does to what it reads: a rectifier's limit is 0, whatever is above it."""
    name = node.name()
    if name.startswith("Clamp") and saved_value(node, "min") == 0:
        return "relu"
    limit = {"HardtanhBackward0": "min_val", "ThresholdBackward0": "threshold"}.get(name)
    if limit is not None and saved_value(node, limit) == 0:
        return "relu"
    return _ACTIVATIONS.get(name)


def is_rectified(node: Any) -> bool:
    """Whether a node puts out zero for all that lies below some number, as the end of a module of one's own may."""
    return _kind_of(node) == "relu" or node.name() == "ThresholdBackward0"


def kind_of_module(module: torch.nn.Module) -> str:
    """Returns ``relu``, the bounds of an activation as ``low:high``, or nothing."""
    if isinstance(module, RECTIFIERS) or (isinstance(module, torch.nn.Threshold) and module.value == 0):
        return "relu"
    if isinstance(module, torch.nn.Tanh):
        return "-1:1"
    if isinstance(module, _SHARES):
        return "0:1"
    if isinstance(module, torch.nn.Hardtanh):
        return f"{module.min_val}:{module.max_val}"
    return ""
