"""Puts the segments of runs before a query: as many as SQLite can attach as they are, the others as copies."""

import json
import os
import sqlite3
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tracker_adapters.errors import RunError
from tracker_adapters.store import layout
from tracker_adapters.store.reading.columns import extent, read_rows
from tracker_adapters.store.reading.replaced import SHOWN_BY_STEP, LatestAttempts
from tracker_adapters.store.reading.segments import opened_segment
from tracker_adapters.store.segments.attempt_rows import attempts_of
from tracker_adapters.store.segments.schema import table_of

from stepscope.export.selection import Selection
from stepscope.query import views
from stepscope.runs.folders import readable, run_labels
from stepscope.runs.opening import read_run


@dataclass(frozen=True, slots=True)
class Place:
    """One rank of a run; sequence numbers are unique in it."""

    number: int
    run: Path
    label: str
    rank: int


@dataclass(frozen=True, slots=True)
class Source:
    """A segment: ``origin`` is its number in the query; ``attached`` whether SQLite has its file open."""

    origin: int
    path: Path
    place: Place
    attached: bool = False

    @property
    def schema(self) -> str:
        """The name under which the file is attached."""
        return f"segment_{self.origin}"


class Sources:
    """The segments of some runs and what the query's tables say about them."""

    def __init__(self, connection: sqlite3.Connection, runs: Sequence[Path], selection: Selection) -> None:
        self._connection = connection
        self._selection = selection
        self._runs = list(zip(runs, run_labels(runs), strict=True))
        self._places: list[tuple[Path, str, int]] = []
        for run, label in self._runs:
            with read_run(run) as record:
                self._places += [(run, label, rank) for rank in selection.ranks_of(record.ranks)]
        self._extents = [extent(run, rank) for run, _, rank in self._places]
        self._places_with_replaced: set[int] = set()
        found = [
            (path, Place(number, *place))
            for number, place in enumerate(self._places)
            for path in layout.segments(layout.rank_folder(place[0], place[2]))
        ]
        self._sources = [Source(origin, path, place) for origin, (path, place) in enumerate(found)]
        self.run_of_origin = [source.place.run for source in self._sources]

    def prepare(self) -> None:
        """Makes the tables, and attaches the largest segments."""
        connection = self._connection
        connection.executescript(views.TABLES + views.copies())
        ready = [source for source in self._sources if self._list_series(source)]
        by_size = sorted(ready, key=lambda source: source.path.stat().st_size, reverse=True)
        most = connection.getlimit(sqlite3.SQLITE_LIMIT_ATTACHED) - 1  # one is for copying from
        chosen = {source.origin for source in by_size[:most]}
        self._sources = [replace(source, attached=source.origin in chosen) for source in ready]
        for source in self._sources:
            if source.attached:
                self._attach(source)
        self._make_views()

    def load(self, tables: set[str], check_time: Callable[[], None]) -> None:
        """Fills the tables that a query reads; ``check_time`` is called now and then, and may raise."""
        stored = [table for table in views.CONTENT if f"copied_{table}" in tables]
        if "runs" in tables:
            self._load_runs()
        if "series" in tables:
            self._load_series()
        if "attempts" in tables:
            self._load_attempts()
        if stored:
            self._find_replaced(stored, check_time)
            for source in self._sources:
                if not source.attached:
                    check_time()
                    self._copy(source, stored, check_time)

    def _make_views(self) -> None:
        selects = {
            table: [self._select(table, source) for source in self._sources if source.attached]
            for table in views.CONTENT
        }
        self._connection.executescript(views.views(selects))

    def _select(self, table: str, source: Source) -> str:
        steps = (self._selection.first_step, self._selection.last_step)
        place = source.place.number if source.place.number in self._places_with_replaced else None
        last_seq = self._extents[source.place.number].last_seq
        return views.select_rows(table, source.schema, source.origin, steps=steps, last_seq=last_seq, replaced_in=place)

    def _list_series(self, source: Source) -> bool:
        """Notes which series of a segment are wanted; false for a segment that has no tables yet."""
        with opened_segment(source.path, source.place.run) as segment:
            if segment is None:
                return False
            place = source.place
            self._connection.executemany(
                "INSERT INTO wanted VALUES (?,?,?,?,?,?)",
                [
                    (source.origin, number, place.label, place.rank, kind, name)
                    for number, (kind, name) in segment.series().items()
                    if self._selection.has_name(name)
                ],
            )
            return True

    def _attach(self, source: Source) -> None:
        statement = f"ATTACH ? AS {source.schema}"
        uri = f"{source.path.resolve().as_uri()}?mode=ro"
        try:
            try:
                self._connection.execute(statement, (uri,))
            except sqlite3.OperationalError:
                if os.access(source.path.parent, os.W_OK):
                    raise
                # As for any reader: WAL needs shared memory beside the file, and this medium cannot be written.
                self._connection.execute(statement, (f"{uri}&immutable=1",))
        except sqlite3.Error as error:
            source.path.stat()
            raise RunError(f"cannot read {source.path}: {error}") from error

    def _copy(self, source: Source, tables: Sequence[str], check_time: Callable[[], None]) -> None:
        self._attach(source)
        try:
            for table in tables:
                self._connection.execute(f"INSERT INTO main.copied_{table} {self._select(table, source)}")
        except sqlite3.DatabaseError as error:
            check_time()
            raise RunError(f"cannot read {source.path}: {error}") from error
        finally:
            self._connection.execute(f"DETACH {source.schema}")

    def _find_replaced(self, tables: Sequence[str], check_time: Callable[[], None]) -> None:
        kinds = frozenset(kind for kind in SHOWN_BY_STEP if table_of(kind) in tables)
        for number, (run, _, rank) in enumerate(self._places):
            selection = replace(self._selection, kinds=kinds)
            until = self._extents[number]
            try:
                latest = LatestAttempts(run, rank, selection, until)
                if latest.names:
                    for _, rows in read_rows(run, rank, replace(selection, names=latest.names), until):
                        check_time()
                        self._note_replaced(number, rows.seqs[latest.replaced(rows)].tolist())
            except sqlite3.Error as error:
                raise RunError(f"cannot read the run {run}: {error}") from error
        if self._places_with_replaced:
            self._make_views()

    def _note_replaced(self, place: int, seqs: Sequence[int]) -> None:
        self._connection.executemany("INSERT INTO replaced VALUES (?,?)", [(place, seq) for seq in seqs])
        if seqs:
            self._places_with_replaced.add(place)

    def _load_runs(self) -> None:
        for run, label in self._runs:
            with read_run(run) as record:
                manifest = record.manifest
            info = manifest.info
            about = (list(info.tags), info.config, dict(info.environment))
            texts = [json.dumps(value, ensure_ascii=False) for value in about]
            row = (label, info.id, info.name, info.status, info.created_ns, manifest.ended_ns, *texts, readable(run))
            self._connection.execute("INSERT INTO runs VALUES (?,?,?,?,?,?,?,?,?,?)", row)

    def _load_series(self) -> None:
        for run, label, rank in self._places:
            with read_run(run) as record:
                self._connection.executemany(
                    "INSERT INTO series VALUES (?,?,?,?,?,?,?)",
                    [
                        (label, rank, info.kind, info.name, info.count, info.last_step, info.last_value)
                        for info in record.names(rank)
                        if self._selection.has_name(info.name)
                    ],
                )

    def _load_attempts(self) -> None:
        for source in self._sources:
            with opened_segment(source.path, source.place.run) as segment:
                assert segment is not None
                rows = attempts_of(segment)
            self._connection.executemany(
                "INSERT OR IGNORE INTO attempts VALUES (?,?,?,?)",
                [(source.place.label, source.place.rank, *row) for row in rows],
            )
