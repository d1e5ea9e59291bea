"""RunRecord: what a run holds, read by name. Needs neither torch nor a tracker."""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import Alert, Artifact, File, Histogram, Image, Page, RunInfo, Table, Text
from tracker_adapters.errors import ArtifactError, DamagedError, NotARunError, RunError, StepscopeError, UnsafeFileError
from tracker_adapters.store import layout
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.manifest import Manifest, load_manifest
from tracker_adapters.store.reading.attempts import latest
from tracker_adapters.store.reading.ranges import ScalarRanges, read_ranges
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.segments.codec import ARTIFACT_COLUMNS, DAMAGED, decode_artifact
from tracker_adapters.store.segments.histogram_codec import decode
from tracker_adapters.store.segments.opened import Segment, histogram_rows
from tracker_adapters.store.segments.schema import table_of
from tracker_adapters.store.segments.soundness import floats, integers, sound_rows

logger = logging.getLogger(__name__)

Rank: TypeAlias = int | Literal["all"]
A = TypeVar("A", bound=Artifact)
T = TypeVar("T")
P = ParamSpec("P")


@dataclass(frozen=True, slots=True)
class NameInfo:
    """One name of a run. ``last_step`` is its highest step; ``last_value`` is for scalars, else None.

    ``count`` is how many were recorded, also where compaction left fewer.
    """

    name: str
    kind: str
    count: int
    last_step: int
    last_value: float | None = None


@dataclass(frozen=True, slots=True)
class ScalarSeries:
    """One scalar by step: ``steps`` and ``times_ns`` int64, ``values`` float64, all of shape (n,), by step.

    ``ranks`` (int64) is there when several ranks were asked for.
    """

    steps: npt.NDArray[np.int64]
    times_ns: npt.NDArray[np.int64]
    values: npt.NDArray[np.float64]
    ranks: npt.NDArray[np.int64] | None = None

    def __len__(self) -> int:
        return len(self.steps)


