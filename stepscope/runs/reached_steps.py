"""How far the sessions of a run had come when it is opened again."""

import logging
from pathlib import Path

from tracker_adapters.store.reading.record import RunRecord

_SERIES = ("total_norm/gradients", "step_ms")
"""A session emits one of them at least at each step that it measures."""
_log = logging.getLogger(__name__)


def reached_steps(folder: Path, rank: int) -> dict[str, int]:
    """Returns the last step by scope, such as ``"D/"``; without what cannot be read."""
    reached: dict[str, int] = {}
    try:
        with RunRecord(folder) as record:
            names = record.names(rank)
    except Exception as error:  # the training that continues counts its steps from 0
        _log.warning("%s: cannot read the last step of its sessions: %s", folder, error)
        return reached
    for info in names:
        for series in _SERIES:
            scope = info.name.removesuffix(series)
            if scope != info.name and (not scope or scope.endswith("/")):
                reached[scope] = max(info.last_step, reached.get(scope, -1))
    return reached
