"""stepscope: see what happens inside a PyTorch training run, in the tracker you already use."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from tracker_adapters.unheard_records import name_unheard_records

from stepscope.runs.opening import Run, RunStats, SinkStats, open_run, read_run
from stepscope.sessions.config import DebugConfig
from stepscope.sessions.schedule import Schedule
from stepscope.shadowed_packages import check_parts

if TYPE_CHECKING:
    from stepscope.sessions.report import DebugReport
    from stepscope.sessions.session import DebugSession
    from stepscope.sessions.watching import debug_session, watch

__all__ = [
    "DebugConfig",
    "DebugReport",
    "DebugSession",
    "Run",
    "RunStats",
    "Schedule",
    "SinkStats",
    "debug_session",
    "open_run",
    "read_run",
    "watch",
]
# They import torch, which readers of runs need not have.
_LAZY = {
    "DebugReport": "stepscope.sessions.report",
    "DebugSession": "stepscope.sessions.session",
    "debug_session": "stepscope.sessions.watching",
    "watch": "stepscope.sessions.watching",
}

name_unheard_records(__name__)
check_parts(Path(__file__).parent.parent)


def __getattr__(name: str) -> Any:
    """Imports what needs torch when it is asked for."""
    if name == "__version__":
        from importlib.metadata import version

        return version("stepscope")
    if name not in _LAZY:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from importlib import import_module

    return getattr(import_module(_LAZY[name]), name)


def __dir__() -> list[str]:
    """Returns the public names: what is imported on demand among them, and nothing from inside."""
    return sorted([*__all__, "__doc__", "__file__", "__name__", "__path__", "__version__"])
