"""Follows the dimension of the classes back through operators that turn and reshape a tensor."""

import math
from collections.abc import Iterator
from typing import Any

from debuggers.torch_internals.autograd import saved_value
from debuggers.torch_internals.graph_nodes import dimension_of, operands, operator, shape_of

SOFTMAXES = frozenset(["Softmax", "LogSoftmax", "SafeSoftmax"])
TURNING = frozenset(["Permute", "T", "Transpose"])
_RESHAPING = frozenset(["Flatten", "Reshape", "ReshapeAlias", "Squeeze", "UnsafeView", "Unsqueeze", "View"])
_KEEPING = frozenset(["Alias", "Clone", "Log", "ToCopy"])
"""Operators of single elements that may stand between a softmax and what takes its classes."""
_PICKING = frozenset(["Gather", "TakeAlongDim"])
_FURTHEST = 16


def turned_back(node: Any, place: int) -> int | None:
    """Where a dimension stands in the operand of one of ``TURNING``; None if that is not known."""
    name, length = operator(node), len(shape_of(node))
    if name == "T":
        return length - 1 - place
    if name == "Permute":
        return dimension_of((saved_value(node, "dims") or ())[place], length)
    pair = [dimension_of(saved_value(node, key), length) for key in ("dim0", "dim1")]
    return pair[1 - pair.index(place)] if place in pair else place


def reshaped_back(node: Any, place: int) -> int | None:
    """Where a dimension stands in the operand of an operator that keeps the order of elements; None if in none.

    It is the one of the same size with as many elements behind each of its own.
    """
    ours, theirs = shape_of(node), shape_of(operands(node)[0])
    size, behind = ours[place], math.prod(ours[place + 1 :])
    if size < 2 or math.prod(ours) != math.prod(theirs):
        return None
    found = (one for one, length in enumerate(theirs) if length == size and math.prod(theirs[one + 1 :]) == behind)
    return next(found, None)


def shape_by_classes(comparison: Any, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Returns the shape of what a loss compares with its classes in dimension 1, where ``comparison`` tells them.

    A loop may reshape log-probabilities for ``nll_loss``, or pick from the last of several dimensions.
    """
    node, place = _picked_from(comparison)
    taken = () if node is None else shape_of(node)
    if place is None or len(taken) < 2 or (place == 1 and taken[:2] == shape[:2]):
        return shape
    return math.prod(taken[:place] + taken[place + 1 :]), taken[place]


def _picked_from(comparison: Any) -> tuple[Any, int | None]:
    """What ``nll_loss``, or what gathers the targets' classes, picks from, and the dimension of the classes."""
    name, inner = operator(comparison), operands(comparison)
    node = inner[0] if len(inner) == 1 else None
    length = 0 if node is None else len(shape_of(node))
    if name.startswith("NllLoss") and length:
        return node, min(1, length - 1)
    if name in _PICKING:
        return node, dimension_of(saved_value(comparison, "dim"), length)
    return node, None


def other_softmax_dim(comparison: Any) -> int | None:
    """The dimension that a softmax goes over, where what follows takes its classes along another one; else None.

    None, too, for a softmax over dimension 0, which compares rows, and where both dimensions have the same size: the
    diagonal of a square of scores is that of its columns as well as of its rows.

    Args:
        comparison: ``nll_loss`` or what gathers the targets' classes: its classes stand in its dimension 1, or ``dim``.
    """
    for node, place in _back_along_classes(comparison):
        if operator(node) in SOFTMAXES:
            shape = shape_of(node)
            over = dimension_of(saved_value(node, "dim"), len(shape))
            return over if over and over != place and shape[over] != shape[place] else None
    return None


def shape_before_scattering(comparison: Any) -> tuple[int, ...]:
    """The shape in which classes stood in one dimension, before a reshape spread them over several; else ().

    So do ``view`` and ``reshape`` in the place of ``permute``: of (N, T, classes) they make (N, classes, T), in which
    the scores of a place are those of others. None of dimension 0, whose size is that of the batch.

    Args:
        comparison: As for ``other_softmax_dim``.
    """
    for node, place in _back_along_classes(comparison):
        inner = operands(node)
        if operator(node) in _RESHAPING and len(inner) == 1 and reshaped_back(node, place) is None:
            ours, theirs = shape_of(node), shape_of(inner[0])
            had_classes = ours[place] > 1 and ours[place] in theirs[1:] and len(theirs) > 2
            is_known = had_classes and math.prod(ours) == math.prod(theirs)
            return theirs if is_known and not _is_split_off(ours, place, theirs) else ()
    return ()


def _is_split_off(ours: tuple[int, ...], place: int, theirs: tuple[int, ...]) -> bool:
    """Whether a dimension is part of a larger one that was split, as that of anchors and classes is, in its place."""
    ends = {math.prod(ours[start:]) for start in range(len(ours) + 1)}
    behind = math.prod(ours[place + 1 :])
    return any(
        (stride := math.prod(theirs[one + 1 :])) in ends
        and behind % stride == 0
        and length * stride % (ours[place] * behind) == 0
        for one, length in enumerate(theirs)
    )


def _back_along_classes(comparison: Any) -> Iterator[tuple[Any, int]]:
    """Each node back from what a loss compares, and where its classes stand, as long as that is known."""
    node, place = _picked_from(comparison)
    for _ in range(_FURTHEST):
        if node is None or place is None or place < 0:
            return
        yield node, place
        name, inner = operator(node), operands(node)
        if len(inner) != 1:
            return
        if name in TURNING:
            place = turned_back(node, place)
        elif name in _RESHAPING:
            place = reshaped_back(node, place)
        elif name not in _KEEPING and name not in SOFTMAXES:
            return
        node = inner[0]
