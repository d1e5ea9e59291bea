"""Tells rows that were written from rows that were damaged, one by one, and reads around pages that are."""

import sqlite3
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import KINDS
from tracker_adapters.errors import ArtifactError, DamagedError
from tracker_adapters.store.segments.histogram_codec import decode
from tracker_adapters.values.base import check_name

MAX_SEQ = 2**53
"""More artifacts than any run has; a roll-up packs sequence numbers into 54 bits."""
_INTEGERS = 5


def integers(values: Sequence[Any]) -> npt.NDArray[np.int64]:
    """Returns a column of a store as int64 (n,).

    Raises:
        DamagedError: When something in it is no integer from 0.
    """
    found = np.array(values) if len(values) else np.empty(0, np.int64)
    if found.dtype != np.int64 or found.min(initial=0) < 0:
        raise DamagedError("a column of integers holds something else")
    return found


def floats(values: Sequence[Any]) -> npt.NDArray[np.float64]:
    """Returns a column of a store as float64 (n,), NaN for NULL; raises DamagedError when something is no number."""
    try:
        return np.array(values, np.float64)
    except (ValueError, TypeError, OverflowError) as error:
        raise DamagedError(f"a column of numbers holds something else: {error}") from error


def sound_rows(table: str, rows: Sequence[Sequence[Any]], series: Mapping[int, tuple[str, str]]) -> list[Any]:
    """Returns the rows of a table that are as they were written; the columns are those of ``codec``.

    What an artifact holds beside its integers is for ``decode_artifact`` to judge.
    """
    return [row for row in rows if _is_sound(table, row, series)]


def _is_sound(table: str, row: Sequence[Any], series: Mapping[int, tuple[str, str]]) -> bool:
    if not all(type(value) is int and value >= 0 for value in row[:_INTEGERS]):
        return False
    kind, _ = series.get(row[1], ("", ""))
    if table == "scalar":
        return kind == table and (row[5] is None or type(row[5]) in (int, float))
    if table == "histogram":
        return kind == table and _is_histogram(row[5])
    return kind in KINDS and kind not in ("scalar", "histogram")


def _is_histogram(blob: object) -> bool:
    if not isinstance(blob, bytes):
        return False
    try:
        decode([blob])
    except (DamagedError, ValueError, IndexError, OverflowError):
        return False
    return True


def sound_series(rows: Sequence[Sequence[Any]]) -> dict[int, tuple[str, str]]:
    """Returns the (kind, name) of each series number, of rows (number, kind, name); what is none is left out."""
    found = {}
    for number, kind, name in rows:
        try:
            if type(number) is int and number > 0 and kind in KINDS:
                found[number] = (kind, check_name(kind, name))
        except (ArtifactError, TypeError):
            continue
    return found


def salvaged(
    fetch: Callable[[int, int], list[Any]], first: int, last: int, on_loss: Callable[[int], None] = lambda count: None
) -> list[Any]:
    """Returns what ``fetch(first, last)`` returns of a database, less the numbers whose pages are damaged.

    Scalars are found by their groups: a damaged page takes those of its group with it.

    Args:
        fetch: Returns the rows between two numbers.
        first: The first number.
        last: The last one.
        on_loss: Told 1 for each number that cannot be looked for.

    Raises:
        sqlite3.OperationalError: As ``fetch`` does: that is no damage.
    """
    try:
        return fetch(first, last)
    except sqlite3.OperationalError:
        raise
    except sqlite3.DatabaseError:
        if first >= last:
            on_loss(1)
            return []
    middle = (first + last) // 2
    return salvaged(fetch, first, middle, on_loss) + salvaged(fetch, middle + 1, last, on_loss)
