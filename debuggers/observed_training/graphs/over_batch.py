"""Operators of a model that go over the first dimension of a tensor, where that is its batch."""

import math
from collections.abc import Iterator
from typing import Any

from debuggers.observed_training.graphs.dimensions import SOFTMAXES, TURNING, turned_back
from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import dimension_of, operands, operator, shape_of

MOST_NODES = 256
_RUNNING = {"Cumsum": "a running sum", "Cumprod": "a running product", "Logcumsumexp": "a running log-sum-exp"}
_LENGTHS = frozenset(["LinalgVectorNorm", "Norm"])
PRODUCTS = frozenset(["Addmm", "Mm", "Bmm", "Baddbmm", "Linear", "Convolution"])


def goes_over_batch(node: Any, rows: int) -> str:
    """What an operator of the model computes over dimension 0, where that is the batch and no weight's dimension."""
    name = operator(node)
    if name in _RUNNING:
        shape, what = shape_of(node), f"{_RUNNING[name]} over dimension 0"
        over = dimension_of(saved_value(node, "dim"), len(shape)) == 0
    elif name in _LENGTHS:
        shape, what = next(map(shape_of, operands(node)), ()), "dividing by lengths along dimension 0"
        dimensions = saved_value(node, "dim")
        single = isinstance(dimensions, (list, tuple)) and len(dimensions) == 1
        over = single and dimension_of(dimensions[0], len(shape)) == 0
    elif name == "Roll":  # along dimension 0 it may be on purpose, as where samples are mixed
        shape, what = shape_of(node), "a roll of all elements in a row"
        over = _dimensions_of(node) == []
    elif name == "NativeLayerNorm":
        shape, what = shape_of(node), "a layer norm over all dimensions"
        over = len(saved_value(node, "normalized_shape") or ()) == len(shape)
    else:
        return ""
    if over and is_batch(shape, rows) and reads_data(node):
        return f"{what} of {shape} mixes the {rows} samples of a batch"
    return ""


def rolls_over_first(node: Any) -> bool:
    """Whether an operator shifts its operand along its first dimension, and brings what falls off in again."""
    return operator(node) == "Roll" and _dimensions_of(node) in ([], [0])


def _dimensions_of(node: Any) -> list[int | None] | None:
    """The dimensions along which an operator works, of none if it works on all elements in a row; None if not known."""
    dimensions = saved_value(node, "dims")
    if not isinstance(dimensions, (list, tuple)):
        return None
    return [dimension_of(one, len(shape_of(node))) for one in dimensions]


def joins_samples(node: Any, given: tuple[int, ...]) -> str:
    """What an operator of the model joins of several samples: their sum, scores, a product over them, differences.

    Not a mean, which a normalisation of a batch takes on purpose.
    """
    rows, name, inner = given[0], operator(node), operands(node)
    shapes = list(map(shape_of, inner))
    what = ""
    if name == "Sum" and len(inner) == 1:
        for dim in saved_value(node, "dim") or ():
            shape, place = _before_turning(inner[0], dimension_of(dim, len(shapes[0])))
            if place == 0 and is_batch(shape, rows):
                what = f"a sum over dimension 0 of {shape}"
    elif name == "Mm" and len(inner) == 2 and operator(inner[1]) not in TURNING:
        if is_batch(shapes[1], rows) and all(map(reads_data, inner)):
            what = f"a product of {shapes[0]} with {shapes[1]}"
    elif name in SOFTMAXES and len(shape := shape_of(node)) == 3 and shape[1:] == (rows, rows):
        # Parts of the samples, as many as these, are a multiple of them.
        over = dimension_of(saved_value(node, "dim"), 3)
        if over and rows not in given[1:] and shape[0] % rows:
            what = f"a softmax over dimension {over} of {shape}"
    elif name == "Sub" and len(inner) == 2 and all(operator(one) == "Slice" for one in inner):
        ours, theirs = ([saved_value(one, key) for key in ("dim", "start")] for one in inner)
        whole = [shape_of(operands(one)[0]) for one in inner]
        if ours[0] == theirs[0] == 0 and ours[1] != theirs[1] and all(_spans_batch(shape, rows) for shape in whole):
            what = "a difference of neighbours along dimension 0"
    return f"{what} mixes the {rows} samples of a batch" if what and reads_data(node) else ""


def _before_turning(node: Any, place: int | None) -> tuple[tuple[int, ...], int | None]:
    """The shape of what operators that turn and add dimensions were given, and where one of its dimensions was then."""
    while place is not None and (inner := operands(node)):
        name, length = operator(node), len(shape_of(node))
        if name in TURNING:
            place = turned_back(node, place)
        elif name == "Unsqueeze":
            new = dimension_of(saved_value(node, "dim"), length)
            place = None if new is None or new == place else place - (place > new)
        else:
            break
        node = inner[0]
    return shape_of(node), place


def _spans_batch(shape: tuple[int, ...], rows: int) -> bool:
    """Whether dimension 0 is the batch, perhaps with one sample put before or behind it."""
    return is_batch(shape, rows) or is_batch(shape, rows + 1)


def is_batch(shape: tuple[int, ...], rows: int) -> bool:
    """Whether dimension 0 is the batch's by its size, and no other is; scores of one list, (N, 1), may compete."""
    return len(shape) > 1 and shape[0] == rows and rows not in shape[1:] and math.prod(shape[1:]) > 1


def reads_data(node: Any) -> bool:
    """Whether what a node computes depends on data, which need no gradient: weights may have the batch's size, too."""
    for one in nodes_before(node):
        name = operator(one)
        if name.startswith("Embedding"):
            return True
        if name in PRODUCTS and any(following is None for following, _ in one.next_functions):
            return True
    return False


def nodes_before(node: Any) -> Iterator[Any]:
    """Yields a node and those that it is computed from, up to a number."""
    waiting, seen = [node], {node}
    while waiting and len(seen) < MOST_NODES:
        node = waiting.pop()
        yield node
        new = [one for one in dict.fromkeys(operands(node)) if one not in seen]
        seen.update(new)
        waiting += new
