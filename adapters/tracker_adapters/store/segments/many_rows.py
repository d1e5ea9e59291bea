"""Reads the rows of a segment's table, some thousand at a time: neither long transactions nor much memory.

Scalars come as columns: SQLite puts the integers of many rows into one text, which numpy reads in a third of the time
that Python takes to build a row.
"""

from __future__ import annotations

import sqlite3
from collections.abc import Callable, Collection, Iterator
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
    conditions = f"{schema.between(table)} AND step BETWEEN {steps[0]:d} AND {steps[1]:d}"
    if series is not None:
        conditions += f" AND series IN ({','.join(map(str, series))})"
    read = _scalars if table == "scalar" else _others
    return read(segment.connection, table, conditions, seqs, on_damage)


def joined_integers(text: str) -> npt.NDArray[np.int64]:
    """Returns the numbers that ``group_concat`` joined."""
    return np.fromstring(text, np.int64, sep=",")


def _scalars(
    connection: sqlite3.Connection,
    table: str,
    conditions: str,
    seqs: tuple[int, int],
    on_damage: OnDamage,
) -> Iterator[tuple[Any, ...] | list[Any]]:
    """Yields columns, or rows where something is damaged."""
    joined = ", ".join(f"group_concat({column})" for column in schema.INTEGERS)
    rows = f"FROM {table} WHERE {conditions} ORDER BY {schema.in_order(table)}"
    statement = f"SELECT {joined} FROM (SELECT {', '.join(schema.INTEGERS)} {rows})"
    first, last = seqs
    for start in range(first, last + 1, ROWS_AT_ONCE[table]):
        bounds = (start, min(start + ROWS_AT_ONCE[table] - 1, last))
        try:
            texts = connection.execute(statement, bounds).fetchone()
            if texts[0] is not None:
                values = connection.execute(f"SELECT value {rows}", bounds).fetchall()
                content = floats(list(chain.from_iterable(values)))  # NULL becomes NaN
                columns = [joined_integers(text) for text in texts]
                if any(len(column) != len(content) or column.min() < 0 for column in columns):
                    raise DamagedError("a column of integers holds something else")
                yield *columns, content
        except sqlite3.OperationalError:
            raise
        except (sqlite3.DatabaseError, *DAMAGED):
            yield _rows_around_damage(
                connection, f"SELECT {', '.join(schema.COLUMNS[table])} {rows}", bounds, on_damage
            )


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
