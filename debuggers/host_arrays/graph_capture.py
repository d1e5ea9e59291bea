"""Keeps measuring out of CUDA graphs: what is enqueued while one is captured runs at each replay, and not now."""

from debuggers.errors import CapturedGraphError
from debuggers.torch_import import torch

_HAS_GRAPHS = torch.version.cuda is not None or torch.version.hip is not None  # others raise an error when asked


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured on this thread's current stream; takes a microsecond."""
    return _HAS_GRAPHS and torch.cuda.is_current_stream_capturing()


def refuse_capture() -> None:
    """Raises an error while a CUDA graph is captured.

    Raises:
        CapturedGraphError: It says what to do.
    """
    if is_capturing():
        raise CapturedGraphError(
            "a CUDA graph is being captured: what runs inside of it is not measured, now or at its replays; expected "
            "to be called outside of torch.cuda.graph, where the gradients and weights that a replay leaves can be "
            "measured"
        )
