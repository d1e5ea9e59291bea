"""Carries runs that exist into sinks: finished, crashed, copied, or still running."""

import os
import sqlite3
import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Literal, TypeAlias

from tracker_adapters.config import SINKS_VARIABLE, SinkConfig, SinksSpec, choose_sinks
from tracker_adapters.delivery.outcomes import EXIT_CODES
from tracker_adapters.delivery.process import DeliveryProcess
from tracker_adapters.errors import NotARunError, RunError, SinkConfigError
from tracker_adapters.store.connections import is_damage
from tracker_adapters.store.layout import DELIVERY_DATABASE, WRITER_LOCK, rank_folder, ranks
from tracker_adapters.store.ledger import Ledger, Position, unshare_ledger
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.values.checked_values import at_least, check_value

from stepscope.runs.folders import find_runs

POLL_INTERVAL_S = 0.2
STOP_TIMEOUT_S = 5.0
MAX_CRASHES = 20
"""How often a delivery process may die before its sync is given up; finding what it dies of takes some of them."""
MAX_RESTART_PAUSE_S = 5.0
"""Somebody waits for a sync: one whose process dies at every start is given up after a minute and a half."""

SyncOutcome: TypeAlias = Literal["done", "caught_up", "gave_up", "busy", "stopped", "crashed"]
_SUCCESSES = frozenset({"done", "caught_up"})
_OUTCOMES: dict[int | None, SyncOutcome] = {code: outcome for outcome, code in EXIT_CODES.items()}


@dataclass(frozen=True, slots=True)
class SyncProgress:
    """How far one sink of one run is: ``seq`` of ``last_seq`` artifacts."""

    run: Path
    sink: str
    target: str
    seq: int
    last_seq: int


@dataclass(frozen=True, slots=True)
class SyncResult:
    """How the sync of one run into one sink ended.

    Attributes:
        run: The run's folder.
        sink: The sink's name.
        target: Where its output lies, without a password.
        outcome: ``done``, the run has ended and is there completely; ``caught_up``, a live run is there as far as it
            was stored; ``gave_up``, the sink failed; ``busy``, another process delivers to it; ``crashed``, its process
            died again and again; ``stopped``, it was interrupted.
        stored: Artifacts in the run.
        delivered: Those that the sink took, now or before.
        pending: Those that it did not take yet.
        failed: Those that it cannot show, by reason.
        error: The last failure's message; empty when all is well.
    """

    run: Path
    sink: str
    target: str
    outcome: SyncOutcome
    stored: int
    delivered: int
    pending: int
    failed: dict[str, int]
    error: str

    @property
    def complete(self) -> bool:
        """Whether the sink has everything that was stored, of a live run all that was stored when its sync began."""
        return self.outcome == "caught_up" or (self.outcome == "done" and not self.pending)


def sync_runs(
    runs: str | PathLike[str] | Sequence[str | PathLike[str]],
    *,
    to: SinksSpec,
    follow: bool = False,
    rank: int = 0,
    jobs: int | None = None,
    on_progress: Callable[[SyncProgress], None] | None = None,
) -> list[SyncResult]:
    """Delivers runs to sinks, from each sink's cursor, without gaps or duplicates.

    Args:
        runs: Run folders, folders that contain runs, or patterns of them.
        to: The sinks, as for ``open_run``; no sink objects. STEPSCOPE_SINKS is ignored.
        follow: Whether to follow live runs until they end.
        rank: The rank whose store is delivered.
        jobs: Number of parallel deliveries; by default the number of processors.
        on_progress: Called about five times a second for each delivery that runs.

    Returns:
        One result for each run and sink, in their order.

    Raises:
        NotARunError: When there is no run, or no such rank in it.
        SinkConfigError: For a sink that is unknown, configured wrongly, or an object.
        MissingPackageError: When a sink's package is not installed.
        RunError: For a wrong argument, or when the cursor cannot be kept in the run's folder.
    """
    check_value("jobs", jobs, at_least(1) | None, RunError)
    given = [runs] if isinstance(runs, (str, PathLike)) else runs
    planned = [
        _Sync(folder, rank, config, follow=follow) for folder in find_runs(given) for config in _sinks(to, folder)
    ]
    waiting, running = deque(planned), list[_Sync]()
    pause = threading.Event()
    try:
        while waiting or running:
            while waiting and len(running) < (jobs or os.cpu_count() or 1):
                running.append(waiting.popleft())
                running[-1].process.start()
            pause.wait(POLL_INTERVAL_S)
            for one in running:
                if on_progress is not None:
                    on_progress(one.progress())
            running = [one for one in running if one.goes_on()]
    except BaseException:
        for one in running:
            one.process.stop()
        deadline = time.monotonic() + STOP_TIMEOUT_S
        for one in running:
            one.process.wait_until(deadline)
            one.process.kill()
        raise
    return [one.result() for one in planned]


