"""What a lane does about a sink that fails: when it is tried again, with how much, and when it is given up."""

from __future__ import annotations

import logging
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from pathlib import Path

from tracker_adapters.delivery.bisection import Bisection
from tracker_adapters.errors import MissingPackageError, SinkConfigError, SinkUnavailable
from tracker_adapters.store.ledger import LaneState, Ledger, Position, position_key

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.1
FIRST_RETRY_S = 0.1
FAILURES_TO_QUARANTINE = 7
FAILURES_OF_A_HANG = 3
"""What a sink that did not answer counts: waiting for it took long enough."""
QUARANTINE_S = 30.0


class Patience:
    """Counts the failures of one sink, keeps them in the ledger, and waits between the tries.

    Attributes:
        failures: Failures in a row.
        bisection: How many artifacts to try next, and which one is suspected.
        trying: First and last number of the batch that the sink is being given; None between batches.
    """

    def __init__(
        self, folder: Path, sink: str, target: str, stopping: threading.Event, has_ended: Callable[[], bool]
    ) -> None:
        """Begins without a failure.

        Args:
            folder: The rank's folder.
            sink: The sink's name.
            target: Where its output goes.
            stopping: Ends every wait when it is set.
            has_ended: Whether the run has ended.
        """
        self.failures = 0
        self.bisection = Bisection()
        self.trying: tuple[int, int] | None = None
        self._folder = folder
        self._sink = sink
        self._target = target
        self._stopping = stopping
        self._has_ended = has_ended
        self._knows = False

    @property
    def is_exhausted(self) -> bool:
        """Whether the sink failed so often that it is quarantined."""
        return self.failures >= FAILURES_TO_QUARANTINE

    def recall(self, position: Position) -> None:
        """Goes on where an earlier process was, once; a batch that it died on counts as failed."""
        if self._knows:
            return
        self._knows = True
        self.failures = position.failures
        self.bisection = Bisection.decode(position.bisection)
        if position.trying > position.seq:
            self.failures += 1
            self.bisection.failed(position.seq + 1, position.trying)
            message = f"a delivery process died on artifacts {position.seq + 1} to {position.trying}"
            logger.warning("sink %s (%s): %s", self._sink, position.target, message)
            self._note("retrying", message)

    def succeeded(self) -> None:
        """Notes that the sink took something."""
        if self.is_exhausted:
            logger.warning("sink %s has recovered", self._sink)
        self.failures = 0
        self.trying = None

    def failed(self, error: BaseException, *, waits_for_run: bool) -> bool:
        """Records a failure and waits; returns whether to try again.

        Args:
            error: What the sink raised.
            waits_for_run: Whether a quarantined sink is tried again while the run goes on.
        """
        self.failures += 1
        message = f"{type(error).__name__}: {error}"
        trying, self.trying = self.trying, None
        if trying is not None and not isinstance(error, SinkUnavailable) and self.bisection.failed(*trying):
            self._note("retrying", message)
            self._stopping.wait(FIRST_RETRY_S)
            return True
        if isinstance(error, (MissingPackageError, SinkConfigError)):  # waiting will not mend it
            self.failures = max(self.failures, FAILURES_TO_QUARANTINE)
        if not self.is_exhausted:
            if self.failures == 1:
                logger.info("sink %s failed and is tried again", self._sink, exc_info=error)
            self._note("retrying", message)
            # Runs that lost the same server must not all come back at the same moment.
            self._stopping.wait(FIRST_RETRY_S * 2 ** (self.failures - 1) * random.uniform(0.8, 1.2))
            return True
        if self.failures == FAILURES_TO_QUARANTINE:
            logger.info("sink %s is quarantined", self._sink, exc_info=error)  # the trainer's side warns
        self._note("quarantined", message)
        return waits_for_run and self._wait_in_quarantine()

    def hung(self, message: str) -> None:
        """Records that the sink did not answer."""
        self.failures += FAILURES_OF_A_HANG
        if self.trying is not None:
            self.bisection.failed(*self.trying, hung=True)
        self._note("quarantined" if self.is_exhausted else "retrying", message)

    def _wait_in_quarantine(self) -> bool:
        """Waits for the next try; False when there is none, because the run has ended."""
        if self._has_ended():  # the rest waits in the store for a later sync
            return False
        deadline = time.monotonic() + QUARANTINE_S
        while time.monotonic() < deadline:
            if self._stopping.wait(POLL_INTERVAL_S):
                return False
            if self._has_ended():  # one last try
                return True
        return True

    def _note(self, state: LaneState, error: str) -> None:
        key = position_key(self._sink, self._target)
        try:
            with Ledger(self._folder) as ledger:
                ledger.note_failure(key, state, error, failures=self.failures, bisection=self.bisection.encode())
        except sqlite3.Error as ledger_error:
            logger.warning("cannot note that sink %s failed (%s): %s", self._sink, error, ledger_error)
