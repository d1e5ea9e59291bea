"""The delivery process of one sink, as the process that starts it sees it."""

import json
import os
import time
from pathlib import Path
from typing import Any

from tracker_adapters.child_process import NICENESS, ChildProcess, import_path
from tracker_adapters.config import SinkConfig
from tracker_adapters.delivery.outcomes import EXIT_CODES
from tracker_adapters.store.layout import DELIVERY_LOG, below_run, rank_folder

POLL_INTERVAL_S = 0.1


class DeliveryProcess(ChildProcess):
    """One child process that carries a run into one sink; a sink that crashes or hangs takes no other with it."""

    def __init__(self, run_folder: Path, rank: int, config: SinkConfig, **request: Any) -> None:
        """Prepares the request; ``start`` starts the process.

        Args:
            run_folder: The run.
            rank: Whose store to carry.
            config: The sink.
            request: More of what ``tracker_adapters.deliver`` reads.
        """
        self._folder = rank_folder(run_folder, rank)
        self._stopping = False
        sink = {
            "type": config.type,
            "options": config.options,
            "histograms": config.histograms,
            "deadline_s": config.deadline_s,
        }
        super().__init__(
            f"the delivery process of sink {config.type}",
            "tracker_adapters.deliver",
            [str(run_folder), "--rank", str(rank), "--sink", config.type],
            log=below_run(self._folder / DELIVERY_LOG),
            request=json.dumps({"sink": sink, "sys_path": import_path(), **request}).encode(),
            exit_codes=EXIT_CODES.values(),
        )

    def wait_until(self, deadline: float) -> bool:
        """Waits until the process has left by itself, starting it again if it crashes; once the run has ended.

        One that left before, since the run's folder was away, is started again, and one that somebody else told to end;
        while the folder is away, none is.
        It has the priority of this process meanwhile: on a busy machine the lowest one could take all the time.

        Returns:
            Whether it has left before ``time.monotonic()`` was ``deadline``.
        """
        if not self.lives and self.exit_code != EXIT_CODES["done"] and self._is_wanted():
            self.start()
        while self.lives or (self._was_ended() and self._is_wanted()):
            if (left_s := deadline - time.monotonic()) <= 0:
                return False
            if self.crashed:
                self.restart_if_dead()
            elif not self.lives:
                self.start()
            self.come_forward()
            self.wait(min(POLL_INTERVAL_S, left_s))
        return True

    def stop(self) -> None:
        """Asks the process to leave after its current batch; it is not started again."""
        self._stopping = True
        self.terminate()

    def come_forward(self) -> None:
        """Gives the process this one's priority, while somebody waits for it.

        To be called again and again: a process that has just started steps back a moment later.
        """
        self.set_niceness(os.getpriority(os.PRIO_PROCESS, 0))

    def step_back(self) -> None:
        """Puts the process behind everybody else again."""
        self.set_niceness(NICENESS)

    def _was_ended(self) -> bool:
        return self.crashed or self.exit_code == EXIT_CODES["stopped"]

    def _is_wanted(self) -> bool:
        return not self._stopping and self._folder.is_dir()
