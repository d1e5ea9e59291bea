"""Checks what a loop tells of a step: tensors of its batch, and metrics."""

from collections.abc import Mapping
from typing import Any

from debuggers.diagnosis.signals import PREFIX, RECORDED_ELSEWHERE
from debuggers.torch_import import torch
from debuggers.utils import tensors_in
from stepscope.errors import SessionError

_LONGEST = 80
"""Characters of a value that a message shows."""


def checked_batch(**told: Any) -> dict[str, Any]:
    """Returns what a loop told of a batch, by name, without what it did not tell.

    Raises:
        SessionError: For what is neither a tensor nor a nest that holds one, and for a nest that cannot be looked
            through.
    """
    batch = {name: value for name, value in told.items() if value is not None}
    for name, value in batch.items():
        if not isinstance(value, torch.Tensor) and not told_tensors(name, value):
            raise SessionError(
                f"{name} is {_shown(value)}, of type {type(value).__name__}; expected a tensor, or a tuple, list, "
                "mapping or data class that holds one"
            )
    return batch


def told_tensors(name: str, value: Any) -> list[torch.Tensor]:
    """Returns the tensors in what was told as ``name``.

    Raises:
        SessionError: For a nest that holds itself, and for one that fails as it is looked through.
    """
    try:
        return tensors_in(value)
    except Exception as error:
        raise SessionError(
            f"{name}, of type {type(value).__name__}, cannot be looked through ({type(error).__name__}: {error}); "
            "expected a tensor, or a tuple, list, mapping or data class that holds one"
        ) from error


_ARE_TAKEN = frozenset(signal.name for signal in RECORDED_ELSEWHERE)
_BEGIN_TAKEN = (PREFIX, "learning_rate/")


def check_metrics(metrics: object, prefix: str = "") -> None:
    """Checks that metrics are numbers by name, or None; the numbers are checked as they are recorded.

    Args:
        metrics: What a loop told.
        prefix: What stands before the names where they are recorded.

    Raises:
        SessionError: For what is no mapping, for a name that is empty or no string, and for one of what a session
            records itself, which a diagnosis would read.
    """
    if metrics is not None and not isinstance(metrics, Mapping):
        raise SessionError(
            f"metrics is {_shown(metrics)}, of type {type(metrics).__name__}; expected a mapping of names to numbers, "
            'such as {"accuracy": 0.9}'
        )
    for name in () if metrics is None else metrics:
        if not isinstance(name, str) or not name:
            raise SessionError(f"metrics has the name {_shown(name)}; expected a string of one character or more")
        if prefix + name in _ARE_TAKEN or (prefix + name).startswith(_BEGIN_TAKEN):
            raise SessionError(
                f"metrics has the name {_shown(name)}, under which the session records {prefix + name} itself; "
                f"expected another name, such as {_shown('my_' + name)}"
            )


def _shown(value: object) -> str:
    """The beginning of a value's repr, if it has one."""
    try:
        text = repr(value)
    except Exception:
        return "a value without a repr"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST - 3]}…"
