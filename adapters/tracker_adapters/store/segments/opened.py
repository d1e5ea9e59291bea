"""One segment, open for reading: its series, its roll-ups, and its rows as batches."""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import Artifact
from tracker_adapters.batch import Batch, Column, HistogramRows, ScalarColumns
from tracker_adapters.errors import UnsafeFileError
from tracker_adapters.store.layout import is_checksum
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import (
    ARTIFACT_COLUMNS,
    DAMAGED,
    HISTOGRAM_COLUMNS,
    SCALAR_COLUMNS,
    decode_artifact,
)
from tracker_adapters.store.segments.histogram_codec import decode
from tracker_adapters.store.segments.meta import segment_meta, stored_last_seq
from tracker_adapters.store.segments.soundness import floats, integers, salvaged, sound_rows, sound_series

MAX_PAYLOAD_BYTES = 16 * 1024 * 1024


class Segment:
    """One segment, open for reading."""

    def __init__(self, connection: sqlite3.Connection, run_folder: Path) -> None:
        self.connection = connection
        self._run_folder = run_folder
        self._series: dict[int, tuple[str, str]] = {}
        self._last_series = 0
        self._meta = segment_meta(connection)
        self.first_seq = self._meta["first_seq"]

    @property
    def level(self) -> int:
        """How often the content was thinned by half; 0 for a segment as it was written."""
        return self._meta.get("level", 0)

    def last_seq(self) -> int:
        """Number of the last artifact committed here, 0 when there is none."""
        if "last_seq" in self._meta:
            return self._meta["last_seq"]
        return stored_last_seq(self.connection)

    def ranges(self, *, fine: bool, scalars: bool = False) -> tuple[str, int]:
        """Returns the table of roll-ups, for a FROM clause, and the binary logarithm of the steps that each row covers.

        Args:
            fine: Whether the finest are wanted; else the summary, where there is one.
            scalars: Whether only those of scalars are wanted, which take less time while a segment is written.
        """
        if "last_seq" not in self._meta:
            return schema.OPEN_SCALAR_RANGES if scalars else schema.OPEN_RANGES, schema.ROLLUP_SHIFT
        table = "rollup" if fine else "summary"
        return schema.SEALED_RANGES[table], self._meta[f"{table}_shift"]

    def series(self) -> dict[int, tuple[str, str]]:
        """The (kind, name) of every series number."""
        rows = self.connection.execute(
            "SELECT id, kind, name FROM series WHERE id > ? ORDER BY id", (self._last_series,)
        ).fetchall()
        if rows:
            self._last_series = rows[-1][0]
            self._series.update(sound_series(rows))
        return self._series

    def rows_of(self, kind: str, number: int, on_loss: Callable[[int], None] = lambda count: None) -> list[Any]:
        """The rows of one series, in no order, without those whose pages are damaged; see ``salvaged``."""
        table = schema.table_of(kind)
        statement = schema.select_series(table, ", ".join(schema.COLUMNS[table]))
        return salvaged(
            lambda first, last: self.connection.execute(statement, (first, last, number)).fetchall(),
            self.first_seq >> schema.GROUP_SHIFT,
            self.last_seq() >> schema.GROUP_SHIFT,
            on_loss,
        )

    def blobs_of(self, kind: str, name: str | None) -> Iterator[str]:
        """Yields the checksums of the files beside the store that artifacts of a kind, and of a name, refer to."""
        rows = self.connection.execute(
            "SELECT DISTINCT blob FROM artifact WHERE blob IS NOT NULL"
            " AND series IN (SELECT id FROM series WHERE kind = ?1 AND coalesce(name = ?2, true))",
            (kind, name),
        )
        yield from (sha256 for (sha256,) in rows if is_checksum(sha256))

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """One consistent view; an open reader makes the WAL grow, so it must be short."""
        self.connection.execute("BEGIN")
        try:
            yield
        finally:
            self.connection.execute("ROLLBACK")

    def read(self, after: int, max_rows: int, *, leave_out_unreadable: bool = False) -> Batch | None:
        """The next batch of this segment after a sequence number.

        Raises:
            FileNotFoundError: When a file beside the store is gone, unless ``leave_out_unreadable``; damaged content
                raises what decoding it does.
        """
        with self.transaction():
            last = min(self.last_seq(), after + max_rows)
            if last <= after:
                return None
            started = self.connection.execute(
                "SELECT attempt, first_seq FROM attempt ORDER BY first_seq, attempt"
            ).fetchall()
            started = [row for row in started if all(type(value) is int for value in row)]
            attempt = max((number for number, first in started if first <= after + 1), default=1)
            # An attempt that stored nothing starts where the next one does.
            last = min([last, *(first - 1 for _, first in started if first > after + 1)])
            series = self.series()
            others: dict[str, tuple[list[int], list[Artifact]]] = defaultdict(lambda: ([], []))
            payload = unreadable = 0
            for row in self._artifact_rows(after + 1, last, leave_out_unreadable):
                kind, name = series[row[1]]
                try:
                    artifact = decode_artifact(kind, name, row, self._run_folder, check_files=True)
                except (FileNotFoundError, UnsafeFileError, *DAMAGED):
                    if not leave_out_unreadable:
                        raise
                    unreadable += 1
                    continue
                seqs, artifacts = others[f"{kind}s"]
                artifacts.append(artifact)
                seqs.append(row[0])
                payload += artifact.nbytes
                if payload > MAX_PAYLOAD_BYTES:
                    last = row[0]
                    break
            found = {
                table: self._rows_between(table, columns, after + 1, last, leave_out_unreadable)
                for table, columns in (("histogram", HISTOGRAM_COLUMNS), ("scalar", SCALAR_COLUMNS))
            }
        columns: dict[str, Any] = {key: Column(*pair) for key, pair in others.items()}
        if histograms := found["histogram"]:
            rows = histogram_rows(histograms, _names(series, "histogram", [row[1] for row in histograms]))
            columns["histograms"] = Column([row[0] for row in histograms], rows)
        batch = Batch(
            first_seq=after + 1,
            last_seq=last,
            attempt=attempt,
            scalars=_scalar_columns(found["scalar"], series),
            **columns,
        )
        missing = last - after - len(batch)
        if not self.level:  # where nothing was compacted, what is not here is damaged
            unreadable = missing
        absent = missing - unreadable
        return replace(batch, absent=absent, unreadable=unreadable) if missing else batch

    def _artifact_rows(self, first: int, last: int, leave_out_unreadable: bool) -> Iterable[Any]:
        if leave_out_unreadable:
            return self._rows_between("artifact", ARTIFACT_COLUMNS, first, last, leave_out_unreadable)
        statement = f"SELECT {ARTIFACT_COLUMNS} FROM artifact WHERE seq BETWEEN ?1 AND ?2 ORDER BY seq"
        found: Iterable[Any] = self.connection.execute(statement, (first, last))
        return found

    def _rows_between(self, table: str, columns: str, first: int, last: int, leave_out_unreadable: bool) -> list[Any]:
        statement = f"SELECT {columns} FROM {table} WHERE {schema.between(table)} ORDER BY {schema.in_order(table)}"

        def fetch(start: int, end: int) -> list[Any]:
            found: list[Any] = self.connection.execute(statement, (start, end)).fetchall()
            return found

        if not leave_out_unreadable:
            return fetch(first, last)
        return sound_rows(table, salvaged(fetch, first, last), self.series())


def histogram_rows(rows: Sequence[Any], names: Sequence[str]) -> HistogramRows:
    """Returns the histograms of rows of HISTOGRAM_COLUMNS.

    Raises:
        RunError: When a row holds no histogram.
    """
    _, _, _, steps, times_ns, blobs = zip(*rows, strict=True)
    return HistogramRows(names, integers(steps), integers(times_ns), decode(blobs))


def _scalar_columns(rows: list[Any], series: dict[int, tuple[str, str]]) -> ScalarColumns:
    if not rows:
        return ScalarColumns.of(())
    seqs, numbers, _, steps, times_ns, values = zip(*rows, strict=True)
    return ScalarColumns(
        seqs=integers(seqs),
        names=_names(series, "scalar", numbers),
        steps=integers(steps),
        times_ns=integers(times_ns),
        values=floats(values),
    )


def _names(series: dict[int, tuple[str, str]], kind: str, numbers: Iterable[int]) -> list[str]:
    """The names of series of a kind; raises KeyError for another one's number."""
    found = [series[number] for number in numbers]
    if any(of != kind for of, _ in found):
        raise KeyError(f"a row belongs to no {kind}")
    return [name for _, name in found]
