"""The retry policy of a sink: exponential backoff, smaller batches, and quarantine after repeated failures."""

import logging
import random
import sqlite3
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tracker_adapters.delivery.bisection import Bisection
from tracker_adapters.errors import MissingPackageError, SinkConfigError, SinkUnavailable
from tracker_adapters.store.ledger import DeliveryState, Ledger, Position, position_key

logger = logging.getLogger(__name__)

POLL_INTERVAL_S = 0.1
FIRST_RETRY_S = 0.1
FAILURES_TO_QUARANTINE = 7
FAILURES_OF_A_HANG = 3
"""A hang counts as several failures, because its deadline has already cost a minute."""
QUARANTINE_S = 30.0


@dataclass
class RetryPolicy:
    """Counts the failures of one sink, stores them in the ledger, and waits between attempts.

    Attributes:
        folder: The rank's folder.
        sink: The sink's name.
        target: Where its output goes.
        stopping: Ends every wait when it is set.
        has_ended: Whether the run has ended.
        failures: Failures in a row.
        bisection: How many artifacts to try next, and which one is suspected.
        trying: First and last sequence number of the batch being delivered; None between batches.
    """

    folder: Path
    sink: str
    target: str
    stopping: threading.Event
    has_ended: Callable[[], bool]
    failures: int = field(default=0, init=False)
    bisection: Bisection = field(default_factory=Bisection, init=False)
    trying: tuple[int, int] | None = field(default=None, init=False)
    _knows: bool = field(default=False, init=False)

    @property
    def is_quarantined(self) -> bool:
        """Whether the sink has failed so often that it is quarantined."""
        return self.failures >= FAILURES_TO_QUARANTINE

    def restore(self, position: Position) -> None:
        """Continues from the state of an earlier process, once; a batch during which it died counts as failed."""
        if self._knows:
            return
        self._knows = True
        self.failures = position.failures
        self.bisection = Bisection.decode(position.bisection)
        if position.trying > position.seq:
            self.failures += 1
            self.bisection.failed(position.seq + 1, position.trying)
            message = f"a delivery process died on artifacts {position.seq + 1} to {position.trying}"
            logger.warning("sink %s (%s): %s", self.sink, position.target, message)
            self._note("retrying", message)

    def succeeded(self) -> None:
        """Records a successful delivery."""
        if self.is_quarantined:
            logger.warning("sink %s has recovered", self.sink)
        self.failures = 0
        self.trying = None

    def failed(self, error: BaseException, *, waits_for_run: bool) -> bool:
        """Records a failure and waits; returns whether to try again.

        Args:
            error: What the sink raised.
            waits_for_run: Whether a quarantined sink is retried while the run is live.
        """
        self.failures += 1
        message = f"{type(error).__name__}: {error}"
        trying, self.trying = self.trying, None
        if trying is not None and not isinstance(error, SinkUnavailable) and self.bisection.failed(*trying):
            self._note("retrying", message)
            self.stopping.wait(FIRST_RETRY_S)
            return True
        if isinstance(error, (MissingPackageError, SinkConfigError)):  # retrying cannot help
            self.failures = max(self.failures, FAILURES_TO_QUARANTINE)
        if not self.is_quarantined:
            if self.failures == 1:
                logger.info("sink %s failed; retrying", self.sink, exc_info=error)
            self._note("retrying", message)
            # Jitter: runs that lost the same server must not all retry at the same moment.
            self.stopping.wait(FIRST_RETRY_S * 2 ** (self.failures - 1) * random.uniform(0.8, 1.2))
            return True
        if self.failures == FAILURES_TO_QUARANTINE:
            logger.info("sink %s is quarantined", self.sink, exc_info=error)  # the trainer's side warns
        self._note("quarantined", message)
        return waits_for_run and self._wait_in_quarantine()

    def hung(self, message: str) -> None:
        """Records that the sink did not answer."""
        self.failures += FAILURES_OF_A_HANG
        if self.trying is not None:
            self.bisection.failed(*self.trying, hung=True)
        self._note("quarantined" if self.is_quarantined else "retrying", message)

    def _wait_in_quarantine(self) -> bool:
        """Waits for the next attempt; False when there is none, because the run has ended."""
        if self.has_ended():  # the rest stays in the store for a later sync
            return False
        deadline = time.monotonic() + QUARANTINE_S
        while time.monotonic() < deadline:
            if self.stopping.wait(POLL_INTERVAL_S):
                return False
            if self.has_ended():  # one last attempt
                return True
        return True

    def _note(self, state: DeliveryState, error: str) -> None:
        key = position_key(self.sink, self.target)
        try:
            with Ledger(self.folder) as ledger:
                ledger.note_failure(key, state, error, failures=self.failures, bisection=self.bisection.encode())
        except sqlite3.Error as ledger_error:
            logger.warning("cannot record the failure of sink %s (%s): %s", self.sink, error, ledger_error)
