"""Reshapes that deal the elements of a batch's samples out to other samples."""

import math
from typing import Any

from debuggers.observed_training.graphs.dimensions import TURNING, turned_back
from debuggers.torch_internals.graph_nodes import is_leaf, operands, operator, shape_of

VIEWS = frozenset(["View", "UnsafeView", "ReshapeAlias", "Reshape"])
_SHAPING = VIEWS | frozenset(["Clone", *TURNING])


def deals_out(node: Any, rows: int, joined: tuple[int, ...] = ()) -> str:
    """What a reshape does to the batch, if it gives elements of one sample to others; ``joined`` as for ``_mixes``."""
    if operator(node) in VIEWS and len(inner := operands(node)) == 1 and not is_of_a_parameter(inner[0]):
        before, after = shape_of(inner[0]), shape_of(node)
        restores = after[:1] == (rows,) and _restores_shape(inner[0], after)
        if restores or moves_batch(before, after, rows) or _makes_batch(before, after, rows):
            return f"a reshape from {before} to {after} deals the elements of a batch of {rows} out to other samples"
        if joined and before[:1] == (math.prod(joined),) and after[:2] == joined[::-1] != joined:
            return f"a reshape from {before} to {after} takes the parts of a batch of {rows} for those of other samples"
    return ""


def moves_batch(before: tuple[int, ...], after: tuple[int, ...], rows: int) -> bool:
    """Whether a dimension of the batch's size is none afterwards, nor joined with its neighbours, and one is new.

    A reshape keeps the order of elements: a dimension is known by how many elements those before it count together.
    One that stays what it was, as of features that are as many as the rows, says nothing.
    """
    old, new = _spans(before, rows), _spans(after, rows)
    old, new = [span for span in old if span not in new], [span for span in new if span not in old]
    return bool(old) and bool(new) and not _any_within(old, after) and not _any_within(new, before)


def _makes_batch(before: tuple[int, ...], after: tuple[int, ...], rows: int) -> bool:
    """Whether a first dimension of the batch's size is made of several, of which a later one has its size.

    Another one may have it by chance, as states (2, batch, batch) that are reshaped to (batch, 2 * batch) have. So may
    features beside samples in pairs or groups: the first dimensions are as many as the samples together then.
    """
    is_new = after[:1] == (rows,) and not _any_within([(1, rows)], before)
    are_grouped = any(math.prod(before[:end]) == rows for end in range(2, len(before)))
    return is_new and rows in before[1:] and before[:1] != (rows,) and not are_grouped


def is_of_a_parameter(node: Any) -> bool:
    """Whether a node is a parameter, at most in another shape or order: it holds no samples."""
    while operator(node) in _SHAPING and len(operands(node)) == 1:
        node = operands(node)[0]
    return is_leaf(node)


def _restores_shape(node: Any, after: tuple[int, ...]) -> bool:
    """Whether a reshape gives the shape, and not the order, from before dimension 0 was turned away.

    Its sizes may be multiples of one another, so that they would not tell.
    """
    while operator(node) == "Clone" and operands(node):
        node = operands(node)[0]
    if operator(node) not in TURNING or not after or turned_back(node, 0) == 0:
        return False
    order, before = ([size for size in shape if size > 1] for shape in (shape_of(node), after))
    return shape_of(operands(node)[0]) == after and order != before


def _spans(shape: tuple[int, ...], rows: int) -> list[tuple[int, int]]:
    """For each dimension of that size, the elements that those before it count, without and with it."""
    places = (math.prod(shape[:place]) for place, size in enumerate(shape) if size == rows)
    return [(place, place * rows) for place in places]


def _any_within(spans: list[tuple[int, int]], shape: tuple[int, ...]) -> bool:
    """Whether one of the dimensions lies within one of a shape."""
    for place, size in enumerate(shape):
        begin = math.prod(shape[:place])
        if begin and size and any(first % begin == 0 and begin * size % last == 0 for first, last in spans):
            return True
    return False
