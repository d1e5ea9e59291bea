"""Reads which names a rank has recorded behind a sequence number, from the new rows alone."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.opened import Segment

# SQLite takes a bare column from the first row that holds the maximum: the last one that arrived.
_SCALARS = f"""
SELECT series, count(*), max(step), value FROM (
    SELECT series, step, value FROM scalar
    WHERE seq_group BETWEEN ?1 >> {schema.GROUP_SHIFT} AND ?2 >> {schema.GROUP_SHIFT} AND seq > ?1 AND seq <= ?2
    ORDER BY seq DESC)
GROUP BY series
"""
_OTHERS = "SELECT series, count(*), max(step), NULL FROM {} WHERE seq > ?1 AND seq <= ?2 GROUP BY series"
_STATEMENTS = (_SCALARS, _OTHERS.format("histogram"), _OTHERS.format("artifact"))


@dataclass(frozen=True, slots=True)
class NewName:
    """What came of one name: how many values, the highest of their steps, and of a scalar the value there."""

    name: str
    kind: str
    count: int
    last_step: int
    last_value: float | None


def read_new_names(segments: Iterable[Segment], after: int) -> tuple[list[NewName], int]:
    """Returns what came behind a number, one item for each segment and name, and the number up to which was read."""
    found, last_seq = [], after
    for segment in segments:
        with segment.transaction():
            until = segment.last_seq()
            last_seq = max(last_seq, until)
            if until <= after:
                continue
            rows = [
                row
                for statement in _STATEMENTS
                for row in segment.connection.execute(statement, (after, until)).fetchall()
            ]
            series = segment.series()
        for number, count, last_step, value in rows:
            kind, name = series.get(number, ("", ""))
            if kind and type(last_step) is int:
                is_number = kind == "scalar" and type(value) in (int, float)
                last_value = float(value) if is_number else float("nan") if kind == "scalar" else None
                found.append(NewName(name, kind, count, last_step, last_value))
    return found, last_seq
