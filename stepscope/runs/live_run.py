"""A run as producers see it: an emitter with a store behind it and delivery beside it."""

from __future__ import annotations

import contextlib
import logging
import math
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from types import TracebackType
from typing import TYPE_CHECKING, Any, Literal, Self, TypeAlias

from tracker_adapters.artifacts import RunInfo, RunStatus
from tracker_adapters.delivery.handle import Delivery, DeliveryMode
from tracker_adapters.emitter import Emitter, PendingArray
from tracker_adapters.errors import DeliveryError
from tracker_adapters.store.ledger import Position
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.reading.notebook_view import NotebookView
from tracker_adapters.store.writing.run_store import NOT_WRITABLE, RunStore
from tracker_adapters.wording import counted

from stepscope.runs.forecast import Forecast
from stepscope.runs.live_manifest import LiveManifest
from stepscope.runs.looking import how_to_look
from stepscope.runs.pending_line import lost_line, pending_line
from stepscope.runs.places import short_path
from stepscope.runs.reached_steps import reached_steps
from stepscope.runs.slow_folders import told_when_slow
from stepscope.runs.stats import RunStats
from stepscope.runs.terminal_alerts import TerminalAlerts
from stepscope.runs.timeouts import checked_timeout
from stepscope.runs.unclosed import CLOSE_TIMEOUT_S, close_at_exit, commit_at_exit, forget

if TYPE_CHECKING:
    from tracker_adapters.remote.process import UploadProcess

logger = logging.getLogger(__name__)

OnError: TypeAlias = Literal["log", "raise"]


