"""Features that a model standardises over the batch, without keeping what it takes them by for an evaluation."""

import math
from collections.abc import Container, Iterator
from typing import Any

from debuggers.observed_training.graphs.dimensions import TURNING
from debuggers.observed_training.graphs.over_batch import MOST_NODES, PRODUCTS, nodes_before, reads_data
from debuggers.observed_training.graphs.reshaped_batches import is_of_a_parameter
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number, saved_value
from debuggers.torch_internals.graph_nodes import PASSING, dimension_of, is_leaf, operands, operator, shape_of
from debuggers.torch_internals.modules import RunningNorm
from debuggers.utils import tensors_in

_SPREADS = frozenset(["Std", "StdMean", "Var", "VarMean"])
_INVERTED = frozenset(["Reciprocal", "Rsqrt"])
_OF_A_SPREAD = _INVERTED | PASSING | frozenset(["Abs", "Add", "Clamp", "ClampMin", "Mul", "Pow", "Sqrt"])
"""Operators that make of a spread what features are divided by."""
_PRODUCTS_OF_ROWS = frozenset(["Addmm", "Mm", "SparseAddmm", "SparseMm"])
_TAKING = frozenset(["Gather", "Index", "IndexAdd", "IndexReduce", "IndexSelect", "ScatterAdd", "ScatterReduce"])


class UnkeptStatistics:
    """Looks for features that are divided by their own spread over the batch, where nothing keeps it.

    A batch norm does so in training, and keeps its statistics: in evaluation it takes nothing from the batch. What a
    model puts out without any weights behind it may be meant for a loss that compares samples, as that of Barlow Twins.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model

    def look(self, root: Any, outputs: Container[int], rows: int) -> str | None:
        """Returns what is standardised over the batch, ``""`` for nothing.

        None where the model joins rows on purpose: they may be the nodes of one graph.

        Args:
            root: The node of the loss.
            outputs: See ``loss_view.output_nodes``.
            rows: How many samples the batch has.
        """
        found = ""
        for node, is_weighed in _of_model(root, outputs):
            if _joins_rows(node, rows):
                return None
            spread = None if found or not is_weighed else _spread_behind(node)
            if spread is None or not _is_over_batch(spread, rows):
                continue
            if not self._keeps(math.prod(shape_of(spread))) and not self._means_to():
                found = (
                    f"features {shape_of(operands(spread)[0])} are divided by their spread over the {rows} samples of "
                    "a batch, and no statistics are kept for evaluation"
                )
        return found

    def _keeps(self, features: int) -> bool:
        """Whether the model holds numbers for that many features that it does not train, such as running means."""
        for module in self._own_modules():
            own = {name: value for name, value in vars(module).items() if not name.startswith("_")}
            fixed = [one for one in module.parameters(recurse=False) if not one.requires_grad]
            held = [*module.buffers(recurse=False), *fixed, *tensors_in(own)]
            if any(one.numel() == features for one in held):
                return True
        return False

    def _means_to(self) -> bool:
        """Whether something in the model is named after the batch: who keeps its statistics may be the loop."""
        for module in self._own_modules():
            own = [name for name, child in module.named_children() if not isinstance(child, RunningNorm)]
            names = [type(module).__name__, *own, *(name for name, _ in module.named_parameters(recurse=False))]
            if any(part in name.lower() for name in names for part in ("batch", "bn")):
                return True
        return False

    def _own_modules(self) -> Iterator[torch.nn.Module]:
        return (module for module in self._model.modules() if not isinstance(module, RunningNorm))


def _of_model(root: Any, outputs: Container[int]) -> Iterator[tuple[Any, bool]]:
    """Yields the nodes of the model, and whether there is a product with weights between them and an output."""
    waiting, seen = [(root, 0)], {(root, 0)}
    while waiting and len(seen) < 2 * MOST_NODES:
        node, state = waiting.pop(0)
        if not state and node_number(node) in outputs:
            state = 1
        if state:
            yield node, state == 2
        inner = operands(node)
        if state and operator(node) in PRODUCTS and any(map(is_of_a_parameter, inner)):
            state = 2
        new = [(one, state) for one in dict.fromkeys(inner) if (one, state) not in seen and (one, 2) not in seen]
        seen.update(new)
        waiting += new


def _joins_rows(node: Any, rows: int) -> bool:
    """Whether rows are taken by an index, or multiplied with a matrix, as those of neighbours in a graph are."""
    inner = operands(node)
    if operator(node) in _PRODUCTS_OF_ROWS:
        return bool(inner) and shape_of(inner[-1])[-2:-1] == (rows,) and not is_of_a_parameter(inner[-1])
    return operator(node) in _TAKING and any(shape_of(one)[:1] == (rows,) and not is_leaf(one) for one in inner)


def _spread_behind(node: Any) -> Any:
    """The node of the spread by which a node divides what has it; None for another one."""
    name, inner = operator(node), operands(node)
    if name not in ("Div", "Mul") or len(inner) != 2:
        return None
    for value, divisor in (inner,) if name == "Div" else (inner, inner[::-1]):
        spread, inverted = _back_to_spread(divisor)
        if spread is None or not (inverted or name == "Div"):
            continue
        of = operands(spread)[0]
        if operator(spread) == "Mean":
            of = operands(of)[0]
        if {of, *operands(of)} & set(_just_before(value)):
            return spread
    return None


def _just_before(node: Any, further: int = 3) -> Iterator[Any]:
    """Yields a node and what it is made of by a few operators of single elements: less a mean, and times a gain."""
    yield node
    for one in operands(node) if further and operator(node) in ("Add", "Mul", "Sub") else ():
        yield from _just_before(one, further - 1)


def _back_to_spread(node: Any) -> tuple[Any, bool]:
    """The spread that a node is made of, and whether it was inverted on the way; None if it is made of none."""
    inverted = False
    while len(inner := operands(node)) == 1:
        name = operator(node)
        if name in _SPREADS or (name == "Mean" and _is_square(inner[0])):
            return node, inverted
        if name not in _OF_A_SPREAD:
            break
        inverted |= name in _INVERTED or (name == "Pow" and _exponent(node) < 0)
        node = inner[0]
    return None, False


def _is_square(node: Any) -> bool:
    inner = operands(node)
    if operator(node) == "Pow":
        return len(inner) == 1 and _exponent(node) == 2
    return operator(node) == "Mul" and len(inner) == 2 and inner[0] is inner[1]


def _exponent(node: Any) -> float:
    """The number that a power has as its exponent; 0 if it is none."""
    value = saved_value(node, "exponent")
    return value if isinstance(value, int | float) else 0


def _is_over_batch(spread: Any, rows: int) -> bool:
    """Whether a spread of several features goes over dimension 0, which is the batch and no weight's dimension."""
    inner = operands(spread)[0]
    shape, over = shape_of(inner), saved_value(spread, "dim")
    if not isinstance(over, (list, tuple)) or shape[:1] != (rows,) or math.prod(shape_of(spread)) < 2:
        return False
    if 0 not in [dimension_of(one, len(shape)) for one in over] or not reads_data(inner):
        return False
    return rows not in shape[1:] or not any(
        operator(one) in TURNING and not is_of_a_parameter(one) for one in nodes_before(inner)
    )
