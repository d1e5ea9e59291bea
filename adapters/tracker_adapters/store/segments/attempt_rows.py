"""A segment's rows about the attempts that wrote it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tracker_adapters.store.segments.many_rows import joined_integers
from tracker_adapters.store.segments.opened import Segment

_SOUND = "typeof(attempt) = 'integer' AND typeof(step) = 'integer'"
"""A damaged row, which readers leave out, replaces nothing."""


def attempts_of(segment: Segment) -> list[tuple[int, int]]:
    """Returns the number of each attempt, and when it began in nanoseconds since 1970."""
    found: list[tuple[int, int]] = segment.connection.execute("SELECT attempt, started_ns FROM attempt").fetchall()
    return found


def last_attempt(segment: Segment) -> int:
    """Returns the number of the last attempt, 0 when there is none."""
    found = segment.connection.execute("SELECT max(attempt) FROM attempt").fetchone()[0]
    return found if type(found) is int else 0


def spans_of_attempts(segment: Segment, table: str, last_seq: int) -> Iterator[tuple[int, int, int, int]]:
    """Yields series, attempt, first and last step of what each attempt recorded in a table, up to a sequence number."""
    statement = (
        f"SELECT series, attempt, min(step), max(step) FROM {table} WHERE seq <= ? AND {_SOUND} "
        "GROUP BY series, attempt"
    )
    yield from segment.connection.execute(statement, (last_seq,))


def steps_of_attempts(
    segment: Segment, table: str, last_seq: int, last_step: int
) -> Iterator[tuple[int, int, npt.NDArray[np.int64]]]:
    """Yields series, attempt and steps of what later attempts than the first recorded, up to a number and a step."""
    statement = (
        f"SELECT series, attempt, group_concat(step) FROM {table} "
        f"WHERE seq <= ? AND step <= ? AND attempt > 1 AND {_SOUND} GROUP BY series, attempt"
    )
    for number, attempt, text in segment.connection.execute(statement, (last_seq, last_step)):
        yield number, attempt, joined_integers(text)
