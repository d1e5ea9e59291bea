"""Intercepts ``backward`` in a closure: gradients are computed without changing any ``grad``."""

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode

from debuggers.torch_import import torch

OnBackward = Callable[[torch.Tensor, torch.Tensor | None, bool], None]


class BackwardInterception(TorchFunctionMode):
    """Replaces each ``tensor.backward`` by a call of a function with the tensor, gradient and ``retain_graph``."""

    def __init__(self, function: OnBackward) -> None:
        super().__init__()
        self._function = function

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called by torch for each function of its Python interface."""
        keywords = dict(kwargs or {})
        if func is not torch.Tensor.backward:
            return func(*args, **keywords)
        gradient = args[1] if len(args) > 1 else keywords.get("gradient")
        retain_graph = args[2] if len(args) > 2 else keywords.get("retain_graph")
        return self._function(args[0], gradient, bool(retain_graph or keywords.get("create_graph")))


def gradients_of(
    tensors: Iterable[torch.Tensor],
    incoming: Iterable[torch.Tensor | None],
    parameters: Iterable[torch.Tensor] = (),
    *,
    retain_graph: bool = False,
) -> list[torch.Tensor]:
    """Returns the gradients of all leaves of the tensors' graph that require one; no ``grad`` is changed.

    ``torch.autograd.grad`` refuses graphs with a re-entrant checkpoint. There, ``backward`` runs while the ``grad`` of
    the leaves and ``parameters`` is put aside, and their hooks are called.
    """
    roots, starts = list(tensors), list(incoming)
    leaves, is_reentrant = _leaves(roots)
    if not leaves:
        return []
    if not is_reentrant:
        found = torch.autograd.grad(roots, leaves, starts, retain_graph=retain_graph, allow_unused=True)
        return [gradient for gradient in found if gradient is not None]
    inside = list(dict.fromkeys([*leaves, *parameters]))  # those that the checkpoint uses are not in the graph yet
    with grads_aside(inside):
        torch.autograd.backward(roots, starts, retain_graph=retain_graph)
        return [leaf.grad for leaf in inside if leaf.grad is not None]


@contextmanager
def grads_aside(leaves: Iterable[torch.Tensor]) -> Iterator[None]:
    """Removes the gradients of tensors while the block runs, and restores the same objects."""
    kept = [(leaf, leaf.grad) for leaf in leaves]
    try:
        for leaf, _ in kept:
            leaf.grad = None
        yield
    finally:
        for leaf, gradient in kept:
            leaf.grad = gradient


def _leaves(roots: Iterable[torch.Tensor]) -> tuple[list[torch.Tensor], bool]:
    """Returns the leaves of a graph, and whether it contains a re-entrant checkpoint."""
    waiting = [root.grad_fn for root in roots if root.grad_fn is not None]
    leaves: list[torch.Tensor] = [root for root in roots if root.grad_fn is None and root.requires_grad]
    seen: set[Any] = set(waiting)
    is_reentrant = False
    while waiting:
        node: Any = waiting.pop()
        is_reentrant = is_reentrant or node.name() == "CheckpointFunctionBackward"
        if hasattr(node, "variable"):
            leaves.append(node.variable)
        for following, _ in node.next_functions:
            if following is not None and following not in seen:
                seen.add(following)
                waiting.append(following)
    return leaves, is_reentrant
