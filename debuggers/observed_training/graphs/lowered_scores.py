"""Losses of margins that make the score that an index picks smaller than the others of its row."""

from collections.abc import Container, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from debuggers.observed_training.graphs.margins import Margin
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number, saved_value
from debuggers.torch_internals.graph_nodes import (
    behind,
    constant_operand,
    dimension_of,
    is_leaf,
    operands,
    operator,
    shape_of,
)

_RESHAPING: Final = frozenset(
    ["Alias", "Clone", "Expand", "Reshape", "ReshapeAlias", "Select", "Slice", "Squeeze", "Unsqueeze", "View"]
)
_WHOLE: Final = _RESHAPING - {"Select", "Slice"}
"""Operators that keep all elements."""
_REDUCING: Final = frozenset(["Mean", "Sum", "Div", "Neg"])
_LAYERS: Final = frozenset(["Addmm", "Linear"])
_FEWEST_CLASSES = 3
"""Scores of a row from which an index of one may be told from that of the only other one."""


@dataclass(frozen=True, slots=True, eq=False)
class LoweredScores:
    """What picked scores are lowered below.

    Attributes:
        below: Whether it is each other score of the row, or the largest of them.
        meet_all: The share of rows where nothing but the picked score itself is left out of the others, 0-d. A negative
            that was drawn for some positives meets these alone.
    """

    below: Literal["each", "largest"]
    meet_all: torch.Tensor


def lowered_scores(margin: Margin, above: Sequence[Any], outputs: Container[int]) -> LoweredScores | None:
    """Returns what a loss of margins lowers picked scores below; None where it lowers none, or that is not known.

    The scores are those of the layer at the model's end: of distances, the picked one is to be the smallest.

    Args:
        margin: Of a graph that is still there.
        above: The nodes from the loss down to the margin.
        outputs: The numbers of the nodes of the model's outputs.
    """
    if margin.targets is not None or len(margin.terms) != 2:
        return None
    lowered, raised = margin.terms if margin.grows else margin.terms[::-1]
    picking = behind(lowered, _RESHAPING)
    picked = _picked_classes(picking)
    scores = behind(operands(picking)[0], _WHOLE) if picked is not None else None
    if scores is None or picked is None or node_number(scores) not in outputs or not _is_of_a_layer(scores):
        return None
    shape = shape_of(scores)
    left_out = torch.zeros(shape, dtype=torch.bool, device=picked.device)
    others, below = behind(raised, _WHOLE), "each"
    if operator(others) in ("Max", "Amax") and saved_value(others, "dim") is not None:
        others, below = behind(operands(others)[0], _WHOLE), "largest"
        masked = _masked(others, shape)
        if masked is not None:
            left_out, others = masked, behind(operands(others)[0], _WHOLE)
    else:
        weighed = _weighed(above, margin.node, shape)
        if weighed is None:
            return None
        left_out = left_out if isinstance(weighed, tuple) else weighed
    if others is not scores or left_out.shape != shape or left_out.device != picked.device:
        return None
    own = left_out.gather(1, picked[:, None])[:, 0]
    count = left_out.sum(1)
    meet_all = ((count == 0) | ((count == 1) & own)).double().mean()
    return LoweredScores("largest" if below == "largest" else "each", meet_all)


def _picked_classes(node: Any) -> torch.Tensor | None:
    """The one index that is picked of each row of two-dimensional scores; None if it is not that."""
    inner = operands(node)
    shape = shape_of(inner[0]) if len(inner) == 1 else ()
    if len(shape) != 2 or shape[1] < _FEWEST_CLASSES:
        return None
    found: Any = None
    if operator(node) in ("Gather", "TakeAlongDim"):
        if dimension_of(saved_value(node, "dim"), 2) == 1:
            found = saved_value(node, "index")
    elif operator(node) == "Index":
        indices = saved_value(node, "indices")
        found = indices[1] if indices and len(indices) == 2 else None
    if not isinstance(found, torch.Tensor) or found.dtype != torch.int64 or found.numel() != shape[0]:
        return None
    return found.reshape(-1)


def _is_of_a_layer(node: Any) -> bool:
    """Whether a layer with a bias makes the scores."""
    return operator(node) in _LAYERS and any(map(is_leaf, operands(node)))


def _masked(node: Any, shape: tuple[int, ...]) -> torch.Tensor | None:
    """The scores that a number takes the place of before the largest is sought; None where none does."""
    name = operator(node)
    mask = saved_value(node, {"MaskedFill": "mask", "Where": "condition"}.get(name, "mask"))
    if name == "Scatter" and dimension_of(saved_value(node, "dim"), 2) == 1:
        index = saved_value(node, "index")
        if not isinstance(index, torch.Tensor) or index.ndim != 2 or len(index) != shape[0]:
            return None
        return torch.zeros(shape, dtype=torch.bool, device=index.device).scatter(1, index, True)
    if not isinstance(mask, torch.Tensor) or mask.dtype != torch.bool or tuple(mask.shape) != shape:
        return None
    if name == "Where":
        return ~mask if node.next_functions[0][0] is not None else mask
    return mask if name == "MaskedFill" else None


def _weighed(above: Sequence[Any], last: Any, shape: tuple[int, ...]) -> torch.Tensor | tuple[()] | None:
    """The elements that count for nothing after the margin; () if all count, None if that is not known."""
    found: torch.Tensor | tuple[()] = ()
    for node in above:
        name = operator(node)
        if node is last:
            return found
        if name in ("Mul", "MaskedFill") and shape_of(node) == shape and isinstance(found, tuple):
            constant = constant_operand(node) if name == "Mul" else saved_value(node, "mask")
            if isinstance(constant, torch.Tensor) and tuple(constant.shape) == shape:
                found = constant == 0 if name == "Mul" else constant
            elif isinstance(constant, torch.Tensor) and constant.ndim:
                return None
        elif name not in _REDUCING and name != "Mul":
            return None
    return None
