"""Says in a rank's store that it lives, and where it is when no step ends for a while."""

import os
import threading
import time
import traceback
from contextlib import suppress
from pathlib import Path
from types import FrameType

from tracker_adapters.emitter import Emitter
from tracker_adapters.fork_safe import TemporaryFolder

from debuggers.diagnosis.rank_facts import HEARTBEAT_NAME, STACK_NAME
from debuggers.errors import DebuggerConfigError
from debuggers.first_nan.source_lines import is_users_code
from debuggers.torch_internals.collectives import begun_collectives, flight_recording, frame_of

VARIABLE = "STEPSCOPE_HANG_SECONDS"
HANG_S = 60.0
"""Seconds without a step after which the stack is stored, unless ``VARIABLE`` says another number."""
EVERY_S = 10.0
_MOST_FRAMES = 40
_MOST_STACKS = 20


def hang_seconds() -> float:
    """Returns after how many seconds without a step the stack is stored.

    Raises:
        DebuggerConfigError: When the environment says no positive number.
    """
    said = os.environ.get(VARIABLE, "")
    with suppress(ValueError):
        seconds = float(said or HANG_S)
        if 0 < seconds < float("inf"):
            return seconds
    raise DebuggerConfigError(f"the environment variable {VARIABLE} is {said!r}; expected a positive number")


def _place(frame: FrameType | None) -> str:
    """The innermost frame of the training's own code, such as ``train.py, line 12, in load``; else the innermost."""
    found = ""
    while frame is not None:
        here = f"{Path(frame.f_code.co_filename).name}, line {frame.f_lineno}, in {frame.f_code.co_name}"
        if is_users_code(frame):
            return here
        found = found or here
        frame = frame.f_back
    return found


class Heartbeat:
    """A thread that looks at the training's thread; it touches no tensor, and never keeps the process alive.

    What it stores carries the last step. Made by the thread that trains.
    """

    def __init__(self, emitter: Emitter, hang_s: float, every_s: float = EVERY_S) -> None:
        """Begins; the first sign of life comes after ``every_s``, or a quarter of ``hang_s`` if that is less."""
        self._emitter, self._hang_s, self._every_s = emitter, hang_s, min(every_s, hang_s / 4)
        self._step, self._is_paused = -1, False
        self._ident, self._owner = threading.get_ident(), os.getpid()
        self._since_s = time.monotonic()
        self._told_s = -1.0
        self._stacks = 0
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="stepscope-heartbeat", daemon=True)
        self._thread.start()

    def step(self, step: int) -> None:
        """Says that a step was reached."""
        self._step, self._is_paused, self._since_s = step, False, time.monotonic()

    def pause(self) -> None:
        """Says that no step is to be expected until the next one."""
        self._is_paused = True

    def close(self) -> None:
        """Ends the thread; waits for what it stores, for a second at most."""
        self._ending.set()
        if os.getpid() == self._owner:  # a fork's child has no such thread
            self._thread.join(1.0)

    def _run(self) -> None:
        while not self._ending.wait(self._every_s):
            with suppress(Exception):  # a run that was closed or deleted
                step, since_s = self._step, self._since_s
                self._emitter.scalar(HEARTBEAT_NAME, begun_collectives(), step=max(0, step))
                silent_s = time.monotonic() - since_s
                if silent_s >= self._hang_s and since_s != self._told_s and not self._is_paused:
                    self._told_s = since_s
                    self._store_stack(step, silent_s)

    def _store_stack(self, step: int, silent_s: float) -> None:
        self._stacks += 1
        frame = frame_of(self._ident)
        if frame is None or self._stacks > _MOST_STACKS:
            return
        lines = traceback.format_stack(frame)[-_MOST_FRAMES:]
        head = (
            f"last step: {step}\nseconds since: {silent_s:.0f}\ncollectives: {begun_collectives()}\n"
            f"in: {_place(frame)}\n\n"
        )
        self._emitter.text(STACK_NAME, head + "".join(lines), step=max(0, step))
        if recording := flight_recording():
            with TemporaryFolder("stepscope-") as folder:
                path = folder.path / f"flight_recorder_{self._stacks}.json"
                path.write_bytes(recording)
                self._emitter.file(path, media_type="application/json", step=max(0, step))