class _Sync:
    """One run into one sink."""

    def __init__(self, folder: Path, rank: int, config: SinkConfig, *, follow: bool) -> None:
        self._folder = folder
        self._rank = rank
        self._config = config
        self._crashes = 0
        self._outcome: SyncOutcome = "stopped"
        self._unreadable = ""
        if not rank_folder(folder, rank).is_dir():
            existing = ", ".join(map(str, ranks(folder)))
            expected = f"one of {existing}" if existing else "a run with something in it"
            raise NotARunError(f"{folder} has no rank {rank}; expected {expected}")
        self._position(first=True)
        self.process = DeliveryProcess(
            folder, rank, config, until="end" if follow else "caught_up", wait_for_lease=False, background=False
        )
        self.process.max_pause_s = MAX_RESTART_PAUSE_S

    def goes_on(self) -> bool:
        """Whether it still runs; a process that crashed is started again."""
        if self.process.lives:
            return True
        outcome = _OUTCOMES.get(self.process.exit_code)
        if outcome is None and self._crashes < MAX_CRASHES:
            self._crashes += self.process.restart_if_dead()
            return True
        self._outcome = outcome or "crashed"
        return False

    def progress(self) -> SyncProgress:
        """Returns how far it is now."""
        position = self._position()
        return SyncProgress(self._folder, self._config.type, position.target, position.seq, self._last_seq())

    def result(self) -> SyncResult:
        """Returns how it ended."""
        position, last_seq = self._position(), self._last_seq()
        outcome: SyncOutcome = "gave_up" if self._unreadable and self._outcome in _SUCCESSES else self._outcome
        return SyncResult(
            run=self._folder,
            sink=self._config.type,
            target=position.target,
            outcome=outcome,
            stored=last_seq,
            delivered=position.delivered,
            pending=max(0, last_seq - position.seq),
            failed=position.failed,
            error="" if outcome in _SUCCESSES else position.error or self._unreadable,
        )

    def _last_seq(self) -> int:
        try:
            with closing(StoreReader(self._folder, self._rank)) as reader:
                return reader.last_seq()
        except (OSError, sqlite3.Error, RunError) as error:  # a damaged run must not end the sync of the others
            self._unreadable = f"cannot read it: {error}"
            return 0

    def _position(self, *, first: bool = False) -> Position:
        place = rank_folder(self._folder, self._rank)
        try:
            if first and not is_locked(place / WRITER_LOCK):
                unshare_ledger(place)
            with Ledger(place) as ledger:
                return ledger.register(self._config.type, self._config.target)
        except (sqlite3.Error, OSError) as error:
            way_out = (
                f"move it away, and each sink starts again from the first artifact: {place / DELIVERY_DATABASE}"
                if is_damage(error)
                else "expected a writable run: copy it to another folder"
            )
            raise RunError(
                f"cannot keep the cursor of sink {self._config.type!r} in {self._folder}: {error}; {way_out}"
            ) from error


def _sinks(to: SinksSpec, folder: Path) -> list[SinkConfig]:
    environment = {key: value for key, value in os.environ.items() if key != SINKS_VARIABLE}
    chosen = choose_sinks(to, folder, environ=environment)
    if not chosen:
        raise SinkConfigError(f"to is {to!r}; expected at least one sink")
    for sink in chosen:
        if not isinstance(sink, SinkConfig):
            raise SinkConfigError(f"{sink!r} is an object; expected the name of a sink or a mapping")
    return [sink for sink in chosen if isinstance(sink, SinkConfig)]
