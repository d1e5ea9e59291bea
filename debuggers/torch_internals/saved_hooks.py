"""Whether hooks pack what a node has saved for its backward (torch 2.7 to 2.15).

``torch.autograd.graph.saved_tensors_hooks`` is public; whether a tensor was saved while such hooks were in place is
not. From torch 2.11 on, what was saved tells itself. Before, the functions are watched by which hooks come and go:
nodes that were made after the last hooks went are known to be without.
"""

import threading
from typing import Any

from debuggers.torch_import import torch

TELLS = hasattr(torch._C._autograd.SavedTensor, "unpack_hook")
"""Whether what was saved tells whether hooks packed it."""

_PUSH, _POP = "_push_saved_tensors_default_hooks", "_pop_saved_tensors_default_hooks"


def is_packed(node: Any, saved: Any) -> bool:
    """Returns whether hooks pack what a node saved, such as ``node._raw_saved_target``; True where that is unknown."""
    if TELLS:
        return saved.unpack_hook is not None
    return _watched.in_place > 0 or node._sequence_nr() < _watched.free_from


class _WatchedHooks:
    """When hooks were in place, in any thread: nodes of two threads may have the same numbers.

    Attributes:
        in_place: How many hooks are in place.
        free_from: The number of the first node that was made without hooks after the last ones, in their thread.
    """

    def __init__(self) -> None:
        self.in_place = 0
        self.free_from = 0
        self._changing = threading.Lock()

    def watch(self) -> None:
        """Watches the functions from now on. torch looks them up at each use, so that others can take their place."""
        push, pop = (getattr(torch._C._autograd, name) for name in (_PUSH, _POP))

        def pushing(*hooks: Any) -> Any:
            with self._changing:
                self.in_place += 1
            return push(*hooks)

        def popping() -> Any:
            with self._changing:
                self.in_place = max(self.in_place - 1, 0)  # those before the watching were not counted
                self.free_from = max(self.free_from, torch._C._autograd._get_sequence_nr())
            return pop()

        setattr(torch._C._autograd, _PUSH, pushing)
        setattr(torch._C._autograd, _POP, popping)


_watched = _WatchedHooks()
if not TELLS:
    _watched.watch()
