"""The trainer's side of uploading: starts the process, watches it, waits for it within a deadline."""

from __future__ import annotations

import contextlib
import json
import logging
import subprocess
import time
from pathlib import Path
from typing import Any

from tracker_adapters.child_process import leave_alone, start_module
from tracker_adapters.remote.local_copy import UPLOAD_LOG, Home
from tracker_adapters.remote.upload import EXIT_CODES, STATE
from tracker_adapters.safe_files import open_file, read_file, remove_file
from tracker_adapters.store.layout import PRIVATE, below_run

logger = logging.getLogger(__name__)

WATCH_INTERVAL_S = 1.0
FIRST_RESTART_S = 1.0
LAST_RESTART_S = 60.0


class UploadProcess:
    """One child process that copies a run to its place; it goes on by itself when the trainer has gone."""

    def __init__(self, folder: Path, home: Home) -> None:
        """Starts the process.

        Args:
            folder: The local copy.
            home: Its place.
        """
        self._folder = folder
        self._home = home
        self._child: subprocess.Popen[bytes] | None = None
        self._started_at = self._watched_at = 0.0
        self._pause_s = FIRST_RESTART_S
        self._said: set[str] = set()
        self._start()

    def watch(self) -> None:
        """Starts the process again if it died, and warns once of each failure; cheap when nothing is due."""
        now = time.monotonic()
        if now - self._watched_at < WATCH_INTERVAL_S:
            return
        self._watched_at = now
        if error := self._state().get("error"):
            self._say(
                "cannot copy the run to %s: %s. Training goes on; the run is safe in %s",
                self._home.url,
                error,
                self._folder,
            )
        code = None if self._child is None else self._child.poll()
        crashed = self._child is None or (code is not None and code not in EXIT_CODES.values())
        if crashed and now - self._started_at >= self._pause_s:
            self._say("the process that copies the run to %s ended with exit code %s", self._home.url, code)
            self._pause_s = min(2 * self._pause_s, LAST_RESTART_S)
            self._start()

    def close(self, deadline: float) -> bool:
        """Waits until everything is at its place, once the run is closed.

        Returns:
            Whether it was before ``time.monotonic()`` reached ``deadline``. If not, the process goes on by itself.
        """
        while self._child is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._child.wait(min(0.2, max(0.0, deadline - time.monotonic())))
            if self._child.returncode in EXIT_CODES.values() or time.monotonic() >= deadline:
                break
            self.watch()
        leave_alone(self._child)
        done = bool(self._state().get("done"))
        if not done:
            self._say(
                "run closed before everything was copied to %s%s; it is safe in %s; stepscope upload copies the rest",
                self._home.url,
                f" ({error})" if (error := self._state().get("error")) else "",
                self._folder,
            )
        return done

    def _start(self) -> None:
        self._started_at = time.monotonic()
        try:
            remove_file(self._folder, f"{PRIVATE}/{STATE}", missing_ok=True)
            with open_file(*below_run(self._folder / UPLOAD_LOG), "ab") as log:
                self._child = start_module("tracker_adapters.remote.upload", [str(self._folder)], log)
        except OSError as error:
            self._child = None
            self._say("the process that copies the run to %s cannot be started: %s", self._home.url, error)

    def _state(self) -> dict[str, Any]:
        try:
            found = json.loads(read_file(self._folder, f"{PRIVATE}/{STATE}"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}

    def _say(self, message: str, *values: object) -> None:
        line = message % values
        if line not in self._said:
            self._said.add(line)
            logger.warning("%s", line)