class Run(NotebookView, Emitter):
    """A live run: emit through it, and close it or use it as a context manager. Made by ``open_run``."""

    def __init__(
        self,
        manifest: Manifest,
        store: RunStore,
        sinks: Sequence[Any],
        *,
        rank: int,
        delivery: DeliveryMode,
        on_error: OnError,
        asked_for: str = "",
    ) -> None:
        """Starts delivery; see ``open_run`` for the arguments. ``asked_for`` is the place without its number."""
        alerts = TerminalAlerts(str(short_path(store.run_folder)), rank=rank)
        super().__init__(store, defer=_defer_tensor, on_alert=alerts.tell)
        if store.attempt > 1:
            self._reached.update(reached_steps(store.run_folder, rank))
        self.path = store.run_folder
        self.rank = rank
        self.asked_for = asked_for
        self.sinks = tuple(sinks)
        self._manifest = LiveManifest(manifest, self.path, rank=rank)
        self._store = store
        self._on_error = on_error
        self._lost_before = manifest.lost if rank == 0 else {}
        self._by_process = delivery == "process"
        self._delivery = Delivery(self.path, rank, sinks, delivery) if sinks else None
        self._upload: UploadProcess | None = None
        self._forecast = Forecast(self.path, rank, store.max_run_bytes) if rank == 0 and store.attempt == 1 else None
        self._closing = threading.RLock()
        self._closed: bool | None = None
        self._in_place = True
        self._before_close: list[Callable[[], object]] = []
        self._closes_by = math.inf
        close_at_exit(self)
        with contextlib.suppress(Exception):  # a third-party sink that cannot say it
            logger.info("run %s; look at it: %s", self.path, self.look())

    @property
    def info(self) -> RunInfo:
        """The run's identity, configuration, tags and status."""
        return self._manifest.manifest.info

    @property
    def attempt(self) -> int:
        """1 for a new run; each resume adds one."""
        return self._store.attempt

    @property
    def stats(self) -> RunStats:
        """What became of everything emitted so far; commits what is queued first, for at most a second."""
        if not self._store.is_failing:
            self._store.flush(1.0)
        positions = self._positions()
        return RunStats.of(self._store.counts(), self._lost(), list(positions.values()))

    def look(self) -> dict[str, str]:
        """Returns how to look at the run: for each sink a command, or where its output lies.

        Sinks that are objects are omitted; two sinks of one type are distinguished by their target.
        """
        return how_to_look(self.sinks)

    @property
    def background_seconds(self) -> float:
        """Processor time of the thread that writes the run store, in seconds."""
        return self._store.cpu_seconds

    def __repr__(self) -> str:
        state = "open" if self._closed is None else f"closed, {self.info.status}"
        stored = counted(self._store.counts().stored, "artifacts")
        return f"<Run {str(self.path)!r}: {state}, {stored}, sinks: {len(self.sinks)}>"

    def describe(self, **changes: Any) -> None:
        """Changes ``name``, ``tags``, entries of ``config`` or ``environment``; ArtifactError for a wrong type."""
        self._manifest.describe(**changes)

    @property
    def closing_s(self) -> float:
        """Seconds that are left to a run that is being closed; infinite before."""
        return max(0.0, self._closes_by - time.monotonic())

    def call_before_close(self, function: Callable[[], object]) -> Callable[[], None]:
        """Registers a function to call when the run is about to close and still accepts artifacts; last first.

        Exceptions of it are logged. Returns a function that unregisters it; until then the run keeps it alive.
        """
        entry = partial(function)  # equal to no other, though the same function may be given twice
        self._before_close.append(entry)
        return lambda: self._before_close.remove(entry) if entry in self._before_close else None

    def copied_by(self, upload: UploadProcess) -> None:
        """Watches a process that copies the run to its place, and has ``close`` wait for it."""
        self._upload = upload

    def tick(self) -> None:
        """Housekeeping, called by the store's thread."""
        self._manifest.save_changes(self._store)
        if self._upload is not None:
            self._upload.watch()
        if self._delivery is not None:
            self._delivery.watch()
        if self._forecast is not None:
            self._forecast.look()

    def flush_store(self, timeout: float | None = None) -> bool:
        """Waits until everything emitted before is committed to the run store.

        Args:
            timeout: Seconds; None waits as long as the store can be written.

        Returns:
            Whether it is committed, or counted as lost.

        Raises:
            RunError: For a timeout that is no number.
            DeliveryError: With ``on_error="raise"``, when the store failed.
        """
        committed = self._store.flush(None if timeout is None else checked_timeout(timeout))
        self._raise_failures()
        return committed

    def flush(self, timeout: float = 5.0) -> bool:
        """Waits until everything emitted before has reached every sink, for at most ``timeout`` seconds.

        Returns:
            Whether it has. What has not is safe in the store and continues being delivered.

        Raises:
            RunError: For a timeout that is no number.
            DeliveryError: With ``on_error="raise"``, when the store or a sink failed.
        """
        timeout = checked_timeout(timeout)
        deadline = time.monotonic() + timeout
        done = self._store.flush(timeout)
        if done and self._delivery is not None:
            done = self._delivery.wait_delivered(self._store.last_seq, deadline)
        self._raise_failures()
        return done

    def finish(self, status: RunStatus = "finished", *, timeout: float = CLOSE_TIMEOUT_S) -> bool:
        """Sets how the run ended and closes it; see ``close``."""
        timeout = checked_timeout(timeout)
        if self._store.is_inherited:  # a fork's child leaves the run to its parent
            return False
        deadline = time.monotonic() + timeout
        if not self._closing.acquire(timeout=timeout):  # another thread is closing it
            return False
        try:
            if self._closed is None:
                self._manifest.set_status(status)
                with told_when_slow("closing the run", short_path(self.path), rank=self.rank) as waits_for:
                    self._closes_by = deadline
                    self._call_before_close()
                    delivered = self._close_and_deliver(deadline, waits_for)
                    waits_for("its copy at the URL")
                    self._closed = (self._upload is None or self._upload.close(deadline)) and delivered
                self._raise_failures()
        except KeyboardInterrupt:
            commit_at_exit(self)
            raise
        else:
            return self._closed
        finally:
            self._closing.release()

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> bool:
        """Commits everything, waits for delivery, and marks the run as finished.

        Args:
            timeout: Seconds in total. After that, delivery continues in the background; what it cannot deliver waits in
                the store.

        Returns:
            Whether everything was stored and delivered in time. A second call waits for the first one and returns the
            same.

        Raises:
            RunError: For a timeout that is no number.
            DeliveryError: With ``on_error="raise"``, when the store or a sink failed.
        """
        return self.finish(timeout=timeout)

    def _close_and_deliver(self, deadline: float, waits_for: Callable[[str], None]) -> bool:
        closed = self._store.close(deadline - time.monotonic(), on_close=self.save_end)
        forget(self)
        lost = self._store.counts().lost
        if lost:
            logger.warning("%s", lost_line(self.path, lost, self._store.error))
        stored = closed and NOT_WRITABLE not in lost
        if self._delivery is None:
            return stored
        waits_for(f"its sinks: {', '.join(sorted({getattr(one, 'type', type(one).__name__) for one in self.sinks}))}")
        ended = self._delivery.close(deadline)
        # A disk that hangs would hold up the questions below too; and of a run that was deleted the store has told.
        if not closed or not self._in_place:
            return False
        self._delivery.warn_of_failures()
        self._warn_of_pending()
        return ended and stored and self._delivery.wait_delivered(self._store.last_seq, deadline=0.0)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        clean = error is None or (isinstance(error, SystemExit) and not error.code)
        try:
            self.finish("finished" if clean else "failed")
        except DeliveryError as failure:
            if error is None:
                raise
            logger.error("%s", failure)  # it must not stand before what ended the training

    def _call_before_close(self) -> None:
        while self._before_close:
            try:
                self._before_close.pop()()
            except Exception:
                logger.exception("before closing the run in %s", self.path)

    def _warn_of_pending(self) -> None:
        for position in self._positions().values():
            if pending := self._store.last_seq - position.seq:
                line = pending_line(self.path, position, pending, self.sinks, by_process=self._by_process)
                logger.warning("%s", line)

    def _positions(self) -> dict[str, Position]:
        # A forked child must not touch the database connection that it inherited.
        if self._delivery is None or self._store.is_inherited:
            return {}
        return self._delivery.positions()

    def _lost(self) -> dict[str, int]:
        return dict(Counter(self._lost_before) + Counter(self._store.counts().lost))

    def save_end(self) -> None:
        """Writes into run.json how the run ends; the store's thread does before it releases the run to delivery."""
        self._in_place = self._store.is_in_place
        if (error := self._manifest.save_end(self._lost(), in_place=self._in_place)) is not None:
            self._store.error = error

    def _raise_failures(self) -> None:
        if self._on_error != "raise":
            return
        if self._store.error is not None:
            raise DeliveryError(f"the run store failed: {self._store.error!r}") from self._store.error
        for position in self._positions().values():
            if position.error or position.failed:
                raise DeliveryError(f"sink {position.sink} ({position.target}): {position.error or position.failed}")


def run_of(emitter: Emitter | None) -> Run | None:
    """Returns the run behind an emitter, which may be scoped; None for another emitter."""
    origin = None if emitter is None else emitter.origin
    return origin if isinstance(origin, Run) else None


def _defer_tensor(tensor: Any) -> PendingArray:
    from debuggers.host_arrays.deferred import defer_tensor

    return defer_tensor(tensor)
