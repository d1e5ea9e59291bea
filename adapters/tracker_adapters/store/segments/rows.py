"""Turns what is committed together into rows, and inserts many rows a statement.

The interpreter's lock is given away for each statement and must be got back from the training loop: one statement for
128 rows costs it a hundredth of what one a row does.
"""

import sqlite3
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain, repeat
from typing import Any

from tracker_adapters.artifacts import Artifact, Histogram, Scalar, StoredFile
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.faults import fault_in
from tracker_adapters.recording import Block, HistogramBlock, ScalarBlock, Storable
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import StoreBlob, artifact_values
from tracker_adapters.store.segments.histogram_codec import encode
from tracker_adapters.values.name_sequences import MAX_SEQUENCES

MAX_ROWS_A_STATEMENT = 128  # of 6 values each: SQLite before 3.32 takes at most 999
_statement = cache(schema.insert)


class SeriesNumbers:
    """The number of each kind and name in a segment; new ones are numbered in the order in which they come."""

    def __init__(self, known: Iterable[tuple[str, str, int]] = ()) -> None:
        """Takes ``(kind, name, number)`` of the series that the segment has, numbered from 1."""
        self._numbers = {(kind, name): number for kind, name, number in known}
        self._of_names: dict[tuple[str, tuple[str, ...]], list[int]] = {}
        self._stored = len(self._numbers)

    def one(self, kind: str, name: str) -> int:
        """Returns the number of a series."""
        key = (kind, name)
        number = self._numbers.get(key)
        if number is None:
            number = self._numbers[key] = len(self._numbers) + 1
        return number

    def many(self, kind: str, names: tuple[str, ...]) -> list[int]:
        """Returns the numbers of several series of a kind."""
        numbers = self._of_names.get((kind, names))
        if numbers is None:
            if len(self._of_names) >= MAX_SEQUENCES:
                self._of_names.clear()
            numbers = self._of_names[kind, names] = [self.one(kind, name) for name in names]
        return numbers

    def unstored(self) -> list[tuple[int, str, str]]:
        """Returns the rows of the series that are new since ``mark_stored``."""
        if len(self._numbers) == self._stored:
            return []
        return [(number, *key) for key, number in self._numbers.items() if number > self._stored]

    def mark_stored(self) -> None:
        """Notes that all series are in the segment now."""
        self._stored = len(self._numbers)


class Rows:
    """The rows of one commit: each table's values in one flat list."""

    def __init__(self, series: SeriesNumbers, attempt: int, last_seq: int, store_blob: StoreBlob) -> None:
        self.last_seq = last_seq
        self.beside_bytes = 0
        """What the files take that lie beside the store."""
        self.values: dict[str, list[Any]] = {table: [] for table in schema.WIDTHS}
        self._series = series
        self._attempt = attempt
        self._store_blob = store_blob

    def add(self, items: Sequence[Storable]) -> None:
        """Numbers the items in their order.

        Raises:
            OSError: When a payload could not be written.
            ArtifactError: For an artifact that no row can hold.
        """
        scalars, attempt = self.values["scalar"], self._attempt
        histograms: list[tuple[int, Histogram]] = []
        for item in items:
            if isinstance(item, tuple):
                self.last_seq += 1
                name, step, time_ns, value = item
                scalars += (self.last_seq, self._series.one(Scalar.kind, name), attempt, step, time_ns, value)
            elif isinstance(item, ScalarBlock):
                self._add_block(Scalar.kind, item, item.values.tolist())
            elif isinstance(item, HistogramBlock):
                self._add_block(Histogram.kind, item, encode(item.columns))
            else:
                self.last_seq += 1
                if isinstance(item, Histogram):
                    histograms.append((self.last_seq, item))
                elif isinstance(item, Scalar):
                    scalars += (*self._start(self.last_seq, item), item.value)
                else:
                    others = artifact_values(item, self._counted_blob)
                    self.values["artifact"] += (*self._start(self.last_seq, item), *others)
                    if isinstance(item, StoredFile):
                        self.beside_bytes += item.size
        if histograms:
            self._add_histograms(histograms)

    def insert(self, connection: sqlite3.Connection) -> None:
        """Inserts the rows; the caller holds the transaction."""
        for table, values in self.values.items():
            _insert(connection, table, values)

    def _counted_blob(self, content: bytes) -> str:
        self.beside_bytes += len(content)
        return self._store_blob(content)

    def _start(self, seq: int, artifact: Artifact) -> tuple[int, ...]:
        return (seq, self._series.one(artifact.kind, artifact.name), self._attempt, artifact.step, artifact.time_ns)

    def _add_block(self, kind: str, block: Block, data: Iterable[Any]) -> None:
        seqs = range(self.last_seq + 1, self.last_seq + 1 + len(block))
        numbers = self._series.many(kind, block.names)
        fixed = (repeat(self._attempt), repeat(block.step), repeat(block.time_ns))
        self.values[kind].extend(chain.from_iterable(zip(seqs, numbers, *fixed, data, strict=False)))
        self.last_seq = seqs[-1]

    def _add_histograms(self, numbered: Sequence[tuple[int, Histogram]]) -> None:
        columns = HistogramColumns.of([histogram for _, histogram in numbered])
        fault = fault_in(columns)
        if fault is not None:
            raise ArtifactError(f"histogram {numbered[fault[0]][1].name!r}: {fault[1]}")
        for (seq, histogram), blob in zip(numbered, encode(columns), strict=True):
            self.values[Histogram.kind] += (*self._start(seq, histogram), blob)


def _insert(connection: sqlite3.Connection, table: str, values: list[Any]) -> None:
    width = schema.WIDTHS[table]
    rows, done = len(values) // width, 0
    at_once = MAX_ROWS_A_STATEMENT
    while done < rows:
        while at_once > rows - done:
            at_once //= 2
        connection.execute(_statement(table, at_once), values[done * width : (done + at_once) * width])
        done += at_once
