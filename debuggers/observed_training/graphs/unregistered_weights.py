"""Finds weights that a model multiplies with and does not have among its parameters, as of layers in a plain list."""

import weakref
from collections.abc import Container, Iterator
from typing import Any

from debuggers.observed_training.graphs.graph_nodes import is_leaf, operands, operator
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number
from debuggers.torch_internals.tensors import version_of

_MOST_NODES = 1024
_WEIGHTS = {"Addmm": 2, "Mm": 1, "Convolution": 1, "Embedding": 0}
"""Operators that have a weight, and its place among their operands: what is multiplied with it may be a leaf, too."""
_TURNING = frozenset(["T", "Transpose", "Permute"])


class UnregisteredWeights:
    """Compares the leaves of graphs with a model's parameters; it keeps neither alive.

    What an optimizer of another model steps, or a loop itself, changes from one look to the next: then it is trained.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._seen: dict[int, tuple[weakref.ref[torch.Tensor], int]] = {}

    def look(self, root: Any, outputs: Container[int], given: torch.Tensor | None, held: Container[int]) -> str | None:
        """Returns weights that nothing has changed since the last look, ``""`` for none; None at the first look.

        Args:
            root: The node of the loss.
            outputs: The numbers of the nodes that made the model's outputs.
            given: What the model was given, whose graph belongs to others.
            held: The identities of what the model's optimizer holds.
        """
        first = not self._seen
        behind = -1 if given is None or given.grad_fn is None else node_number(given.grad_fn)
        known = set(map(id, self._model.parameters()))
        found = {
            id(one): one
            for one in _weights(root, outputs, behind)
            if id(one) not in known and id(one) not in held and one.requires_grad
        }
        still = [one for key, one in found.items() if self._stands(key, one)]
        self._seen = {key: (weakref.ref(one), version_of(one)) for key, one in found.items()}
        if first and found:
            return None
        return ", ".join(str(tuple(one.shape)) for one in still[:3])

    def _stands(self, key: int, weight: torch.Tensor) -> bool:
        before = self._seen.get(key)
        return before is not None and before[0]() is weight and before[1] == version_of(weight)


def _weights(root: Any, outputs: Container[int], behind: int) -> Iterator[torch.Tensor]:
    """The leaves that operators behind the model's outputs multiply with."""
    waiting: list[tuple[Any, bool]] = [(root, False)]
    seen = {root}
    while waiting:
        node, inside = waiting.pop(0)
        inside = inside or node_number(node) in outputs
        if inside:
            yield from _weight_of(node)
        for following in operands(node) if len(seen) < _MOST_NODES else ():
            if following not in seen and not is_leaf(following) and node_number(following) != behind:
                seen.add(following)
                waiting.append((following, inside))


def _weight_of(node: Any) -> Iterator[torch.Tensor]:
    place = _WEIGHTS.get(operator(node))
    if place is None or place >= len(node.next_functions):
        return
    weight = node.next_functions[place][0]
    if weight is not None and operator(weight) in _TURNING and operands(weight):
        weight = operands(weight)[0]
    if weight is not None and is_leaf(weight):
        yield weight.variable
