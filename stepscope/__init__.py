"""stepscope: see what happens inside a PyTorch training run, in the tracker you already use."""

from typing import TYPE_CHECKING, Any

from stepscope.debug_config import DebugConfig
from stepscope.run import Run, RunStats, SinkStats, open_run, read_run
from stepscope.schedule import Schedule

if TYPE_CHECKING:
    from stepscope.report import DebugReport
    from stepscope.session import DebugSession
    from stepscope.watching import watch

__all__ = [
    "DebugConfig",
    "DebugReport",
    "DebugSession",
    "Run",
    "RunStats",
    "Schedule",
    "SinkStats",
    "open_run",
    "read_run",
    "watch",
]
# They import torch, which readers of runs need not have.
_LAZY = {"DebugReport": "stepscope.report", "DebugSession": "stepscope.session", "watch": "stepscope.watching"}


def __getattr__(name: str) -> Any:
    """Imports what needs torch when it is asked for."""
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)
