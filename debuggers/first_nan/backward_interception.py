"""Intercepts ``backward`` in a closure: gradients are computed without changing any ``grad``."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any

from torch.overrides import TorchFunctionMode

from debuggers.torch_import import torch

OnBackward = Callable[[torch.Tensor, torch.Tensor | None, bool], None]


class BackwardInterception(TorchFunctionMode):
    """Calls a function with the tensor, the gradient and ``retain_graph`` in place of each ``tensor.backward``."""

    def __init__(self, function: OnBackward) -> None:
        super().__init__()
        self._function = function

    def __torch_function__(
        self, func: Any, types: Any, args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Called by torch with each function of its Python interface."""
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
    """Returns the gradients of all leaves of tensors' graph that want one; no ``grad`` is changed.

    The graph of a re-entrant checkpoint refuses that, so it runs backward with the ``grad`` of its leaves and of
    the ``parameters`` put aside; hooks on them are called then.
    """
    roots, starts = list(tensors), list(incoming)
    leaves, is_reentrant = _leaves(roots)
    if not leaves:
        return []
    if not is_reentrant:
        found = torch.autograd.grad(roots, leaves, starts, retain_graph=retain_graph, allow_unused=True)
        return [gradient for gradient in found if gradient is not None]
    inside = list(dict.fromkeys([*leaves, *parameters]))  # what the checkpoint computes with is not in the graph yet
    with grads_aside(inside):
        torch.autograd.backward(roots, starts, retain_graph=retain_graph)
        return [leaf.grad for leaf in inside if leaf.grad is not None]


@contextmanager
def grads_aside(leaves: Iterable[torch.Tensor]) -> Iterator[None]:
    """Takes the gradients of tensors away while the block runs; they come back as the same objects."""
    kept = [(leaf, leaf.grad) for leaf in leaves]
    try:
        for leaf, _ in kept:
            leaf.grad = None
        yield
    finally:
        for leaf, gradient in kept:
            leaf.grad = gradient


def _leaves(roots: Iterable[torch.Tensor]) -> tuple[list[torch.Tensor], bool]:
    """Returns the leaves of a graph, and whether a re-entrant checkpoint is in it."""
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
