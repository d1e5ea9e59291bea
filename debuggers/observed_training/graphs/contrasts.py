"""Losses that draw some pairs together and others apart: which are in the order that they ask for."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from debuggers.observed_training.graphs.margins import value_of
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import constant_operand, is_leaf, operands, operator, shape_of

_FURTHEST = 8
_RISING: Final = frozenset(["Pow", "Relu", "ClampMin", "Clamp", "Sqrt"])


@dataclass(frozen=True, slots=True, eq=False)
class Contrast:
    """A loss that grows with a number for some rows, and falls with it for others.

    Attributes:
        number: The node of the numbers, such as distances or similarities.
        growing, falling: Which rows are which, bool or of 0 and 1.
        chosen: Whether torch's operator for choices told them apart, as in its own losses.
    """

    number: Any
    growing: torch.Tensor
    falling: torch.Tensor
    chosen: bool


def contrast_of(name: str, node: Any) -> Contrast | None:
    """Returns what an operator is as a loss of pairs of two kinds; None for another one."""
    inner = operands(node)
    if len(inner) != 2 or len(shape_of(node)) != 1:
        return None
    condition = saved_value(node, "condition") if name == "Where" else None
    if isinstance(condition, torch.Tensor):
        sides = [(condition, inner[0]), (~condition, inner[1])]
    elif name == "Add":
        sides = [side for one in inner if (side := _masked(one)) is not None]
    else:
        return None
    if len(sides) != 2 or any(mask.shape != shape_of(node) for mask, _ in sides):
        return None
    first, second = (dict(_behind(side)) for _, side in sides)
    shared = next((one for one in first if one in second), None)
    if shared is None or first[shared] == second[shared]:
        return None
    masks = [mask.detach() for mask, _ in sides]
    growing, falling = masks if first[shared] > 0 else masks[::-1]
    return Contrast(shared, growing, falling, name == "Where" or all(operator(one) == "Where" for one in inner))


def order_of(contrast: Contrast, values: Mapping[int, torch.Tensor]) -> torch.Tensor | None:
    """Returns how often a row that the loss grows with has a smaller number than one that it falls with, 0-d.

    NaN where there are none of one kind; None where the graph has not saved the numbers.
    """
    numbers = value_of(contrast.number, values)
    if numbers is None or numbers.shape != contrast.growing.shape:
        return None
    below = (numbers[:, None] < numbers).double() + 0.5 * (numbers[:, None] == numbers)
    pairs = (contrast.growing > 0)[:, None] & (contrast.falling > 0)
    return (below * pairs).sum() / pairs.sum()


def left_out(contrast: Contrast) -> torch.Tensor | None:
    """Returns the share of rows that belong to none of the two kinds or to both, 0-d; None where a loop masks some."""
    if not contrast.chosen:
        return None
    return ((contrast.growing > 0) == (contrast.falling > 0)).double().mean()


def _masked(node: Any) -> tuple[torch.Tensor, Any] | None:
    """The rows of a term that count, and the node of what they count with."""
    name, inner = operator(node), operands(node)
    if len(inner) != 1:
        return None
    if name == "Mul":
        mask = constant_operand(node)
        return (mask, inner[0]) if isinstance(mask, torch.Tensor) and mask.ndim == 1 else None
    condition = saved_value(node, "condition") if name == "Where" else None
    if not isinstance(condition, torch.Tensor):
        return None
    return (condition if node.next_functions[0][0] is not None else ~condition), inner[0]


def _behind(node: Any) -> Iterator[tuple[Any, float]]:
    """A node and those behind functions of one number, each with the sign with which what is computed grows."""
    sign = 1.0
    for _ in range(_FURTHEST):
        yield node, sign
        name, inner = operator(node), operands(node)
        if len(inner) != 1 or is_leaf(inner[0]):
            return
        if name in ("Rsub", "Neg") or (name == "Sub" and node.next_functions[0][0] is None):
            sign = -sign
        elif name not in _RISING and name not in ("Add", "Sub"):
            return
        node = inner[0]
