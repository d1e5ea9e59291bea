"""The process that compacts a live run, as the process that writes the run sees it."""

from __future__ import annotations

import logging
import subprocess
from pathlib import Path

from tracker_adapters.child_process import leave_alone, start_module
from tracker_adapters.safe_files import open_file
from tracker_adapters.store.layout import COMPACTION_LOG, STORE, below_run
from tracker_adapters.store.upkeep.retention import segment_bytes_within

logger = logging.getLogger(__name__)


class CompactionProcess:
    """Keeps a run within its limit, one child process at a time; whatever fails costs nothing but disk.

    Used by the thread that writes the store.
    """

    def __init__(self, run_folder: Path, max_bytes: int, segment_bytes: int) -> None:
        """Takes the run's limit and what its segments hold at most.

        Room for two segments is kept free: for the one that fills, with its log, and for a new one beside its parts.
        """
        self.segment_bytes = min(segment_bytes, segment_bytes_within(max_bytes))
        self._run_folder = run_folder
        self.goal_bytes = max(0, max_bytes - 2 * self.segment_bytes)
        self._sealed = 0
        self._child: subprocess.Popen[bytes] | None = None
        self._warned = False

    def look(self, sealed: int) -> None:
        """Starts a compaction when segments were sealed since the last one; ``sealed`` is how many in all."""
        runs = self._child is not None and self._child.poll() is None
        if runs or sealed == self._sealed:
            return
        self._sealed = sealed
        if self._child is not None and self._child.returncode:
            self._warn(f"ended with exit code {self._child.returncode}; see {self._log}")
        try:
            arguments = [str(self._run_folder), "--max-bytes", str(self.goal_bytes)]
            with open_file(*below_run(self._log), "ab") as log:
                self._child = start_module("tracker_adapters.store.upkeep.compact", arguments, log)
        except OSError as error:
            self._child = None
            self._warn(f"cannot be started: {error}")

    def close(self) -> None:
        """Lets a compaction go on by itself."""
        leave_alone(self._child)

    @property
    def _log(self) -> Path:
        return self._run_folder / STORE / COMPACTION_LOG

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("the process that keeps %s within max_run_bytes %s", self._run_folder, what)
