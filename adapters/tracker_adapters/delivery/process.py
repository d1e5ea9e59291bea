"""The delivery process of one sink, as the process that starts it sees it."""

from __future__ import annotations

import contextlib
import json
import logging
import os
import subprocess
import time
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import psutil

from tracker_adapters.child_process import NICENESS, import_path, leave_alone, set_niceness, start_module
from tracker_adapters.config import SinkConfig
from tracker_adapters.delivery.lane import EXIT_CODES
from tracker_adapters.safe_files import open_file
from tracker_adapters.store.layout import DELIVERY_LOG, below_run, rank_folder

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.1
FIRST_RESTART_S = 1.0
LAST_RESTART_S = 60.0
HEALTHY_S = 300.0
"""A process that lived this long is started again at once when it dies."""


class DeliveryProcess:
    """One child process that carries a run into one sink; a sink that crashes or hangs takes no other with it."""

    def __init__(self, run_folder: Path, rank: int, config: SinkConfig, **request: Any) -> None:
        """Prepares the request; ``start`` starts the process.

        Args:
            run_folder: The run.
            rank: Whose store to carry.
            config: The sink.
            request: More of what ``tracker_adapters.deliver`` reads.
        """
        self.config = config
        self._run_folder = run_folder
        self._rank = rank
        self._folder = rank_folder(run_folder, rank)
        self._request = json.dumps(
            {
                "sink": {
                    "type": config.type,
                    "options": config.options,
                    "histograms": config.histograms,
                    "deadline_s": config.deadline_s,
                },
                "sys_path": import_path(),
                **request,
            }
        )
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = 0.0
        self._pause_s = FIRST_RESTART_S
        self._restarts = 0
        self._stopping = False
        self._said: set[str] = set()

    @property
    def lives(self) -> bool:
        """Whether the process runs."""
        return self._child is not None and self._child.poll() is None

    @property
    def exit_code(self) -> int | None:
        """How it ended; None while it runs or when it could not be started."""
        return None if self._child is None else self._child.poll()

    @property
    def crashed(self) -> bool:
        """Whether it ended in another way than by itself."""
        code = self.exit_code
        return code is not None and code not in EXIT_CODES.values()

    def start(self) -> None:
        """Starts the process; a failure is logged, and ``restart_if_dead`` tries again."""
        self._started_at = time.monotonic()
        arguments = [str(self._run_folder), "--rank", str(self._rank), "--sink", self.config.type]
        try:
            # A file, not a pipe: the child has its request even when this process dies or it is slow to read.
            with TemporaryFile(dir=self._folder) as request:
                request.write(self._request.encode())
                request.seek(0)
                with open_file(*below_run(self._folder / DELIVERY_LOG), "ab") as log:
                    self._child = start_module("tracker_adapters.deliver", arguments, log, request)
        except OSError as error:
            self._child = None
            self._say("start", "the delivery process of sink %s cannot be started: %s", self.config.type, error)

    def restart_if_dead(self) -> None:
        """Starts the process again if it died, after a pause that doubles from 1 to 60 s."""
        if self.lives:
            return
        now = time.monotonic()
        if now - self._started_at > HEALTHY_S:
            self._pause_s = FIRST_RESTART_S
        if self._restarts and now - self._started_at < self._pause_s:
            return
        if self._child is not None:
            code = self._child.returncode
            self._say(
                f"exit {code}",
                "the delivery process of sink %s ended with exit code %s; it is started again",
                self.config.type,
                code,
            )
        if self._restarts:
            self._pause_s = min(2 * self._pause_s, LAST_RESTART_S)
        self._restarts += 1
        self.start()

    def wait(self, deadline: float) -> bool:
        """Waits until the process has left by itself, starting it again if it crashes; once the run has ended.

        One that left before, since the run's folder was away, is started again; while the folder is away, none is.
        It has the priority of this process meanwhile: on a busy machine the lowest one could take all the time.

        Returns:
            Whether it has left before ``time.monotonic()`` was ``deadline``.
        """
        if not self.lives and self.exit_code != EXIT_CODES["done"] and self._is_wanted():
            self.start()
        while self._child is not None or self._is_wanted():
            if self.exit_code is not None and not (self.crashed and self._is_wanted()):
                return True
            if time.monotonic() >= deadline:
                return False
            pause_s = min(POLL_INTERVAL_S, max(0.0, deadline - time.monotonic()))
            if self._child is None or self.crashed:
                time.sleep(pause_s)
                self.restart_if_dead()
            else:
                self.come_forward()
                with contextlib.suppress(subprocess.TimeoutExpired):
                    self._child.wait(pause_s)
        return True

    def stop(self) -> None:
        """Asks the process to leave after its current batch; it is not started again."""
        self._stopping = True
        if self._child is not None and self._child.poll() is None:
            self._child.terminate()

    def _is_wanted(self) -> bool:
        return not self._stopping and self._folder.is_dir()

    def kill(self) -> None:
        """Kills the process and what it started; the next delivery goes on at the last token."""
        if self._child is None or self._child.poll() is not None:
            return
        for child in psutil.Process(self._child.pid).children(recursive=True):
            with contextlib.suppress(psutil.Error):
                child.kill()
        self._child.kill()
        self._child.wait()

    def come_forward(self) -> None:
        """Gives the process this one's priority, while somebody waits for it.

        To be called again and again: a process that has just started steps back a moment later.
        """
        if self._child is not None and self._child.poll() is None:
            set_niceness(self._child.pid, os.getpriority(os.PRIO_PROCESS, 0))

    def step_back(self) -> None:
        """Puts the process behind everybody else again."""
        if self._child is not None and self._child.poll() is None:
            set_niceness(self._child.pid, NICENESS)

    def abandon(self) -> None:
        """Lets the process go on by itself, behind everybody else again."""
        self.step_back()
        leave_alone(self._child)

    def _say(self, cause: str, message: str, *values: object) -> None:
        if cause not in self._said:
            self._said.add(cause)
            logger.warning(message, *values)
