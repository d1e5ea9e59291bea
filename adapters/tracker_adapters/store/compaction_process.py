"""The process that compacts a live run, as the process that writes the run sees it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import sysconfig
from pathlib import Path

import tracker_adapters
from tracker_adapters.store.layout import COMPACTION_LOG, STORE
from tracker_adapters.store.retention import segment_bytes_within

logger = logging.getLogger(__name__)

COMMAND = (sys.executable, "-P", "-m", "tracker_adapters.compact")  # -P: as in delivery, no file stands for a package


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
            with self._log.open("ab") as log:
                self._child = subprocess.Popen(
                    [*COMMAND, str(self._run_folder), "--max-bytes", str(self.goal_bytes)],
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_environment(),
                    start_new_session=True,  # Ctrl-C in the trainer's terminal is not for the child
                )
        except OSError as error:
            self._child = None
            self._warn(f"cannot be started: {error}")

    def close(self) -> None:
        """Lets a compaction go on by itself."""
        if self._child is not None and self._child.poll() is None:
            # It outlives this object on purpose; without this, collecting it would warn of a leaked process.
            self._child.returncode = 0

    @property
    def _log(self) -> Path:
        return self._run_folder / STORE / COMPACTION_LOG

    def _warn(self, what: str) -> None:
        if not self._warned:
            self._warned = True
            logger.warning("the process that keeps %s within max_run_bytes %s", self._run_folder, what)


def _environment() -> dict[str, str]:
    environment = os.environ | {"CUDA_VISIBLE_DEVICES": "", "OMP_NUM_THREADS": "1"}
    root = str(Path(tracker_adapters.__file__).parent.parent)
    if root not in sysconfig.get_paths().values():  # an import from a checkout
        environment["PYTHONPATH"] = os.pathsep.join([root, *filter(None, [os.environ.get("PYTHONPATH")])])
    return environment
