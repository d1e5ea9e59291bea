"""The worker that delivers one run store to one sink, until the run has ended and everything is delivered."""

import logging
import shlex
import threading
import time
from collections import Counter
from collections.abc import Callable
from contextlib import closing, suppress
from pathlib import Path
from typing import Literal, TypeAlias

from tracker_adapters.artifacts import RunInfo
from tracker_adapters.batch import Batch
from tracker_adapters.config import HISTOGRAMS
from tracker_adapters.delivery.description import Description
from tracker_adapters.delivery.idle import IdleClock
from tracker_adapters.delivery.outcomes import Outcome
from tracker_adapters.delivery.plainer_forms import PlainerForms
from tracker_adapters.delivery.probe import another, kind_of_single, kinds_of
from tracker_adapters.delivery.retry_policy import POLL_INTERVAL_S, RetryPolicy
from tracker_adapters.delivery.thinning import Thinning
from tracker_adapters.delivery.watched_sink import WatchedSink
from tracker_adapters.errors import SinkError, StartOver
from tracker_adapters.safe_files import check_way
from tracker_adapters.sink import Sink
from tracker_adapters.store.held_folder import HeldFolder
from tracker_adapters.store.layout import WRITER_LOCK, rank_folder
from tracker_adapters.store.ledger import Ledger, Position, position_key
from tracker_adapters.store.lock import FileLock, is_locked
from tracker_adapters.store.reading.tail import StoreReader

logger = logging.getLogger(__name__)

GATHER_S, MOST_GATHER_S, GATHER_TIMES = 0.25, 1.0, 20
"""How long more artifacts gather after a batch while the run lives: 20 times as long as it took, from 0.25 to 1 s.

A batch costs some milliseconds of its own, which larger ones pay more rarely; a training that uses every processor
should miss little of one.
"""
Until: TypeAlias = Literal["end", "caught_up"]


