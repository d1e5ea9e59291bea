"""A run as producers see it: an emitter with a store behind it and delivery beside it."""

from __future__ import annotations

import atexit
import logging
import os
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias

from tracker_adapters.artifacts import RunInfo, RunStatus
from tracker_adapters.config import Missing, SinksSpec, choose_sinks
from tracker_adapters.delivery.handle import Delivery, DeliveryMode
from tracker_adapters.delivery.ledger import Position
from tracker_adapters.emitter import Emitter, PendingArray
from tracker_adapters.errors import DeliveryError, RunError
from tracker_adapters.store.manifest import Manifest, claim_folder, new_run_id
from tracker_adapters.store.record import RunRecord
from tracker_adapters.store.run_store import RunStore

logger = logging.getLogger(__name__)

OnError: TypeAlias = Literal["log", "raise"]
RANK_VARIABLES = ("RANK", "SLURM_PROCID", "JSM_NAMESPACE_RANK")
CLOSE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class SinkStats:
    """What became of the stored artifacts in one sink: stored = delivered + pending + the sum of failed.

    ``state`` is waiting, delivering, retrying, quarantined or done; ``error`` the last failure's message, empty while
    all is well; ``updated_ns`` when the sink last got somewhere, in nanoseconds since the epoch.
    """

    delivered: int
    pending: int
    failed: dict[str, int]
    state: str
    error: str
    updated_ns: int


@dataclass(frozen=True, slots=True)
class RunStats:
    """What became of the emitted artifacts: emitted = stored + the sum of lost.

    ``sinks`` is by sink name; two sinks of one name are told apart by their target.
    """

    emitted: int
    stored: int
    lost: dict[str, int]
    sinks: dict[str, SinkStats]


class Run(Emitter):
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
    ) -> None:
        """Starts delivery; see ``open_run`` for the arguments."""
        super().__init__(store, defer=_defer_tensor)
        self.path = store.run_folder
        self.rank = rank
        self.sinks = tuple(sinks)
        self._manifest = manifest
        self._store = store
        self._on_error = on_error
        self._delivery = Delivery(self.path, rank, sinks, delivery) if sinks else None
        self._closed: bool | None = None
        _open_runs.add(self)

    @property
    def info(self) -> RunInfo:
        """The run's identity, configuration, tags and status."""
        return self._manifest.info

    @property
    def attempt(self) -> int:
        """1 for a new run; each resume adds one."""
        return self._store.attempt

    @property
    def stats(self) -> RunStats:
        """What became of everything emitted so far; commits what is queued first, for at most a second."""
        self._store.flush(1.0)
        positions = self._positions()
        counts = self._store.counts()
        names = [position.sink for position in positions.values()]
        sinks = {}
        for position in positions.values():
            label = position.sink if names.count(position.sink) == 1 else f"{position.sink}:{position.target}"
            sinks[label] = SinkStats(
                delivered=position.delivered,
                pending=self._store.last_seq - position.seq,
                failed=position.failed,
                state=position.state,
                error=position.error,
                updated_ns=position.updated_ns,
            )
        return RunStats(emitted=counts.emitted, stored=self._store.last_seq, lost=counts.lost, sinks=sinks)

    def tick(self) -> None:
        """Housekeeping, called by the store's thread."""
        if self._delivery is not None:
            self._delivery.watch()

    def flush_store(self, timeout: float | None = None) -> bool:
        """Waits until everything emitted before is committed to the run store.

        Args:
            timeout: Seconds; None waits as long as it takes.

        Returns:
            Whether it is committed.

        Raises:
            DeliveryError: With ``on_error="raise"``, when the store failed.
        """
        committed = self._store.flush(timeout)
        self._raise_failures()
        return committed

    def flush(self, timeout: float = 5.0) -> bool:
        """Waits until everything emitted before has reached every sink, for at most ``timeout`` seconds.

        Returns:
            Whether it has. What has not is safe in the store and goes on being delivered.

        Raises:
            DeliveryError: With ``on_error="raise"``, when the store or a sink failed.
        """
        deadline = time.monotonic() + timeout
        done = self._store.flush(timeout)
        if done and self._delivery is not None:
            done = self._delivery.wait_delivered(self._store.last_seq, deadline)
        self._raise_failures()
        return done

    def finish(self, status: RunStatus = "finished", *, timeout: float = CLOSE_TIMEOUT_S) -> bool:
        """Sets how the run ended and closes it; see ``close``."""
        if self._closed is None:
            self._manifest = self._manifest.with_status(status)
        return self.close(timeout)

    def close(self, timeout: float = CLOSE_TIMEOUT_S) -> bool:
        """Commits everything, lets delivery drain, and releases the run.

        Args:
            timeout: Seconds in all. When they are over, delivery goes on by itself; what it cannot deliver waits
                in the store.

        Returns:
            Whether everything was delivered in time. A second call does nothing and returns the same.

        Raises:
            DeliveryError: With ``on_error="raise"``, when the store or a sink failed.
        """
        if self._closed is not None:
            return self._closed
        self._closed = False
        if self._store.is_inherited:  # a fork's child leaves the run to its parent
            return False
        _open_runs.discard(self)
        deadline = time.monotonic() + timeout
        if self.info.status == "running":
            self._manifest = self._manifest.with_status("finished")
        if self.rank == 0:
            # Delivery reads the status once the store is closed, so it is written before.
            self._save_manifest()
        done = self._store.close(timeout)
        if self.rank == 0:
            self._manifest = replace(self._manifest, lost=self._store.counts().lost, ended_ns=time.time_ns())
            self._save_manifest()
        if self._delivery is not None:
            done = self._delivery.close(deadline) and done
            self._delivery.warn_of_failures()
            self._warn_of_pending()
            done = done and self._delivery.wait_delivered(self._store.last_seq, deadline=0.0)
        self._closed = done
        self._raise_failures()
        return done

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        clean = error is None or (isinstance(error, SystemExit) and not error.code)
        self.finish("finished" if clean else "failed")

    def _warn_of_pending(self) -> None:
        for position in self._positions().values():
            if pending := self._store.last_seq - position.seq:
                logger.warning(
                    "run %s closed before sink %s (%s) took its last %d artifacts; they are safe in the run store",
                    self.path,
                    position.sink,
                    position.target,
                    pending,
                )

    def _positions(self) -> dict[str, Position]:
        # A forked child must not touch the database connection that it inherited.
        if self._delivery is None or self._store.is_inherited:
            return {}
        return self._delivery.positions()

    def _save_manifest(self) -> None:
        try:
            self._manifest.save(self.path)
        except OSError as error:
            self._store.error = error

    def _raise_failures(self) -> None:
        if self._on_error != "raise":
            return
        if self._store.error is not None:
            raise DeliveryError(f"the run store failed: {self._store.error!r}") from self._store.error
        for position in self._positions().values():
            if position.error or position.failed:
                raise DeliveryError(f"sink {position.sink} ({position.target}): {position.error or position.failed}")


