"""Reads the rows of one scalar as columns: of all steps or some, of all numbers or those behind one."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isfinite
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import DamagedError
from tracker_adapters.store.reading.attempts import latest
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import DAMAGED
from tracker_adapters.store.segments.many_rows import OnDamage, joined_integers
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.soundness import floats, integers

MOST_STEPS = 2**63 - 1
_DENSE_SERIES = 32
"""Where so few series share a group, most of the time goes into rows, and joined integers take half of it; else into
finding the groups, which one statement does once."""
_LOWEST, _HIGHEST = "-1.7976931348623157e308", "1.7976931348623157e308"
_INTEGERS = ("seq", "attempt", "step", "time_ns")
_Integers = npt.NDArray[np.int64]
_Columns = tuple[_Integers, _Integers, _Integers, _Integers, npt.NDArray[np.float64]]
SoundRows = Callable[[Segment, list[Any]], list[Any]]


@dataclass(frozen=True, slots=True)
class RowsWanted:
    """Which rows of a series are wanted.

    Attributes:
        first_step: The first step.
        last_step: The last one.
        after: Only rows with higher sequence numbers.
        sample: Only rows whose sequence number is a multiple of this, and those that are NaN or infinite.
    """

    first_step: int = 0
    last_step: int = MOST_STEPS
    after: int = 0
    sample: int = 1

    def clause(self) -> str:
        """Returns the condition, in SQL, behind one for the series."""
        parts = [f" AND seq > {self.after:d}"] if self.after else []
        if (self.first_step, self.last_step) != (0, MOST_STEPS):
            parts.append(f" AND step BETWEEN {self.first_step:d} AND {self.last_step:d}")
        if self.sample > 1:
            parts.append(
                f" AND (seq % {self.sample:d} = 0 OR value IS NULL OR value NOT BETWEEN {_LOWEST} AND {_HIGHEST})"
            )
        return "".join(parts)

    def has(self, row: Any) -> bool:
        """Whether a row of SCALAR_COLUMNS is wanted."""
        seq, _, _, step, _, value = row
        sampled = seq % self.sample == 0 or value is None or not isfinite(value)
        return bool(seq > self.after and self.first_step <= step <= self.last_step and sampled)


@dataclass(frozen=True, slots=True)
class ScalarRows:
    """Rows of one scalar in order of arrival, also those that a later attempt replaced.

    ``seqs`` are sequence numbers, ``attempts`` those that recorded the rows; with ``steps`` and ``times_ns`` they are
    int64 (n,). ``values`` are float64 (n,). ``compacted``, bool (n,), says which lie in compacted segments.
    ``last_seq`` is the number up to which was read.
    """

    seqs: _Integers
    attempts: _Integers
    steps: _Integers
    times_ns: _Integers
    values: npt.NDArray[np.float64]
    compacted: npt.NDArray[np.bool_]
    last_seq: int

    def __len__(self) -> int:
        return len(self.seqs)

    def latest(self) -> _Integers:
        """Returns the places of the rows that no later attempt replaced, by step and arrival; int64 (m,)."""
        return latest(
            seqs=self.seqs,
            attempts=self.attempts,
            steps=self.steps,
            ranks=np.zeros(len(self), np.int64),
            compacted=self.compacted,
        )


def read_scalar_rows(
    segments: Iterable[tuple[Segment, int | None]], wanted: RowsWanted, sound: SoundRows, on_damage: OnDamage
) -> ScalarRows:
    """Returns the rows of one scalar in all segments of a rank.

    Args:
        segments: Each with the number that the series has in it; None for none.
        wanted: Which rows.
        sound: Returns those of a damaged segment's rows that are as they were written.
        on_damage: Told how many rows cannot be read.
    """
    last_seq, parts, compacted = wanted.after, [], []
    for segment, number in segments:
        until = segment.last_seq()
        last_seq = max(last_seq, until)
        if number is None or until <= wanted.after:
            continue
        try:
            columns = _columns(segment, number, until, wanted)
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, *DAMAGED):
            rows = sound(segment, segment.rows_of("scalar", number, on_damage))
            columns = _as_columns(sorted((*row[:1], *row[2:]) for row in rows if row[0] <= until and wanted.has(row)))
        parts.append(columns)
        compacted.append(np.full(len(columns[0]), segment.level > 0))
    if not parts:
        parts, compacted = [_as_columns([])], [np.empty(0, np.bool_)]
    seqs, attempts, steps, times, values = (np.concatenate(column) for column in zip(*parts, strict=True))
    return ScalarRows(seqs, attempts, steps, times, values, np.concatenate(compacted), last_seq)


def _columns(segment: Segment, number: int, until: int, wanted: RowsWanted) -> _Columns:
    """The rows up to a number."""
    groups = (max(wanted.after + 1, segment.first_seq) >> schema.GROUP_SHIFT, until >> schema.GROUP_SHIFT)
    clause = f"{wanted.clause()} AND seq <= {until:d}"

    def select(what: str) -> Any:
        return segment.connection.execute(schema.select_series("scalar", what) + clause, (*groups, number))

    if len(segment.series()) > _DENSE_SERIES:
        return _as_columns(select(", ".join((*_INTEGERS, "value"))).fetchall())
    with segment.transaction():  # neither a compaction nor a commit comes between the two
        texts = select(", ".join(f"group_concat({name})" for name in _INTEGERS)).fetchone()
        values = list(chain.from_iterable(select("value").fetchall()))
    columns = [joined_integers(text) if text else np.empty(0, np.int64) for text in texts]
    if any(len(column) != len(values) or column.min(initial=0) < 0 for column in columns):
        raise DamagedError("a column of integers holds something else")
    return columns[0], columns[1], columns[2], columns[3], floats(values)


def _as_columns(rows: Sequence[Sequence[Any]]) -> _Columns:
    """Columns of rows (seq, attempt, step, time_ns, value); raises DamagedError where one holds something else."""
    seqs, attempts, steps, times, values = zip(*rows, strict=True) if rows else ((),) * 5
    return integers(seqs), integers(attempts), integers(steps), integers(times), floats(values)
