"""A lane: carries one run store into one sink, until the run has ended and everything is delivered."""

from __future__ import annotations

import contextlib
import logging
import sqlite3
import threading
import time
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

from tracker_adapters.artifacts import RunInfo
from tracker_adapters.delivery.ledger import LaneState, Ledger, Position, position_key
from tracker_adapters.errors import MissingPackageError, SinkConfigError, StartOver
from tracker_adapters.sink import Sink
from tracker_adapters.store.layout import WRITER_LOCK, rank_folder
from tracker_adapters.store.lock import FileLock, is_locked
from tracker_adapters.store.manifest import load_manifest
from tracker_adapters.store.tail import MAX_ROWS, StoreReader

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.1
GATHER_S = 0.25
"""How long more artifacts gather after a batch while the run lives: a batch costs about a millisecond of its own."""
FIRST_RETRY_S = 0.1
FAILURES_TO_QUARANTINE = 7
QUARANTINE_S = 30.0


class Lane:
    """Delivers to one sink; ``run`` is the body of its thread.

    A failure closes the sink; a new one is opened at the last token after a pause that doubles from 0.1 s. After
    7 failures in a row, about 6 s, the sink is quarantined: one warning, then a try every 30 s. Nothing is skipped:
    what waits stays in the store.
    """

    def __init__(self, run_folder: Path, rank: int, sink_type: str, target: str, make_sink: Callable[[], Sink]) -> None:
        self.sink_type = sink_type
        self.key = position_key(sink_type, target)
        self.stopping = threading.Event()
        self.progress_at = time.monotonic()
        """When the lane last got somewhere, for a watchdog."""
        self._run_folder = run_folder
        self._rank = rank
        self._folder = rank_folder(run_folder, rank)
        self.target = target
        self._make_sink = make_sink
        self._failures = 0

    def run(self) -> None:
        """Delivers until everything is delivered and the run has ended, or ``stopping`` is set."""
        lease = FileLock(self._folder / f"{self.key}.lock")
        while not lease.acquire():  # another delivery of this sink is draining; it may take over for us
            if self.stopping.wait(POLL_INTERVAL_S) or self.run_has_ended():
                return
        try:
            while not self.stopping.is_set():
                try:
                    # Opened anew after a failure, which may have been theirs.
                    with Ledger(self._folder) as ledger, closing(StoreReader(self._run_folder, self._rank)) as reader:
                        self._deliver(ledger, reader, ledger.register(self.sink_type, self.target))
                    break
                except Exception as error:
                    if not self._pause_after(error):
                        break
        finally:
            lease.release()

    def _deliver(self, ledger: Ledger, reader: StoreReader, position: Position) -> None:
        sink = self._make_sink()
        try:
            try:
                sink.open(self._info(), position.token)
            except StartOver as reason:
                logger.info("sink %s starts over: %s", self.sink_type, reason)
                sink.close()
                position = ledger.start_over(self.key, position)
                sink = self._make_sink()
                sink.open(self._info(), None)
            ledger.note(self.key, "delivering")
            while not self.stopping.is_set():
                ended = self.run_has_ended()
                batch = reader.read(position.seq)
                self.progress_at = time.monotonic()
                if batch is None:
                    if ended:  # asked before reading, so nothing came in between
                        sink.finish("failed" if (status := self._info().status) == "running" else status)
                        ledger.note(self.key, "done")
                        break
                    self.stopping.wait(POLL_INTERVAL_S)
                    continue
                unshown = sink.write(batch)
                position = ledger.advance(self.key, position, seq=batch.last_seq, token=sink.flush(), unshown=unshown)
                if self._failures >= FAILURES_TO_QUARANTINE:
                    logger.warning("sink %s (%s) has recovered", self.sink_type, position.target)
                self._failures = 0
                if not ended and len(batch) < MAX_ROWS:
                    self.stopping.wait(GATHER_S)
        except BaseException:
            # Closing must not hide why; the next sink is opened at the last token whatever close achieved.
            with contextlib.suppress(Exception):
                sink.close()
            raise
        sink.close()

    def _pause_after(self, error: Exception) -> bool:
        """Records a failure and waits; returns whether to try again."""
        self._failures += 1
        message = f"{type(error).__name__}: {error}"
        if isinstance(error, (MissingPackageError, SinkConfigError)):  # waiting will not mend it
            self._failures = max(self._failures, FAILURES_TO_QUARANTINE)
        if self._failures < FAILURES_TO_QUARANTINE:
            if self._failures == 1:
                logger.info("sink %s failed and is tried again", self.sink_type, exc_info=error)
            self._note("retrying", message)
            self.stopping.wait(FIRST_RETRY_S * 2 ** (self._failures - 1))
            return True
        if self._failures == FAILURES_TO_QUARANTINE:
            logger.info("sink %s is quarantined", self.sink_type, exc_info=error)  # the trainer's side warns
        self._note("quarantined", message)
        deadline = time.monotonic() + QUARANTINE_S
        while time.monotonic() < deadline:
            if self.run_has_ended():  # the rest waits in the store for a later sync
                return False
            if self.stopping.wait(POLL_INTERVAL_S):
                return False
        return True

    def _note(self, state: LaneState, error: str) -> None:
        try:
            with Ledger(self._folder) as ledger:
                ledger.note(self.key, state, error)
        except sqlite3.Error as ledger_error:
            logger.warning("cannot note that sink %s failed (%s): %s", self.sink_type, error, ledger_error)

    def run_has_ended(self) -> bool:
        """Whether no process writes to the store any more."""
        return not is_locked(self._folder / WRITER_LOCK)

    def _info(self) -> RunInfo:
        return load_manifest(self._run_folder).info
