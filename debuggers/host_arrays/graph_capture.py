"""Keeps measuring out of CUDA graphs: what is enqueued while one is captured runs at each replay, and not now."""

from debuggers.errors import CapturedGraphError
from debuggers.torch_import import torch


def is_capturing() -> bool:
    """Whether a CUDA graph is being captured on this thread's current stream; takes a microsecond."""
    # A build for the CPU alone raises an error when it is asked the second question.
    return torch.cuda.is_initialized() and torch.cuda.is_current_stream_capturing()  # type: ignore[no-untyped-call]


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
