"""The uploading process: ``python -m tracker_adapters.remote.upload FOLDER`` copies a local copy to its place.

It copies what is sealed while the run lives and the rest when it has ended, also when the trainer was killed, and
leaves. What fails is tried again.
"""

import argparse
import contextlib
import json
import logging
import math
import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Literal, TypeAlias

from tracker_adapters.child_process import step_back
from tracker_adapters.errors import NotARunError
from tracker_adapters.redaction import redact, redact_output
from tracker_adapters.remote.local_copy import Home, write_private
from tracker_adapters.remote.mirror import Mirror, TakenOverError, run_has_ended
from tracker_adapters.remote.place import RemotePlace
from tracker_adapters.store.layout import PRIVATE
from tracker_adapters.store.lock import FileLock

INTERVAL_S = 2.0
ENDED_INTERVAL_S = 0.2
"""The first pause once the run has ended, when its trainer waits for the rest; the next ones are longer."""
LOOK_S = 0.1
FIRST_RETRY_S = 0.5
LAST_RETRY_S = 60.0
LAST_LOOK_S = 5.0
"""The longest pause once the run has ended."""
GIVE_UP_S = 600.0
"""After the run has ended, the upload stops if nothing was copied for this long; a later upload continues."""
HANG_S = 90.0
"""The process restarts after this long without a response, plus the time that a slow line needs for the file: not every
client times out by itself, and s3fs does not in the middle of an upload."""
STATE = "state.json"
Outcome: TypeAlias = Literal["done", "gave_up", "busy", "stopped", "taken_over"]
EXIT_CODES: dict[Outcome, int] = {"done": 0, "gave_up": 4, "busy": 5, "stopped": 6, "taken_over": 7}

logger = logging.getLogger(__name__)


class Uploader:
    """Copies one run until it has ended and everything is at its place."""

    def __init__(self, folder: Path, home: Home, stopping: threading.Event, give_up_s: float) -> None:
        self._folder = folder
        self._home = home
        self._stopping = stopping
        self._give_up_s = give_up_s
        self._progressed_at = time.monotonic()
        self._moved_at = math.inf
        self._mirror: Mirror | None = None
        self._said = ""

    def run(self) -> Outcome:
        """Copies; see ``upload``."""
        pause, ended_pause = 0.0, ENDED_INTERVAL_S
        while not self._stopping.is_set():
            ended = run_has_ended(self._folder)
            self._moved_at = time.monotonic()
            try:
                if self._copy():
                    self._note(done=True)
                    return "done"
                pause = 0.0
            except TakenOverError as error:
                logger.error("%s", error)
                self._note(error=str(error))
                return "taken_over"
            except Exception as error:  # clients of object stores raise errors of their own
                if not self._folder.exists():
                    raise
                pause = min(2 * pause or FIRST_RETRY_S, LAST_RETRY_S)
                self._failed(error)
            finally:
                self._moved_at = math.inf
            if ended and time.monotonic() - self._progressed_at > self._give_up_s:
                logger.error("gave up on %s: nothing was copied for %.0f s", self._home.url, self._give_up_s)
                return "gave_up"
            self._wait(pause or (ended_pause if ended else INTERVAL_S))
            ended_pause = min(2 * ended_pause, INTERVAL_S) if ended else ENDED_INTERVAL_S
        return "stopped"

    def hangs(self) -> bool:
        """Whether the place has not answered for so long that it never will; asked from another thread."""
        allowed = HANG_S + (self._mirror.allowance_s if self._mirror else 0.0)
        return time.monotonic() - self._moved_at > allowed

    def _copy(self) -> bool:
        if self._mirror is None:
            place = RemotePlace(self._home.url)
            home = Home.load(self._folder) or self._home  # it says whether the place is claimed
            self._mirror = Mirror(self._folder, place, home, progressed=self._progressed)
        done = self._mirror.copy()
        self._progressed()
        if self._said:
            logger.info("%s responds again", self._home.url)
            self._said = ""
            self._note()
        return done

    def _failed(self, error: Exception) -> None:
        self._mirror = None  # connected again, with the index as it is there
        message = f"{type(error).__name__}: {error}"
        if message != self._said:
            logger.warning("%s: %s; retrying", self._home.url, message, exc_info=error)
            self._note(error=message)
        self._said = message

    def _wait(self, seconds: float) -> None:
        """Waits, less long when the run ends meanwhile: its trainer waits for the rest to be copied."""
        lived = not run_has_ended(self._folder)
        deadline = time.monotonic() + (seconds if lived else min(seconds, LAST_LOOK_S))
        while time.monotonic() < deadline and not self._stopping.wait(LOOK_S):
            if lived and run_has_ended(self._folder):
                return

    def _progressed(self) -> None:
        self._progressed_at = self._moved_at = time.monotonic()

    def _note(self, *, done: bool = False, error: str = "") -> None:
        with contextlib.suppress(OSError):
            write_private(self._folder, STATE, json.dumps({"done": done, "error": redact(error)}))


def upload(
    folder: Path,
    *,
    stopping: threading.Event | None = None,
    give_up_s: float = GIVE_UP_S,
    wait_s: float = 60.0,
    on_hang: Callable[[], object] | None = None,
) -> Outcome:
    """Copies a run to its place until it has ended and everything is there.

    Args:
        folder: The local copy, which knows its place.
        stopping: Ends it after the current pass.
        give_up_s: How long nothing may have been copied after the run's end.
        wait_s: How long to wait for another upload of the same folder to leave.
        on_hang: Called from another thread when the place does not answer for ``HANG_S``.
    """
    home = Home.load(folder)
    if home is None:
        raise NotARunError(f"{folder} is not a local copy of a remote run")
    lease = FileLock(folder / PRIVATE / "upload.lock")
    if not lease.acquire_within(wait_s):
        return "busy"
    uploader, done = Uploader(folder, home, stopping or threading.Event(), give_up_s), threading.Event()
    if on_hang is not None:
        threading.Thread(target=_watch, args=(uploader, done, on_hang), daemon=True).start()
    try:
        return uploader.run()
    finally:
        done.set()
        lease.release()


def _watch(uploader: Uploader, done: threading.Event, on_hang: Callable[[], object]) -> None:
    while not done.wait(min(HANG_S / 4, INTERVAL_S)):
        if uploader.hangs():
            on_hang()
            return


def _start_anew() -> None:
    logger.error("the place does not respond; this process restarts itself")
    sys.stderr.flush()
    os.execv(sys.executable, sys.orig_argv)


def main() -> None:
    """Reads the command line, and uploads."""
    parser = argparse.ArgumentParser(prog="python -m tracker_adapters.remote.upload", description=__doc__)
    parser.add_argument("folder", type=Path, help="the local copy of a remote run")
    arguments = parser.parse_args()
    redact_output()
    logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s", level=logging.INFO)
    step_back()
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C is the trainer's
    stopping = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stopping.set())
    sys.exit(EXIT_CODES[upload(arguments.folder, stopping=stopping, on_hang=_start_anew)])


if __name__ == "__main__":
    main()
