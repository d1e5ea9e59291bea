"""The runs that a viewer looks at: found while it runs, opened when they are asked for, a few at a time."""

from __future__ import annotations

import os
import sqlite3
import threading
import time
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from tracker_adapters.errors import DamagedError, NotARunError, RunError
from tracker_adapters.store import layout

from stepscope.runs.places import open_record
from stepscope.viewer.found_runs import Found, find
from stepscope.viewer.watched_names import WatchedNames
from stepscope.viewer.watched_run import Head, WatchedRun
from stepscope.viewer.watched_series import KeptSeries

if TYPE_CHECKING:
    from tracker_adapters.store.reading.record import RunRecord

MAX_OPEN = 24
"""Records that are open at a time, up to two a run; each takes three files a segment."""
LOOK_EVERY_S = 1.0
LOOK_SHARE = 20
"""Looking for runs takes at most this part of the time, as its inverse: a folder may lie on a slow disk."""


class UnknownRunError(NotARunError):
    """No run has this key."""


class RunList:
    """Runs and folders of runs, which may get more runs. All methods may be called from any thread."""

    def __init__(self, given: Sequence[str | os.PathLike[str]], *, max_open: int = MAX_OPEN) -> None:
        """Looks for the runs.

        Args:
            given: Each a run's folder, a folder that contains runs at any depth, a pattern as in a shell, or the URL of
                a run or of a folder of runs.
            max_open: Records that are open at a time, up to two a run.

        Raises:
            RunError: Where there is nothing at one of them. A folder may be empty: runs can come. Of several places,
                files are passed over.
        """
        self.series = KeptSeries()
        """The series of these runs that were read last."""
        self.names = WatchedNames()
        """The names of the runs that are open."""
        places = [os.fspath(place) for place in given]
        # A shell makes of ``runs/*`` also the files between runs.
        self._given = [place for place in places if not os.path.isfile(place)] or places  # noqa: PTH113
        self._max_open = max_open
        self._lock = threading.Lock()
        self._looking = threading.Lock()
        self._runs: dict[str, WatchedRun] = {}
        self._present: list[str] = []
        self._named: list[str] = []
        self._errors: dict[str, str] = {}
        self._opened: OrderedDict[tuple[str, bool], _Opened] = OrderedDict()
        self._positions: dict[str, tuple[object, str]] = {}
        self._next_look_s = 0.0
        self._take([find(place, must_exist=True) for place in self._given])

    def all(self) -> list[WatchedRun]:
        """Returns the runs that were there when they were looked for last, in the order of their places."""
        with self._lock:
            return [self._runs[key] for key in self._present]

    def named(self) -> list[str]:
        """Returns the keys of the runs that were given themselves, or by a pattern, and not by a folder above them."""
        with self._lock:
            return list(self._named)

    def add(self, place: str | os.PathLike[str]) -> str:
        """Looks at another run, too, and returns its key.

        Raises:
            RunError: Where there is none.
        """
        found = find(os.fspath(place), must_exist=True)
        if not found.runs:
            raise NotARunError(f"{place} contains no run; expected the folder of a run")
        with self._looking:
            if os.fspath(place) not in self._given:
                self._given.append(os.fspath(place))
            self._take([find(one) for one in self._given])
        return WatchedRun(found.runs[0]).key

    def look_again(self) -> dict[str, str]:
        """Looks for runs that have come or gone, at most once a second; returns the places that cannot be searched."""
        with self._looking:
            started = time.monotonic()
            if started >= self._next_look_s:
                self._take([find(place) for place in self._given])
                took_s = time.monotonic() - started
                self._next_look_s = time.monotonic() + max(LOOK_EVERY_S, took_s * LOOK_SHARE)
            return dict(self._errors)

    def run(self, key: str) -> WatchedRun:
        """Returns the run of a key, also one that was deleted since; raises UnknownRunError for another key."""
        found = self._runs.get(key)
        if found is None:
            self.look_again()
            found = self._runs.get(key)
        if found is None:
            raise UnknownRunError(f"no run has the key {key[:40]!r}; the list of runs has the keys that there are")
        return found

    def position(self, key: str) -> str:
        """Returns how far a run is: another text whenever anything that its readers show has changed.

        The store of a run that ended is read again only when its files have changed: fifty runs are asked each second.

        Raises:
            RunError: When the run cannot be read.
        """
        run = self.run(key)
        head = run.head()
        files = run.files_at_rest(head)
        stamp = None if files is None else (head.manifest.info.id, head.manifest.info.status, files)
        known, position = self._positions.get(key, (None, ""))
        if stamp is not None and known == stamp:
            return position
        with self._lent(key, for_position=True) as record:
            position = f"{record.position()}-{head.manifest.info.status}"
        self._positions[key] = (stamp, position)
        return position

    @contextmanager
    def opened(self, key: str) -> Iterator[RunRecord]:
        """Lends the open record of a run; another thread that asks for the same run waits meanwhile.

        Who needs two runs at once asks for them in the order of their keys, so that no two threads wait for each other.

        Raises:
            RunError: When the run cannot be read.
        """
        with self._lent(key, for_position=False) as record:
            yield record

    @contextmanager
    def _lent(self, key: str, *, for_position: bool) -> Iterator[RunRecord]:
        """A record; how far a run is shall be known also while another thread reads it, so that has its own."""
        opened = self._borrow(self.run(key), for_position=for_position)
        try:
            with opened.lock:
                try:
                    yield opened.record()
                except (RunError, OSError, sqlite3.Error):
                    opened.close()  # the next one begins anew
                    raise
        finally:
            self._give_back(opened)

    def close(self) -> None:
        """Closes what is open and not in use; the list may be used again."""
        with self._lock:
            opened = list(self._opened.values())
            self._opened.clear()
        for one in opened:
            if one.lock.acquire(blocking=False):
                one.close()
                one.lock.release()

    def _take(self, found: list[Found]) -> None:
        runs: dict[str, WatchedRun] = {}
        for one in found:
            for place in one.runs:
                run = WatchedRun(place)
                runs.setdefault(run.key, run)
        with self._lock:
            for key, run in runs.items():
                self._runs.setdefault(key, run)
            # Of a place that cannot be searched now, what was there is kept.
            kept = [] if all(not one.error for one in found) else [key for key in self._present if key not in runs]
            self._present = [*runs, *kept]
            self._named = list(dict.fromkeys(WatchedRun(place).key for one in found for place in one.named))
            self._errors = {one.place: one.error for one in found if one.error}

    def _borrow(self, run: WatchedRun, *, for_position: bool) -> _Opened:
        with self._lock:
            opened = self._opened.setdefault(
                (run.key, for_position), _Opened(run, None if for_position else self.series)
            )
            self._opened.move_to_end((run.key, for_position))
            opened.users += 1
            spare = [other for other, one in self._opened.items() if not one.users]
            too_many = [self._opened.pop(spared) for spared in spare[: max(0, len(self._opened) - self._max_open)]]
        for one in too_many:
            one.close()
        return opened

    def _give_back(self, opened: _Opened) -> None:
        with self._lock:
            opened.users -= 1


