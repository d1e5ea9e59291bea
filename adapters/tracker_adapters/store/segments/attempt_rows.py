"""A segment's rows about the attempts that wrote it."""

from collections.abc import Iterator

import numpy as np
import numpy.typing as npt

from tracker_adapters.store.segments.many_rows import joined_integers
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.schema import GROUP_SHIFT

_SOUND = "typeof(attempt) = 'integer' AND typeof(step) = 'integer'"
"""A damaged row, which readers leave out, replaces nothing."""
_LAST_GROUP = f"(SELECT max(seq_group) FROM scalar WHERE seq_group <= ?1 >> {GROUP_SHIFT})"
_TIMES_OF_LAST = f"""
SELECT max(time_ns), attempt FROM scalar WHERE seq_group = {_LAST_GROUP} AND seq <= ?1 AND attempt = ?2
UNION ALL SELECT * FROM (SELECT time_ns, attempt FROM histogram WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1)
UNION ALL SELECT * FROM (SELECT time_ns, attempt FROM artifact WHERE seq <= ?1 ORDER BY seq DESC LIMIT 1)
"""


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


def attempts_with_first_numbers(segment: Segment) -> list[tuple[int, int, int]]:
    """Returns the number of each attempt, that of its first artifact here, and when it began in nanoseconds."""
    rows = segment.connection.execute("SELECT attempt, first_seq, started_ns FROM attempt").fetchall()
    return [row for row in rows if all(type(value) is int for value in row)]


def time_of_last(segment: Segment, last_seq: int, attempt: int) -> int | None:
    """Returns the time of the last row of an attempt, up to a sequence number; None where it has none here.

    It looks at one group of scalars and at one row of each other table, however many there are.
    """
    found = segment.connection.execute(_TIMES_OF_LAST, (last_seq, attempt)).fetchall()
    return max((time for time, of in found if type(time) is int and of == attempt), default=None)
