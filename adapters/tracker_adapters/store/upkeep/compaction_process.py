"""The process that compacts a live run, as the process that writes the run sees it."""

from pathlib import Path

from tracker_adapters.child_process import ChildProcess
from tracker_adapters.store.layout import COMPACTION_LOG, STORE, below_run
from tracker_adapters.store.upkeep.retention import segment_bytes_within


class CompactionProcess(ChildProcess):
    """Keeps a run within its limit, one child process at a time; whatever fails costs nothing but disk.

    Used by the thread that writes the store.
    """

    def __init__(self, run_folder: Path, max_bytes: int, segment_bytes: int) -> None:
        """Takes the run's limit and what its segments hold at most.

        Room for two segments is kept free: for the one that fills, with its log, and for a new one beside its parts.
        """
        self.segment_bytes = min(segment_bytes, segment_bytes_within(max_bytes))
        self.goal_bytes = max(0, max_bytes - 2 * self.segment_bytes)
        self._sealed = 0
        super().__init__(
            f"the process that keeps {run_folder} within max_run_bytes",
            "tracker_adapters.store.upkeep.compact",
            [str(run_folder), "--max-bytes", str(self.goal_bytes)],
            log=below_run(run_folder / STORE / COMPACTION_LOG),
        )

    def look(self, sealed: int) -> None:
        """Starts a compaction when segments were sealed since the last one; ``sealed`` is how many in all."""
        if self.lives or sealed == self._sealed:
            return
        self._sealed = sealed
        if self.exit_code:
            self.warn_of_exit()
        self.start()
