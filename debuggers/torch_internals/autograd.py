"""The autograd engine: which backward pass runs, the nodes' numbers, and what they have saved (torch 2.7 to 2.15)."""

from collections.abc import Callable, Iterator, Sequence
from operator import methodcaller
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.saved_hooks import is_packed

backward_pass_id: Callable[[], int] = torch._C._current_graph_task_id
"""Returns the number of the backward pass that runs in this thread, ``NO_BACKWARD_PASS`` outside of one.

``torch.utils.module_tracker`` asks the same. No public way to ask is known.
"""
NO_BACKWARD_PASS = -1

transforms_are_active: Callable[[], bool] = torch._C._are_functorch_transforms_active
"""Returns whether a ``torch.func`` transformation runs in this thread."""
is_in_transform: Callable[[torch.Tensor], bool] = torch._C._functorch.is_functorch_wrapped_tensor
"""Returns whether a tensor only stands for others, in a ``torch.func`` transformation; it has no memory then."""
is_tracing: Callable[[], Any] = torch._C._is_tracing
"""Returns whether ``torch.jit.trace`` records this thread. ``torch.jit.is_tracing`` is public, and takes longer."""
is_profiling: Callable[[], bool] = torch._C._autograd._profiler_enabled
"""Returns whether any profiler of torch runs in this thread; a second one would raise."""

set_gradients: Callable[[bool], None] = torch._C._set_grad_enabled
"""Switches gradients on or off in this thread. ``torch.set_grad_enabled`` is public, and takes far longer."""
next_node_number: Callable[[], int] = getattr(torch._C._autograd, "_get_sequence_nr", lambda: 0)
"""Returns the number that the next node made in this thread gets; always 0 where torch does not expose it."""
current_node: Callable[[], Any] = getattr(torch._C, "_current_autograd_node", lambda: None)
"""Returns the node whose backward runs in this thread; None outside, and where torch does not expose it."""
node_number: Callable[[Any], int] = methodcaller("_sequence_nr")
"""Returns the number of a node: nodes made in one thread have them in rising order, leaves the largest of all."""

ENGINE_FUNCTION = "_engine_run_backward"
"""The function of ``torch.autograd.graph`` by which every backward pass enters the engine."""

_SAVED = "_saved_"
_RESULTS = ("_saved_result", "_saved_out")


def saved_tensors(node: Any) -> Iterator[tuple[str, torch.Tensor]]:
    """Yields the tensors that a node keeps for its backward, and the names of their attributes.

    What was freed is left out, and what a hook packed that unpacks in backward passes only. The attributes themselves
    are described in torch's notes on autograd mechanics; which ones a node has is not.
    """
    for name in dir(node):
        if not name.startswith(_SAVED):
            continue
        try:
            value = getattr(node, name)
        except Exception:  # freed, or packed by a hook
            continue
        if isinstance(value, torch.Tensor):
            yield name, value


def saved_value(node: Any, name: str) -> Any:
    """Returns what a node saved under a name, such as ``target``, ``reduction`` or ``other``; None where it has none.

    None also for what was freed or changed meanwhile, and for a tensor that a hook packed: only a backward pass may
    unpack it, as that may compute it again, or bring it back from elsewhere.
    """
    saved = getattr(node, f"_raw{_SAVED}{name}", None)
    if saved is not None and any(
        is_packed(node, one) for one in (saved if isinstance(saved, (list, tuple)) else (saved,))
    ):
        return None
    try:
        return getattr(node, f"{_SAVED}{name}", None)
    except RuntimeError:  # freed, or changed in place
        return None


def _listed(saved: Any) -> Sequence[Any]:
    return saved if isinstance(saved, (list, tuple)) else (saved,)


def is_result(name: str) -> bool:
    """Whether what a node saved under this name is a result of its operator, not an input."""
    return name.startswith(_RESULTS)


def saved_correction(node: Any) -> Any:
    """Returns the correction that a node of ``std`` or ``var`` keeps: a number, or None also where there is none."""
    return getattr(node, "_saved_correction", None)


def output_metadata(node: Any) -> tuple[Any, ...]:
    """Returns an object with ``dtype`` and ``shape`` for each output of a node's operator; none where torch is silent.

    To the node they are the inputs of its backward, hence the name of the attribute.
    """
    return tuple(getattr(node, "_input_metadata", ()))
