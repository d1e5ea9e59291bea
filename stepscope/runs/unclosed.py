"""Closes the runs that a script leaves open when it ends."""

import atexit
import logging
import os
import sys
import time
from pathlib import Path
from typing import Protocol

from tracker_adapters.artifacts import RunStatus
from tracker_adapters.terminal_text import say

logger = logging.getLogger(__name__)

CLOSE_TIMEOUT_S = 30.0
"""How long closing takes at most unless its caller says otherwise, and all runs together when the script ends."""
REOPEN_TIMEOUT_S = 5.0
"""How long a run that is opened again waits for its sinks, which continue by themselves."""
COMMIT_TIMEOUT_S = 1.0
"""What each run gets in any case: committing takes that, whatever the sinks do."""


class Closable(Protocol):
    """What is closed: a run."""

    path: Path
    rank: int
    asked_for: str

    def finish(self, status: RunStatus, *, timeout: float) -> bool:
        """Sets how the run ended and closes it."""


_open_runs: set[Closable] = set()
_interrupted: set[Closable] = set()


def close_at_exit(run: Closable) -> None:
    """Has a run closed when the interpreter ends, if nobody has closed it before; not in a forked child."""
    _open_runs.add(run)


def forget(run: Closable) -> None:
    """Leaves a run alone that was closed."""
    _open_runs.discard(run)
    _interrupted.discard(run)


def commit_at_exit(run: Closable) -> None:
    """Has a run whose closing was interrupted wait no longer for its sinks when the interpreter ends."""
    if run in _open_runs:
        _interrupted.add(run)


def close_reopened(asked_for: str, rank: int) -> None:
    """Closes the run that was opened under this name before, where a person types: a cell of a notebook runs twice.

    A script that holds two runs under one name keeps both.
    """
    if not hasattr(sys, "ps1"):
        return
    for run in [run for run in _open_runs if (run.asked_for, run.rank) == (asked_for, rank)]:
        say(f"{run.path} was still open in this process; it is closed, because it is opened again")
        run.finish("finished", timeout=REOPEN_TIMEOUT_S)


def _close_all() -> None:
    # A script that forgot to close still gets its data out; one that died of an exception is marked so.
    failed = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    deadline = time.monotonic() + CLOSE_TIMEOUT_S
    for run in list(_open_runs):
        left = COMMIT_TIMEOUT_S if run in _interrupted else max(COMMIT_TIMEOUT_S, deadline - time.monotonic())
        try:
            run.finish("failed" if failed is not None else "finished", timeout=left)
        except KeyboardInterrupt:
            logger.warning("interrupted while closing the run in %s; its pending artifacts wait in its store", run.path)
            deadline = 0.0
        except Exception:
            logger.exception("closing the run in %s", run.path)


atexit.register(_close_all)
os.register_at_fork(after_in_child=_open_runs.clear)
