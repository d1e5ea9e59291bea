"""Finds the line of the user's code that an operator was called from."""

import linecache
import os
import sys
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from types import FrameType

import tracker_adapters

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import ENGINE_FUNCTION
from debuggers.torch_internals.dispatch import OPERATOR_FILES

_ROOT = Path(__file__).parents[2]
_OURS = (
    *(f"{_ROOT / package}{os.sep}" for package in ("debuggers", "stability", "stepscope")),
    f"{Path(tracker_adapters.__file__).parent}{os.sep}",
)
_TORCH = f"{Path(torch.__file__).parent}{os.sep}"
_STANDARD = f"{Path(os.__file__).parent}{os.sep}"
_PACKAGES = "site-packages", "dist-packages"
_LIMITS = frozenset([ENGINE_FUNCTION, "run_aside"])
"""Functions that run a backward pass or a replay: their callers did not call its operators."""


@dataclass(frozen=True, slots=True)
class SourceLine:
    """A line of code. ``text`` is empty if the file cannot be read."""

    file: str
    line: int
    text: str

    def __str__(self) -> str:
        return f"{self.file}:{self.line}{f': {self.text}' if self.text else ''}"


Place = tuple[str, int]
"""A file and a line in it; its text is read on demand."""


def is_users_code(frame: FrameType) -> bool:
    """Whether a frame runs user code; see ``user_place``."""
    return _is_users(frame.f_code.co_filename)


def user_place(frame: FrameType | None) -> Place | None:
    """Returns the innermost place in user code from a frame outwards, or None.

    User code belongs neither to torch, nor to Python's standard library, nor to this package. Only code called by a
    replay counts; inside a backward pass, only code called by the pass, such as that of a custom function.
    """
    while frame is not None:
        code = frame.f_code
        if _is_users(code.co_filename):
            return code.co_filename, frame.f_lineno
        if code.co_name in _LIMITS:
            return None
        frame = frame.f_back
    return None


def user_stack_level() -> int:
    """Returns the ``stacklevel`` with which a warning of the calling function names the line of user code."""
    frame: FrameType | None = sys._getframe(1)
    level = 1
    while frame is not None and not _is_users(frame.f_code.co_filename):
        frame, level = frame.f_back, level + 1
    return level


def source_line(place: Place | None) -> SourceLine | None:
    """Returns a place with the text of its line."""
    return None if place is None else SourceLine(*place, linecache.getline(*place).strip())


@cache
def _is_users(file: str) -> bool:
    if file.startswith(("<frozen", _TORCH, *_OURS)) or OPERATOR_FILES in file:
        return False
    return not file.startswith(_STANDARD) or any(name in file for name in _PACKAGES)