def _naming_the_run(read: Callable[Concatenate[RunRecord, P], T]) -> Callable[Concatenate[RunRecord, P], T]:
    """SQLite's errors say that a database is damaged, but not which."""

    @wraps(read)
    def reading(self: RunRecord, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(self, *args, **kwargs)
        except sqlite3.DatabaseError as error:
            raise RunError(f"cannot read the run {self.path}: {error}") from error
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            if isinstance(error, StepscopeError):
                raise
            raise DamagedError(f"the run {self.path} is damaged: {error!r}") from error

    return reading


class RunRecord:
    """A run as it is stored now; it may still be written. Close it, or use it as a context manager.

    Where a run was resumed and a step was recorded again, the latest attempt at that step is returned. What reads the
    store raises RunError when it is damaged.
    """

    def __init__(self, run_folder: str | Path) -> None:
        """Raises NotARunError when the folder holds no run."""
        self.path = Path(run_folder).absolute()
        load_manifest(self.path)
        self.ranks = tuple(layout.ranks(self.path))
        self.damaged = 0
        """How many rows, files and segments were left out so far because they are damaged or gone."""
        self._readers = {rank: StoreReader(self.path, rank) for rank in self.ranks}

    @property
    def manifest(self) -> Manifest:
        """What run.json says now; a run whose process died is ``failed``."""
        manifest = load_manifest(self.path)
        if manifest.info.status == "running" and not self.is_live:
            return manifest.with_status("failed")
        return manifest

    @property
    def info(self) -> RunInfo:
        """The run's identity, configuration, tags and status."""
        return self.manifest.info

    @property
    def is_live(self) -> bool:
        """Whether a process is writing to the run."""
        return any(is_locked(layout.rank_folder(self.path, rank) / layout.WRITER_LOCK) for rank in self.ranks)

    @_naming_the_run
    def names(self, rank: Rank = 0) -> list[NameInfo]:
        """Returns every name with its kind and count, by name."""
        found: dict[tuple[str, str], NameInfo] = {}
        for _, segment in self._segments(rank):
            table, _ = segment.ranges(fine=False)
            series = segment.series()
            # SQLite takes a bare column from the row that holds the maximum.
            rows = segment.connection.execute(
                f"SELECT series, sum(count), max(last_step), last_value FROM {table} "
                "GROUP BY is_late, series ORDER BY is_late"
            ).fetchall()
            for number, count, last_step, last_value in rows:
                kind, name = series.get(number, ("", ""))
                if not kind or type(count) is not int or type(last_step) is not int:
                    self._note_damage(1)
                    continue
                if kind != "scalar":
                    last_value = None
                elif type(last_value) is not float:
                    last_value = float("nan")
                key = (name, kind)
                old = found.get(key)
                if old is not None:
                    count += old.count
                    if old.last_step > last_step:
                        last_step, last_value = old.last_step, old.last_value
                found[key] = NameInfo(name, kind, count, last_step, last_value)
        return [found[key] for key in sorted(found)]

    def scalars(self, name: str, rank: Rank = 0) -> ScalarSeries:
        """Returns one scalar's series by step; ``rank="all"`` adds ``.ranks`` and averages nothing.

        Raises:
            ArtifactError: When the run has no scalar of that name.
        """
        columns, order, ranks = self._latest(rank, name, "scalar")
        _, _, _, steps, times_ns, values = columns
        return ScalarSeries(
            steps=np.array(steps, dtype=np.int64)[order],
            times_ns=np.array(times_ns, dtype=np.int64)[order],
            values=np.array(values, dtype=np.float64)[order],  # NULL becomes NaN
            ranks=ranks if rank == "all" else None,
        )

    @_naming_the_run
    def scalar_ranges(self, name: str, rank: int = 0, *, max_ranges: int | None = None) -> ScalarRanges:
        """Returns the roll-ups of one scalar, for long series and heat maps.

        Each covers 256 steps, or more where compaction made them coarser.

        Args:
            name: The scalar.
            rank: Whose.
            max_ranges: Join neighbours, two by two, until at most this many are left; at least 1. The overview of a
                long run is then read from its segments' summaries.

        Raises:
            ArtifactError: When the run has no scalar of that name.
        """
        segments = [
            (segment, number)
            for _, segment in self._segments(rank)
            if (number := _series_number(segment, "scalar", name)) is not None
        ]
        if not segments:
            raise self._no_such("scalar", name)
        return read_ranges(segments, max_ranges)

    def histograms(self, name: str, rank: Rank = 0) -> list[Histogram]:
        """Returns the histograms of one name by step."""
        rows = self._latest_rows(rank, name, "histogram")
        return list(histogram_rows(rows, [name] * len(rows)))

    def images(self, name: str, rank: Rank = 0) -> list[Image]:
        """Returns the images of one name by step."""
        return self._artifacts(Image, name, rank)

    def texts(self, name: str, rank: Rank = 0) -> list[Text]:
        """Returns the texts of one name by step."""
        return self._artifacts(Text, name, rank)

    def tables(self, name: str, rank: Rank = 0) -> list[Table]:
        """Returns the tables of one name by step."""
        return self._artifacts(Table, name, rank)

    def alerts(self, rank: Rank = "all") -> list[Alert]:
        """Returns all alerts in order of arrival."""
        return self._in_order(Alert, rank)

    def pages(self, rank: Rank = "all") -> list[Page]:
        """Returns all pages in order of arrival; their paths point into the run's folder."""
        return self._in_order(Page, rank)

    def files(self, rank: Rank = "all") -> list[File]:
        """Returns all files in order of arrival; their paths point into the run's folder."""
        return self._in_order(File, rank)

    def __repr__(self) -> str:
        try:
            info = self.info
            return f"<RunRecord {str(self.path)!r}: {info.name!r}, {info.status}, {len(self.names('all'))} names>"
        except (RunError, OSError) as error:
            return f"<RunRecord {str(self.path)!r}: {error}>"

    def close(self) -> None:
        """Closes the files that are open."""
        for reader in self._readers.values():
            reader.close()

    def __enter__(self) -> RunRecord:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    def _segments(self, rank: Rank) -> Iterator[tuple[int, Segment]]:
        if rank != "all" and rank not in self._readers:
            if rank == 0 and not self._readers:
                return
            raise NotARunError(f"{self.path} has no rank {rank!r}; expected 'all' or one of {list(self.ranks)}")
        for number in self.ranks if rank == "all" else (rank,):
            reader = self._readers[number]
            before = len(reader.damage())
            segments = reader.segments()
            self._note_damage(len(reader.damage()) - before)
            for segment in segments:
                yield number, segment

    @_naming_the_run
    def _latest(
        self, rank: Rank, name: str, kind: str
    ) -> tuple[list[tuple[Any, ...]], npt.NDArray[np.int64], npt.NDArray[np.int64]]:
        """The columns of one series, the places of its rows that no later attempt replaced, and the ranks of these.

        The places come by step and arrival.
        """
        rows: list[Any] = []
        counts, sources = [], []
        found_damaged = self.damaged
        for rank_number, segment in self._segments(rank):
            number = _series_number(segment, kind, name)
            if number is not None:
                found = self._sound(segment, kind, segment.rows_of(kind, number, self._note_damage))
                rows += found
                counts.append(len(found))
                sources.append((rank_number, segment.level > 0))
        if not rows and self.damaged > found_damaged:
            raise DamagedError(f"all of {kind} {name!r} in {self.path} is damaged")
        if not rows:
            raise self._no_such(kind, name)
        ranks, compacted = np.repeat(np.array(sources, np.int64), counts, axis=0).T
        columns = list(zip(*rows, strict=True))
        order = latest(
            seqs=np.array(columns[0], np.int64),
            attempts=np.array(columns[2], np.int64),
            steps=np.array(columns[3], np.int64),
            ranks=ranks,
            compacted=compacted.astype(np.bool_),
        )
        return columns, order, ranks[order]

    def _latest_rows(self, rank: Rank, name: str, kind: str) -> list[tuple[Any, ...]]:
        columns, order, _ = self._latest(rank, name, kind)
        rows = list(zip(*columns, strict=True))
        return [rows[place] for place in order.tolist()]

    def _artifacts(self, cls: type[A], name: str, rank: Rank) -> list[A]:
        found = [self._decoded(cls, name, row) for row in self._latest_rows(rank, name, cls.kind)]
        artifacts = [artifact for artifact in found if artifact is not None]
        if not artifacts:
            raise DamagedError(f"all {len(found)} of {cls.kind} {name!r} in {self.path} are gone or damaged")
        return artifacts

    def _decoded(self, cls: type[A], name: str, row: Any) -> A | None:
        """An artifact; None, counted, when it is gone or damaged."""
        try:
            return _of_type(cls, decode_artifact(cls.kind, name, row, self.path))
        except (FileNotFoundError, UnsafeFileError, *DAMAGED) as error:
            logger.warning("%s %r at step %s of %s is left out: %s", cls.kind, name, row[3], self.path, error)
            self._note_damage(1)
            return None

    def _sound(self, segment: Segment, kind: str, rows: list[Any]) -> list[Any]:
        """The rows that are as they were written; looking at each takes a while, so that whole columns come first."""
        table = table_of(kind)
        try:
            columns = list(zip(*rows, strict=True))
            for column in columns[:5]:
                integers(column)
            if table == "scalar":
                floats(columns[5] if columns else ())
            elif table == "histogram" and columns:
                decode(columns[5])
        except DAMAGED:
            sound = sound_rows(table, rows, segment.series())
            self._note_damage(len(rows) - len(sound))
            return sound
        return rows

    def _note_damage(self, count: int) -> None:
        if count and not self.damaged:
            logger.warning("%s holds damaged rows, which are left out", self.path)
        self.damaged += count

    @_naming_the_run
    def _in_order(self, cls: type[A], rank: Rank) -> list[A]:
        rows: list[tuple[Any, str, int]] = []
        arrived: dict[int, int] = {}
        for number, segment in self._segments(rank):
            found = segment.connection.execute(
                f"SELECT {ARTIFACT_COLUMNS} FROM artifact "
                "WHERE series IN (SELECT id FROM series WHERE kind = ?) ORDER BY seq",
                (cls.kind,),
            ).fetchall()
            for row in self._sound(segment, cls.kind, found):
                # A clock that jumps back changes nothing in the order within its rank.
                arrived[number] = max(arrived.get(number, 0), row[4])
                rows.append((row, segment.series()[row[1]][1], arrived[number]))
        if rank == "all":
            rows.sort(key=lambda item: item[2])
        found_artifacts = [self._decoded(cls, name, row) for row, name, _ in rows]
        return [artifact for artifact in found_artifacts if artifact is not None]

    def _no_such(self, kind: str, name: str) -> ArtifactError:
        import difflib

        known = [info.name for info in self.names("all") if info.kind == kind]
        close = difflib.get_close_matches(name, known, n=3, cutoff=0.4)
        hint = (
            f"; did you mean {' or '.join(map(repr, close))}?" if close else f"; it has {len(known)} names of that kind"
        )
        return ArtifactError(f"{self.path} has no {kind} {name!r}{hint}")


def _series_number(segment: Segment, kind: str, name: str) -> int | None:
    row = segment.connection.execute("SELECT id FROM series WHERE kind = ? AND name = ?", (kind, name)).fetchone()
    return row[0] if row else None


def _of_type(cls: type[A], artifact: Artifact) -> A:
    assert isinstance(artifact, cls)
    return artifact