class _Opened:
    """A run that is open, or will be; ``lock`` is held by the thread that reads it."""

    def __init__(self, run: WatchedRun, series: KeptSeries | None) -> None:
        self.run = run
        self._series = series
        self.lock = threading.RLock()
        self.users = 0
        self._record: RunRecord | None = None
        self._opened_at: object = None

    def record(self) -> RunRecord:
        """Returns the record, opened again when another run lies there, a rank has come, or a URL has news."""
        head = self.run.head()
        if head.damage.is_all:
            raise DamagedError(head.damage.text)
        stamp = self._stamp(head)
        if self._record is None or stamp != self._opened_at:
            self.close()
            self._record = open_record(self.run.place)
            self._opened_at = stamp
        return self._record

    def close(self) -> None:
        """Closes the record."""
        if self._record is not None:
            self._record.close()
            self._record = None
        if self._series is not None:
            self._series.forget(self.run.key)

    def _stamp(self, head: Head) -> object:
        if self.run.folder is None:
            return self.run.copied
        try:
            status = (self.run.folder / layout.STORE).stat()
        except FileNotFoundError:
            return (head.manifest.info.id, head.ranks)
        return (head.manifest.info.id, head.ranks, status.st_dev, status.st_ino)


__all__ = ["MAX_OPEN", "RunList", "UnknownRunError", "WatchedRun"]
