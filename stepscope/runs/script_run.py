"""The run that ``stepscope run`` records a script in: what the script opens by another tracker's calls joins it."""

from collections.abc import Iterator
from contextlib import contextmanager

from stepscope.runs.live_run import Run

_current: list[Run] = []


@contextmanager
def script_run(run: Run) -> Iterator[None]:
    """Makes a run the script's own for the block."""
    _current.append(run)
    try:
        yield
    finally:
        _current.remove(run)


def current_script_run() -> Run | None:
    """Returns the run of the script that this process runs; None where it runs none."""
    return _current[-1] if _current else None