class DeliveryWorker:
    """Delivers to one sink; ``run`` is the body of its thread.

    A failure closes the sink; a new one is opened at the last token after a pause that doubles from 0.1 s. After
    7 failures in a row, about 6 s, the sink is quarantined: one warning, then a try every 30 s. What waits stays in
    the store. Only an artifact that the sink refuses while it takes others is skipped, counted as ``refused``.
    """

    def __init__(
        self,
        run_folder: Path,
        rank: int,
        sink_type: str,
        target: str,
        make_sink: Callable[[], Sink],
        *,
        histograms: int = HISTOGRAMS,
        until: Until = "end",
        wait_for_lease: bool = True,
        folder_identity: tuple[int, int] | None = None,
    ) -> None:
        """Makes the worker; ``run`` starts it.

        Args:
            run_folder: The run.
            rank: Whose store to deliver.
            sink_type: The sink's name; with ``target`` it names the position.
            target: Where its output goes.
            make_sink: Makes a new sink, which is then opened.
            histograms: How many histograms of a name are shown singly; 0 for all.
            until: ``end`` waits for the run to end; ``caught_up`` leaves when all is there that was stored when it
                began, or the run has ended.
            wait_for_lease: Whether to wait while another process delivers to the same sink.
            folder_identity: The ``HeldFolder.identity`` of the rank's folder, by whoever has it open: if another run's
                lies at the path when the worker begins, nothing is delivered. None takes what is there.
        """
        self.sink_type = sink_type
        self.target = target
        self.key = position_key(sink_type, target)
        self.stopping = threading.Event()
        self.calling = IdleClock()
        """Runs while the sink is called."""
        self._run_folder = run_folder
        self._rank = rank
        self._folder = rank_folder(run_folder, rank)
        self._description = Description(run_folder, rank)
        self._make_sink = make_sink
        self._histograms = histograms
        self._thinning = Thinning(histograms)
        self._plainer_forms = PlainerForms(sink_type)
        self._until = until
        self._wait_for_lease = wait_for_lease
        self._folder_identity = folder_identity
        self._retries = RetryPolicy(self._folder, sink_type, target, self.stopping, self.run_has_ended)
        self._outcome: Outcome | None = None

    def run(self) -> Outcome:
        """Delivers until everything is delivered and the run has ended, or ``stopping`` is set."""
        try:
            place = HeldFolder(self._folder)
        except FileNotFoundError:  # the run was deleted before a slow machine came to this
            return "gave_up"
        lease = FileLock(self._folder / f"{self.key}.lock")
        try:
            if (outcome := self._take(lease, place)) is not None:
                return outcome
            while not self.stopping.is_set():
                if place.is_replaced:
                    return "gave_up"
                try:
                    # Opened again after a failure, which may have been theirs.
                    with Ledger(self._folder) as ledger, closing(StoreReader(self._run_folder, self._rank)) as reader:
                        return self._deliver(place, ledger, reader, self._registered(ledger))
                except _Probed:
                    continue
                except (Exception, SystemExit) as error:  # an SDK may call sys.exit, which would end this thread alone
                    if place.is_replaced:
                        return "gave_up"
                    if not self._retries.failed(error, waits_for_run=self._until == "end"):
                        return "gave_up"
            return "stopped"
        finally:
            place.close()
            lease.release()

    def _take(self, lease: FileLock, place: HeldFolder) -> Outcome | None:
        """Waits for the lease; returns why it is not to be had, or None."""
        if self._folder_identity not in (None, place.identity):
            return "gave_up"
        try:
            # The delivery of an attempt that crashed may still drain; it goes on with this one, perhaps to its end.
            while not lease.acquire():
                if place.is_replaced:
                    return "gave_up"
                if not self._wait_for_lease:
                    return "busy"
                if self.stopping.wait(POLL_INTERVAL_S):
                    return "stopped"
        except FileNotFoundError:
            return "gave_up"
        return None

    def give_up_call(self) -> Outcome | None:
        """Records that the sink did not answer; called by a watchdog that then ends this process.

        Returns:
            What came of the delivery, or None when it is to be tried again by a new process.
        """
        if self._outcome is not None:  # everything is there; only closing the sink hangs
            return self._outcome
        error = f"the sink did not return from {self.calling.what} within {self.calling.seconds():.0f} s"
        logger.error("sink %s (%s): %s", self.sink_type, self.target, error)
        self._retries.hung(error)
        if self.stopping.is_set():
            return "stopped"
        return (
            "gave_up" if self._retries.is_quarantined and (self._until == "caught_up" or self.run_has_ended()) else None
        )

    def run_has_ended(self) -> bool:
        """Whether no process writes to the store any more."""
        return not is_locked(self._folder / WRITER_LOCK)

    def _registered(self, ledger: Ledger) -> Position:
        position = ledger.register(self.sink_type, self.target)
        self._retries.restore(position)
        return position

    def _deliver(self, place: HeldFolder, ledger: Ledger, reader: StoreReader, position: Position) -> Outcome:
        view = shlex.join(["stepscope", "view", str(self._run_folder)])
        sink = WatchedSink(self._make_sink, self.calling, self._plainer_forms, view)
        try:
            position = self._open(sink, ledger, position)
            stored_at_first = reader.last_seq()
            while not self.stopping.is_set():
                ended = self.run_has_ended()
                info = self._description.news()
                if info is not None and not place.is_replaced:  # asked after reading, so what was read is this run's
                    position = self._describe(sink, ledger, position, info)
                batch = reader.read(position.seq, max_rows=self._retries.bisection.rows)
                if place.is_replaced:
                    outcome: Outcome = "gave_up"
                    break
                if batch is None:
                    if ended:  # asked before reading, so nothing came in between
                        position = self._deliver_remaining(sink, ledger, position)
                        status = self._description.now().status
                        sink.finish("failed" if status == "running" else status)
                        ledger.note(self.key, "done")
                    if ended or self._until == "caught_up":
                        outcome = "done" if ended else "caught_up"
                        break
                    self.stopping.wait(POLL_INTERVAL_S)
                    continue
                begun = time.monotonic()
                position = self._deliver_batch(sink, ledger, reader, position, batch)
                if self._until == "caught_up" and not ended and position.seq >= stored_at_first:
                    outcome = "caught_up"  # of a run that emits on and on there is always more
                    break
                if not ended and len(batch) < self._retries.bisection.rows:
                    self._gather(GATHER_TIMES * (time.monotonic() - begun))
            else:
                outcome = "stopped"
        except BaseException:
            # Closing must not hide why; the next sink is opened at the last token whatever close achieved.
            with suppress(Exception):
                sink.close()
            raise
        self._outcome = outcome
        sink.close()
        return outcome

    def _gather(self, wanted_s: float) -> None:
        deadline = time.monotonic() + min(max(wanted_s, GATHER_S), MOST_GATHER_S)
        while (left := deadline - time.monotonic()) > 0 and not self.run_has_ended():
            if self.stopping.wait(min(POLL_INTERVAL_S, left)):
                return

    def _open(self, sink: WatchedSink, ledger: Ledger, position: Position) -> Position:
        # By its author's links a run from somebody else would have its sinks write anywhere.
        check_way(self._run_folder, Path(self.target))
        try:
            sink.open(self._description.now(), position.token)
        except StartOver as reason:
            position = self._start_over(sink, ledger, position, reason)
        if not self._retries.failures:
            ledger.note(self.key, "delivering")
        self._thinning = Thinning.restore(self._histograms, position.thinning or b"")
        return position

    def _start_over(self, sink: WatchedSink, ledger: Ledger, position: Position, reason: StartOver) -> Position:
        logger.info("sink %s starts over: %s", self.sink_type, reason)
        position = ledger.start_over(self.key, position)
        sink.start_over(self._description.now())
        return position

    def _describe(self, sink: WatchedSink, ledger: Ledger, position: Position, info: RunInfo) -> Position:
        try:
            token = sink.describe(info)
        except StartOver as reason:
            position = self._start_over(sink, ledger, position, reason)
            self._thinning = Thinning.restore(self._histograms, position.thinning or b"")
            return position
        if token is None:
            return position
        seq, thinning, bisection = position.seq, position.thinning, self._retries.bisection.encode()
        return ledger.advance(
            self.key, position, seq=seq, token=token, unshown={}, bisection=bisection, thinning=thinning
        )

    def _deliver_batch(
        self, sink: WatchedSink, ledger: Ledger, reader: StoreReader, position: Position, batch: Batch
    ) -> Position:
        """Gives one batch to the sink and commits the new position."""
        bisection = self._retries.bisection
        if batch.first_seq == batch.last_seq == bisection.suspect and len(batch):
            kind = kind_of_single(batch)
            if bisection.is_proven_to_refuse(kind):
                return self._skip(ledger, position, batch, kind)
            found = another(reader, batch.first_seq, kind, turn=self._retries.failures)
            if found is not None and not bisection.proven:
                if sink.write(found[0])[1]:
                    raise SinkError(f"it refused {kind} {batch.first_seq}, and another artifact too")
                # What was written to see whether the sink works must not stay: it is opened again at the token.
                bisection.took_another(same_kind=found[1])
                raise _Probed
        self._retries.trying = (batch.first_seq, batch.last_seq)
        ledger.attempt(self.key, batch.last_seq)
        shown = self._thinning.apply(batch)
        token, unshown = sink.write(shown) if len(shown) else (position.token, Counter())
        if batch.absent:
            unshown["compacted"] = batch.absent
        if batch.unreadable:
            unshown["unreadable"] = batch.unreadable
            lost = f"{batch.unreadable} of the artifacts {batch.first_seq} to {batch.last_seq}"
            logger.error("sink %s: skipped %s, because the store cannot read them", self.sink_type, lost)
        self._retries.succeeded()
        bisection.accepted(len(batch), kinds_of(batch))
        return ledger.advance(
            self.key,
            position,
            seq=batch.last_seq,
            token=token,
            unshown=unshown,
            bisection=bisection.encode(),
            thinning=self._thinning.state() if batch.histograms else position.thinning,
        )

    def _deliver_remaining(self, sink: WatchedSink, ledger: Ledger, position: Position) -> Position:
        """Gives the sink the histograms that wait for neighbours to be merged with."""
        token, unshown = position.token, Counter[str]()
        remaining = self._thinning.remaining()
        for batch in remaining:
            token, more = sink.write(batch)
            unshown += more
        if not remaining:
            return position
        return ledger.advance(
            self.key, position, seq=position.seq, token=token, unshown=unshown, thinning=self._thinning.state()
        )

    def _skip(self, ledger: Ledger, position: Position, batch: Batch, kind: str) -> Position:
        logger.error(
            "sink %s (%s) refuses the %s with number %d, and accepts others: skipped, counted as refused; %s",
            self.sink_type,
            position.target,
            kind,
            batch.first_seq,
            position.error,
        )
        self._retries.failures = 0
        bisection = self._retries.bisection
        bisection.skipped(kind)
        return ledger.advance(
            self.key,
            position,
            seq=batch.last_seq,
            token=position.token,
            unshown={"refused": 1},
            bisection=bisection.encode(),
            thinning=position.thinning,
        )


class _Probed(Exception):
    """The sink took another artifact than the suspect; it is opened again at the last token."""
