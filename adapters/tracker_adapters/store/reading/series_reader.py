"""Reads the rows of one series, or the artifacts of one kind, out of all segments of a run."""

from __future__ import annotations

import hashlib
import logging
import sqlite3
import zlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import wraps
from pathlib import Path
from typing import Any, Concatenate, Literal, ParamSpec, Protocol, Self, TypeAlias, TypeVar

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import Artifact
from tracker_adapters.errors import ArtifactError, DamagedError, NotARunError, RunError, StepscopeError, UnsafeFileError
from tracker_adapters.store import layout
from tracker_adapters.store.manifest import load_manifest
from tracker_adapters.store.reading.attempts import latest
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.segments.codec import ARTIFACT_COLUMNS, DAMAGED, decode_artifact
from tracker_adapters.store.segments.histogram_codec import decode
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.schema import table_of
from tracker_adapters.store.segments.soundness import floats, integers, sound_rows

logger = logging.getLogger(__name__)

Rank: TypeAlias = int | Literal["all"]
_LONGEST_POSITION = 64
_MOST_OPEN = 64
"""Ranks whose segments stay open; of more, those of one at a time: each takes three files."""
A = TypeVar("A", bound=Artifact)
T = TypeVar("T")
P = ParamSpec("P")
R = TypeVar("R", bound="_OfARun")


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


class _OfARun(Protocol):
    path: Path


def naming_the_run(read: Callable[Concatenate[R, P], T]) -> Callable[Concatenate[R, P], T]:
    """Returns the method with errors that name the run: SQLite's say that a database is damaged, but not which."""

    @wraps(read)
    def reading(self: R, /, *args: P.args, **kwargs: P.kwargs) -> T:
        try:
            return read(self, *args, **kwargs)
        except sqlite3.DatabaseError as error:
            raise RunError(f"cannot read the run {self.path}: {error}") from error
        except (ValueError, TypeError, LookupError, OverflowError) as error:
            if isinstance(error, StepscopeError):
                raise
            raise DamagedError(f"the run {self.path} is damaged: {error!r}") from error

    return reading


class SeriesReader:
    """The part of ``RunRecord`` that reads rows; it leaves out what is damaged, and counts it."""

    def __init__(self, run_folder: str | Path) -> None:
        """Raises NotARunError when the folder holds no run."""
        self.path = Path(run_folder).absolute()
        load_manifest(self.path)
        self.ranks = tuple(layout.ranks(self.path))
        self.damaged = 0
        """Number of rows, files and segments that were skipped so far because they are damaged or missing."""
        self._readers = {rank: StoreReader(self.path, rank) for rank in self.ranks}
        self._open_rank = -1
        """Of many ranks the one whose files may be open."""
        self._names: dict[int, tuple[object, list[NameInfo]]] = {}
        """The names of a rank, and how far its store was."""

    def close(self) -> None:
        """Closes the files that are open."""
        for reader in self._readers.values():
            reader.close()

    def let_go(self, rank: int) -> None:
        """Closes the files of one rank, which the next read opens again: a run may have more ranks than files open."""
        if rank in self._readers:
            self._readers[rank].close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()

    @naming_the_run
    def names(self, rank: Rank = 0) -> list[NameInfo]:
        """Returns every name with its kind and count, by name."""
        if rank == "all" or rank not in self._readers:
            return self._names_until(rank)[0]
        # A verdict asks for them seven times, and a run may have thousands.
        reached = self._readers[rank].last_seq(), layout.segments(layout.rank_folder(self.path, rank))
        if rank not in self._names or self._names[rank][0] != reached:
            self._names[rank] = reached, self._names_until(rank)[0]
        return list(self._names[rank][1])

    def _names_until(self, rank: Rank) -> tuple[list[NameInfo], int]:
        """The names, and the highest sequence number that they count."""
        last_seq = 0
        found: dict[tuple[str, str], NameInfo] = {}
        for _, segment in self._segments(rank):
            table, _ = segment.ranges(fine=False)
            with segment.transaction():
                series = segment.series()
                last_seq = max(last_seq, segment.last_seq())
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
        return [found[key] for key in sorted(found)], last_seq

    @naming_the_run
    def position(self) -> str:
        """Returns a text that changes with each commit and compaction; it takes a few database pages per rank."""
        lasts = []
        for rank, reader in self._readers.items():
            names = [path.name for path in layout.segments(layout.rank_folder(self.path, rank))]
            compacted = zlib.crc32("/".join(name for name in names if "-" in name).encode())
            lasts.append(f"{reader.last_seq()}{f'.{compacted:x}' if compacted else ''}")
            if len(self.ranks) > _MOST_OPEN:
                reader.close()
        position = "_".join(lasts)
        if len(position) > _LONGEST_POSITION:
            return hashlib.sha256(position.encode()).hexdigest()[:16]
        return position

    def _segments(self, rank: Rank) -> Iterator[tuple[int, Segment]]:
        if rank != "all" and rank not in self._readers:
            if rank == 0 and not self._readers:
                return
            raise NotARunError(f"{self.path} has no rank {rank!r}; expected 'all' or one of {list(self.ranks)}")
        for number in self.ranks if rank == "all" else (rank,):
            reader = self._readers[number]
            # Whoever has collected the segments of one rank reads them until another one is asked for.
            if len(self.ranks) > _MOST_OPEN and self._open_rank != number:
                self.let_go(self._open_rank)
                self._open_rank = number
            before = len(reader.damage())
            segments = reader.segments()
            self._note_damage(len(reader.damage()) - before)
            for segment in segments:
                yield number, segment

    @naming_the_run
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
            number = series_number(segment, kind, name)
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
            logger.warning("%s %r at step %s of %s is skipped: %s", cls.kind, name, row[3], self.path, error)
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
            logger.warning("%s has damaged rows, which are skipped", self.path)
        self.damaged += count

    @naming_the_run
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


def series_number(segment: Segment, kind: str, name: str) -> int | None:
    """Returns the number of a series in a segment; None when it has no such series."""
    row = segment.connection.execute("SELECT id FROM series WHERE kind = ? AND name = ?", (kind, name)).fetchone()
    return row[0] if row else None


def _of_type(cls: type[A], artifact: Artifact) -> A:
    assert isinstance(artifact, cls)
    return artifact