def open_run(
    path: str | Path,
    *,
    sinks: SinksSpec = ("local",),
    name: str | None = None,
    config: Mapping[str, Any] | None = None,
    tags: Sequence[str] | None = None,
    resume: bool = False,
    missing: Missing = "raise",
    on_error: OnError = "log",
    delivery: DeliveryMode = "process",
    rank: int | None = None,
) -> Run:
    """Opens a run in a folder: what is emitted is stored there and delivered to the sinks.

    Args:
        path: The run's folder; made when it does not exist.
        sinks: Where the run is shown: names such as ``"tensorboard"`` or ``"mlflow:sqlite:///x.db"``, mappings
            such as ``{"type": "local", "path": "out"}``, a TOML file, or sink objects; see
            ``tracker_adapters.config.choose_sinks``. ``STEPSCOPE_SINKS`` overrides it.
        name: For people; the folder's name by default.
        config: The run's configuration; what JSON cannot hold is kept as its ``str``.
        tags: Labels.
        resume: Goes on with the run in the folder, as a new attempt: where it records a step again, readers
            return the new value.
        missing: When a sink's package is not installed: ``raise``, or ``local`` to warn and write local files.
        on_error: ``log`` never lets a failure behind an emit reach the training; ``raise`` raises it at the next
            flush or close, for tests.
        delivery: ``process`` delivers from a child process; ``thread`` from threads, for tests.
        rank: This process's rank; from ``RANK``, ``SLURM_PROCID`` or ``JSM_NAMESPACE_RANK`` by default. Each rank
            has a store of its own; the sinks show rank 0.

    Raises:
        RunExistsError: When the folder holds a run and ``resume`` is false.
        RunBusyError: When another live process writes to it.
        NotARunError: When the folder belongs to something else or cannot be written.
        SinkConfigError: For a sink that is unknown or configured wrongly.
        MissingPackageError: When a sink's package is not installed.
        ArtifactError: For a configuration or tags of the wrong type.
    """
    if on_error not in ("log", "raise"):
        raise RunError(f"on_error is {on_error!r}; expected 'log' or 'raise'")
    if delivery not in ("process", "thread"):
        raise RunError(f"delivery is {delivery!r}; expected 'process' or 'thread'")
    folder = Path(path).absolute()
    rank = _rank_of_process() if rank is None else rank
    # Everything that the caller can have got wrong is checked before anything is written.
    given: dict[str, Any] = {"name": name, "config": config, "tags": tuple(tags) if tags is not None else None}
    given = {key: value for key, value in given.items() if value is not None}
    fresh = RunInfo(**{"id": new_run_id(), "name": folder.name, **given})
    chosen: Sequence[Any] = choose_sinks(sinks, folder, missing=missing) if rank == 0 else ()
    existing = claim_folder(folder)
    if existing is not None:
        plain = {key: getattr(fresh, key) for key in given}
        manifest = Manifest(replace(existing.info, status="running", **plain))
    else:
        manifest = Manifest(fresh)
    if existing is None:
        manifest.save(folder)
    holder: list[Run] = []
    store = RunStore(folder, rank=rank, resume=resume, on_tick=lambda: holder[0].tick() if holder else None)
    if rank == 0:
        manifest.save(folder)
    run = Run(manifest, store, chosen, rank=rank, delivery=delivery, on_error=on_error)
    holder.append(run)
    return run


def read_run(path: str | Path) -> RunRecord:
    """Opens a run for reading, also while it is written; needs neither torch nor a tracker.

    Raises:
        NotARunError: When the folder holds no run.
    """
    return RunRecord(path)


def _rank_of_process() -> int:
    for variable in RANK_VARIABLES:
        value = os.environ.get(variable, "")
        if value:
            if not value.isdigit():
                raise RunError(f"the environment variable {variable} is {value!r}; expected a rank such as 0")
            return int(value)
    return 0


def _defer_tensor(tensor: Any) -> PendingArray:
    from debuggers.deferred import defer_tensor

    return defer_tensor(tensor)


_open_runs: set[Run] = set()


def _close_at_exit() -> None:
    # A script that forgot to close still gets its data out; one that died of an exception is marked so.
    failed = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
    for run in list(_open_runs):
        run.finish("failed" if failed is not None else "finished")


atexit.register(_close_at_exit)
os.register_at_fork(after_in_child=_open_runs.clear)

__all__ = ["Run", "RunStats", "SinkStats", "open_run", "read_run"]
