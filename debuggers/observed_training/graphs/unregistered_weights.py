"""Finds weights that a model multiplies with and does not have among its parameters, as of layers in a plain list."""

import weakref
from collections.abc import Container, Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number
from debuggers.torch_internals.graph_nodes import is_leaf, operands, operator
from debuggers.torch_internals.tensors import version_of

_MOST_NODES = 1024
_WEIGHTS = {"Addmm": 2, "Mm": 1, "Convolution": 1, "Embedding": 0}
"""Operators that have a weight, and its place among their operands: what is multiplied with it may be a leaf, too."""
_TURNING = frozenset(["T", "Transpose", "Permute"])


@dataclass(frozen=True, slots=True)
class _Seen:
    """A weight, as it was at a look."""

    weight: weakref.ref[torch.Tensor]
    version: int
    shape: tuple[int, ...]
    is_parameter: bool


class UnregisteredWeights:
    """Compares the leaves of graphs with a model's parameters; it keeps neither alive.

    What an optimizer of another model steps, or a loop itself, changes from one look to the next: then it is trained.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        self._model = model
        self._seen: dict[int, _Seen] = {}

    def look(
        self, root: Any, outputs: Container[int], given: torch.Tensor | None, held: Container[int]
    ) -> tuple[str, str] | None:
        """Returns weights that nothing has changed since the last look, and those of layers that were made since.

        Both name shapes, and are ``""`` for none; None at the first look at which there are such weights.

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
        anew = self._made_anew(found.values())
        self._seen = {
            key: _Seen(weakref.ref(one), version_of(one), tuple(one.shape), isinstance(one, torch.nn.Parameter))
            for key, one in found.items()
        }
        return None if first and found else (_shapes(still), _shapes(anew))

    def _stands(self, key: int, weight: torch.Tensor) -> bool:
        before = self._seen.get(key)
        return before is not None and before.weight() is weight and before.version == version_of(weight)

    def _made_anew(self, found: Iterable[torch.Tensor]) -> list[torch.Tensor]:
        """The parameters of layers that took the place of others, of the same shapes, which are gone.

        Weights that a loop computes, such as those of a hypernetwork or of a step within a step, are no parameters.
        """
        before = [one for one in self._seen.values() if one.is_parameter]
        now = [one for one in found if isinstance(one, torch.nn.Parameter)]
        is_replaced = before and all(one.weight() is None for one in before)
        alike = sorted(one.shape for one in before) == sorted(tuple(one.shape) for one in now)
        return [*now] if is_replaced and alike else []


def _shapes(weights: list[torch.Tensor]) -> str:
    return ", ".join(str(tuple(one.shape)) for one in weights[:3])


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
