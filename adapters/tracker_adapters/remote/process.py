"""The trainer's side of uploading: starts the process, watches it, waits for it within a deadline."""

import contextlib
import json
import time
from pathlib import Path
from typing import Any

from tracker_adapters.child_process import ChildProcess
from tracker_adapters.remote.local_copy import UPLOAD_LOG, Home
from tracker_adapters.remote.upload import EXIT_CODES, STATE
from tracker_adapters.safe_files import read_file, remove_file
from tracker_adapters.store.layout import PRIVATE, below_run

WATCH_INTERVAL_S = 1.0
POLL_INTERVAL_S = 0.2


class UploadProcess(ChildProcess):
    """One child process that copies a run to its place; it continues by itself when the trainer has gone."""

    def __init__(self, folder: Path, home: Home) -> None:
        """Starts the process.

        Args:
            folder: The local copy.
            home: Its place.
        """
        super().__init__(
            f"the process that copies the run to {home.url}",
            "tracker_adapters.remote.upload",
            [str(folder)],
            log=below_run(folder / UPLOAD_LOG),
            exit_codes=EXIT_CODES.values(),
        )
        self._folder = folder
        self._home = home
        self._watched_at = 0.0
        self.start()

    def start(self) -> None:
        """Starts the process, and forgets what the one before it said."""
        with contextlib.suppress(OSError):
            remove_file(self._folder, f"{PRIVATE}/{STATE}", missing_ok=True)
        super().start()

    def watch(self) -> None:
        """Starts the process again if it died, and warns once of each failure; cheap when nothing is due."""
        if time.monotonic() - self._watched_at < WATCH_INTERVAL_S:
            return
        self._watched_at = time.monotonic()
        if error := self._state().get("error"):
            self.warn_once(
                f"cannot copy the run to {self._home.url}: {error}. Training continues; the run is in {self._folder}"
            )
        if self.crashed:
            self.restart_if_dead()

    def close(self, deadline: float) -> bool:
        """Waits until everything is at its place, once the run is closed.

        Returns:
            Whether it was before ``time.monotonic()`` reached ``deadline``. If not, the process continues by itself.
        """
        while (self.lives or self.crashed) and (left_s := deadline - time.monotonic()) > 0:
            self.wait(min(POLL_INTERVAL_S, left_s))
            self.watch()
        self.abandon()
        done = bool(self._state().get("done"))
        if not done:
            why = f" ({error})" if (error := self._state().get("error")) else ""
            self.warn_once(
                f"run closed before everything was copied to {self._home.url}{why}; it is safe in {self._folder}; "
                "run stepscope upload for the rest"
            )
        return done

    def _state(self) -> dict[str, Any]:
        try:
            found = json.loads(read_file(self._folder, f"{PRIVATE}/{STATE}"))
        except (OSError, ValueError, RecursionError):
            return {}
        return found if isinstance(found, dict) else {}
