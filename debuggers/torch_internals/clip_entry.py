"""The function that scales gradients for ``torch.nn.utils.clip_grad_norm_`` (torch 2.7 to 2.15).

``torch.nn.utils.clip_grad`` looks it up in its own module at each call, so that another one can take its place.
"""

import sys
from collections.abc import Callable
from types import FrameType
from typing import Any

from debuggers.torch_import import torch

ClipEntry = Callable[..., Any]
"""Takes the parameters, the largest norm, the norm that their gradients have, and whether to use foreach."""
_MODULE, _FUNCTION = "torch.nn.utils.clip_grad", "_clip_grads_with_norm_"
_CALLER = "clip_grad_norm_"


def current_clip_entry() -> ClipEntry | None:
    """Returns the function that is called now; None where torch has none."""
    assert torch.nn.utils is not None
    entry: ClipEntry | None = getattr(sys.modules[_MODULE], _FUNCTION, None)
    return entry


def replace_clip_entry(entry: ClipEntry) -> None:
    """Has another function called from now on."""
    setattr(sys.modules[_MODULE], _FUNCTION, entry)


def norm_order(frame: FrameType | None) -> float | None:
    """Returns the order of the norm by which ``clip_grad_norm_`` clips, given its frame; None for any other frame."""
    if frame is None or frame.f_code.co_name != _CALLER or frame.f_globals.get("__name__") != _MODULE:
        return None
    return float(frame.f_locals["norm_type"])
