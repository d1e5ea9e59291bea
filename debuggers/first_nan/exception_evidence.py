"""What an exception tells about NaN: whether NaN may be its cause, and which tensors the code was using."""

from collections.abc import Iterable, Iterator
from itertools import islice
from types import FrameType, TracebackType
from typing import Any

from debuggers.first_nan.source_lines import Place, is_users_code
from debuggers.torch_import import torch
from debuggers.torch_internals.modules import is_call_of_module

_NEVER = (
    AttributeError,
    EOFError,
    ImportError,
    KeyError,
    MemoryError,
    NameError,
    NotImplementedError,
    OSError,
    RecursionError,
    SyntaxError,
    TypeError,
    torch.OutOfMemoryError,
)
"""Exceptions that are not caused by the values of tensors."""
_MOST_INSIDE = 100
"""Number of tensors of a container that are checked."""


def may_be_of_values(error: BaseException) -> bool:
    """Whether values of tensors may have caused it: an assertion, a range check, a factorisation."""
    return isinstance(error, Exception) and not isinstance(error, (*_NEVER, StopIteration, StopAsyncIteration))


def tensors_where_it_raised(error: BaseException) -> Iterator[list[torch.Tensor]]:
    """Yields the tensors in the local variables of the exception's stack frames, the innermost first.

    The last frame is the first of user code. Tensors in lists, tuples, dicts and attributes of objects are included,
    one level deep.
    """
    for frame, _ in _frames(error):
        yield list(_tensors(frame))
        if is_users_code(frame):
            return


def call_that_raised(
    model: torch.nn.Module, error: BaseException
) -> tuple[torch.nn.Module, tuple[Any, ...], dict[str, Any]] | None:
    """Returns the outermost call of the model, or of a part of it, in the exception's traceback.

    Returns:
        The module and its arguments; None if no module of the model was running.
    """
    modules = set(model.modules())
    for frame, _ in reversed(_frames(error)):
        if is_call_of_module(frame):
            variables = frame.f_locals
            if variables["self"] in modules:
                return variables["self"], variables["args"], variables["kwargs"]
    return None


def users_place(error: BaseException) -> Place | None:
    """Returns the innermost line of user code in the exception's traceback."""
    return next(((frame.f_code.co_filename, line) for frame, line in _frames(error) if is_users_code(frame)), None)


def _frames(error: BaseException) -> list[tuple[FrameType, int]]:
    frames: list[tuple[FrameType, int]] = []
    trace: TracebackType | None = error.__traceback__
    while trace is not None:
        frames.append((trace.tb_frame, trace.tb_lineno))
        trace = trace.tb_next
    return frames[::-1]


def _tensors(frame: FrameType) -> Iterator[torch.Tensor]:
    for value in list(frame.f_locals.values()):
        yield from _floating([value])
        if isinstance(value, torch.nn.Module):
            continue
        inside: Any = value if isinstance(value, (list, tuple, dict)) else _attributes_of(value)
        yield from _floating(list(islice(inside.values() if isinstance(inside, dict) else inside, _MOST_INSIDE)))


def _attributes_of(value: Any) -> dict[str, Any]:
    try:
        attributes = vars(value)
    except Exception:  # it has none, or a __dict__ that raises
        return {}
    return attributes if isinstance(attributes, dict) else {}


def _floating(values: Iterable[Any]) -> Iterator[torch.Tensor]:
    for value in values:
        if isinstance(value, torch.Tensor) and (value.is_floating_point() or value.is_complex()):
            yield value
