"""Notices from outside that a loop keeps the graphs of steps that are over."""

import weakref
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.graph_nodes import PASSING, is_leaf, operands, operator

LATER = 10
"""Steps after which the graph of a step is expected to be gone."""
_MOST = 64
_DEPTH = 64
"""Nodes from the loss towards the model's inputs: a loop may keep the loss, the output, features or a state."""
_KEY = "stepscope"


class _Mark:
    __slots__ = ("__weakref__",)


def _is_weight(node: Any) -> bool:
    """Whether a node passes on a leaf alone, as a parameter or its transposed: such nodes may well be kept."""
    return is_leaf(node) or (operator(node) in PASSING and all(map(is_leaf, operands(node))))


class KeptGraphs:
    """Marks the graph of the loss at some steps, and tells how many of the marked graphs are still there.

    A mark is an object in the metadata of a node, which torch keeps for users of the graph; it is gone with the node.
    Nothing of the graph is kept alive, and no value is read.
    """

    def __init__(self) -> None:
        self._marks: list[tuple[int, weakref.ref[_Mark]]] = []

    def mark(self, step: int, loss: torch.Tensor) -> None:
        """Marks the graph of a loss, before its backward pass."""
        if len(self._marks) >= _MOST or (self._marks and self._marks[-1][0] == step):
            return
        mark, node = _Mark(), loss.grad_fn
        for _ in range(_DEPTH):
            metadata: Any = getattr(node, "metadata", None)
            if not isinstance(metadata, dict):
                break
            metadata[_KEY] = mark
            following = [one for one in operands(node) if not _is_weight(one)]
            if not following:
                break
            node = following[0]
        self._marks.append((step, weakref.ref(mark)))

    def kept(self, step: int) -> tuple[int, int] | None:
        """Returns how many graphs of earlier steps are still there, of how many; None for fewer than three."""
        old = [mark for marked, mark in self._marks if step - marked >= LATER]
        return None if len(old) < 3 else (sum(mark() is not None for mark in old), len(old))
