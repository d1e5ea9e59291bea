"""The function by which ``backward`` and ``torch.autograd.grad`` enter the autograd engine (torch 2.7 to 2.15).

``torch.autograd`` looks it up in its own module at each call, so that another one can take its place.
"""

from collections.abc import Callable
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import ENGINE_FUNCTION

Entry = Callable[..., Any]
"""Takes the tensors that a backward pass starts from, and what else the engine wants to know."""


def current_entry() -> Entry:
    """Returns the function that is called now."""
    entry: Entry = getattr(torch.autograd, ENGINE_FUNCTION)
    return entry


def replace_entry(entry: Entry) -> None:
    """Has another function called from now on."""
    setattr(torch.autograd, ENGINE_FUNCTION, entry)


def fills_gradients(keywords: dict[str, Any]) -> bool:
    """Whether a call with these keywords adds to the ``grad`` of leaves, as ``backward`` does and ``grad`` does not."""
    return bool(keywords.get("accumulate_grad", False))
