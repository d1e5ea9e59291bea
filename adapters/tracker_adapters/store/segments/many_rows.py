"""Reads the rows of a segment's table, some thousand at a time: neither long transactions nor much memory.

Scalars come as columns: SQLite puts the integers of many rows into one text, which numpy reads in a third of the time
that Python takes to build a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
from functools import partial
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.errors import DamagedError
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import DAMAGED
from tracker_adapters.store.segments.histogram_codec import decode
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.soundness import floats, integers, salvaged

ROWS_AT_ONCE = {"scalar": 10_000, "histogram": 500, "artifact": 64}
_FEW_SERIES = 64
"""So few series are looked for in each group: that takes 2 µs for each, and looking at all of its rows 200 µs."""
_NUMBERS_OF_FEW = 2**16
"""How many numbers are looked through at once for a few series, most of which are others'."""
OnDamage = Callable[[int], None]


def read_many(
    segment: Segment,
    table: str,
    *,
    seqs: tuple[int, int],
    steps: tuple[int, int],
    series: Collection[int] | None,
    on_damage: OnDamage,
) -> Iterator[tuple[Any, ...] | list[Any]]:
    """Yields parts of a table in order of arrival.

    A part is a tuple of columns: int64 (n,) for each of ``schema.INTEGERS``, and the content: float64 (n,) of scalars,
    bytes of histograms, tuples (meta, data, blob) of other artifacts. Where something is damaged, it is a list of rows,
    each of which is to be checked.

    Args:
        segment: The segment.
        table: ``scalar``, ``histogram`` or ``artifact``.
        seqs: The first and the last sequence number.
        steps: The first and the last step.
        series: The numbers of the series that are wanted; None for all.
        on_damage: Told how many rows cannot be read, as far as they can be told.
    """
    conditions = f"step BETWEEN {steps[0]:d} AND {steps[1]:d}"
    chosen = "" if series is None else f"series IN ({','.join(map(str, series))})"
    if table != "scalar":
        conditions = " AND ".join(filter(None, (schema.between(table), conditions, chosen)))
        return _others(segment.connection, table, conditions, seqs, on_damage)
    if series and len(series) > _FEW_SERIES and max(series) - min(series) < len(segment.series()) // 2:
        # They lie together. Without the sign SQLite would look for each of them.
        chosen = f"series BETWEEN {min(series)} AND {max(series)} AND +{chosen}"
    elif series is None or len(series) > _FEW_SERIES:
        every = partial(schema.scalars_between, conditions=" AND ".join(filter(None, (conditions, chosen))))
        return _scalars(segment.connection, every, seqs, on_damage, ROWS_AT_ONCE[table])
    some = partial(schema.scalars_in_groups, conditions=f"{chosen} AND {conditions}")
    return _scalars(segment.connection, some, seqs, on_damage, _NUMBERS_OF_FEW)


def joined_integers(text: str) -> npt.NDArray[np.int64]:
    """Returns the numbers that ``group_concat`` joined."""
    return np.fromstring(text, np.int64, sep=",")


def _scalars(
    connection: sqlite3.Connection,
    select: Callable[[str], str],
    seqs: tuple[int, int],
    on_damage: OnDamage,
    at_once: int,
) -> Iterator[tuple[Any, ...] | list[Any]]:
    """Yields columns, or rows where something is damaged; ``select`` returns the query for columns of the rows."""
    joined = ", ".join(f"group_concat({column})" for column in schema.INTEGERS)
    integers_, values_ = f"SELECT {joined} FROM ({select(', '.join(schema.INTEGERS))})", select("value")
    first, last = seqs
    for start in range(first, last + 1, at_once):
        bounds = (start, min(start + at_once - 1, last))
        try:
            texts = connection.execute(integers_, bounds).fetchone()
            if texts[0] is not None:
                values = connection.execute(values_, bounds).fetchall()
                content = floats(list(chain.from_iterable(values)))  # NULL becomes NaN
                columns = [joined_integers(text) for text in texts]
                if any(len(column) != len(content) or column.min() < 0 for column in columns):
                    raise DamagedError("a column of integers holds something else")
                yield *columns, content
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, *DAMAGED):
            yield _rows_around_damage(connection, select(", ".join(schema.COLUMNS["scalar"])), bounds, on_damage)


def _others(
    connection: sqlite3.Connection,
    table: str,
    conditions: str,
    seqs: tuple[int, int],
    on_damage: OnDamage,
) -> Iterator[tuple[Any, ...] | list[Any]]:
    """Yields columns, or rows where something is damaged."""
    statement = f"SELECT {', '.join(schema.COLUMNS[table])} FROM {table} WHERE {conditions} ORDER BY seq"
    first, last = seqs
    while first <= last:
        try:
            rows = connection.execute(f"{statement} LIMIT {ROWS_AT_ONCE[table]}", (first, last)).fetchall()
        except sqlite3.OperationalError:
            raise
        except sqlite3.DatabaseError:
            end = min(first + ROWS_AT_ONCE["scalar"] - 1, last)
            yield _rows_around_damage(connection, statement, (first, end), on_damage)
            first = end + 1
            continue
        if not rows:
            return
        first = rows[-1][0] + 1
        try:
            if table == "histogram":
                decode([row[5] for row in rows])
            content = [row[5] if table == "histogram" else row[5:] for row in rows]
            yield *(integers(column) for column in zip(*(row[:5] for row in rows), strict=True)), content
        except DAMAGED:
            yield rows


def _rows_around_damage(
    connection: sqlite3.Connection, statement: str, bounds: tuple[int, int], on_damage: OnDamage
) -> list[Any]:
    def fetch(first: int, last: int) -> list[Any]:
        return connection.execute(statement, (first, last)).fetchall()

    return salvaged(fetch, *bounds, on_damage)
