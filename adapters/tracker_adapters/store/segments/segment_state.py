"""The state of a run's last segment, from which a writer continues."""

import sqlite3
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracker_adapters.store.layout import SCHEMA_VERSION
from tracker_adapters.store.segments.meta import highest, segment_meta, stored_last_seq
from tracker_adapters.store.segments.soundness import MAX_SEQ, sound_series

MAX_ATTEMPTS = 2**31


@dataclass(frozen=True, slots=True)
class SegmentState:
    """A segment's last number and attempt, its rolled-up numbers, series, and whether it is sealed.

    ``fault`` says what is damaged of this, empty when nothing is; then nothing may be written into the segment, and
    only ``last_seq`` and ``attempt`` count.
    """

    last_seq: int
    attempt: int
    rolled_seq: int
    series: list[tuple[str, str, int]]
    is_sealed: bool
    fault: str


def segment_state(connection: sqlite3.Connection, path: Path) -> SegmentState:
    """Returns the state that a writer continues from.

    Raises:
        sqlite3.DatabaseError: When it is of another schema, or so damaged that its last number cannot be found: one
            that was given twice would be taken for delivered.
    """
    checked = connection.execute("PRAGMA quick_check(1)").fetchone()[0]
    raw = dict(connection.execute("SELECT key, value FROM meta").fetchall())
    if raw.get("schema_version") != SCHEMA_VERSION:
        raise sqlite3.DatabaseError(
            f"{path} has schema version {raw.get('schema_version')!r}; expected {SCHEMA_VERSION}"
        )
    meta = segment_meta(connection)
    last_seq = max(stored_last_seq(connection), meta["first_seq"] - 1, meta.get("last_seq", 0))
    rows = connection.execute("SELECT id, kind, name FROM series").fetchall()
    rolled_seq = meta["first_seq"] - 1 if "last_seq" in raw else raw.get("rolled_seq", meta["first_seq"] - 1)
    attempts = [row[0] for row in connection.execute("SELECT attempt FROM attempt").fetchall()]
    fault = "" if checked == "ok" else str(checked)
    fault = fault or _fault(rows, rolled_seq, (meta["first_seq"] - 1, last_seq), attempts)
    if fault:
        last_seq = max(last_seq, highest(connection, "seq", MAX_SEQ))
        known = [one for one in attempts if _is_attempt(one)]
        return SegmentState(last_seq, max([*known, highest(connection, "attempt", MAX_ATTEMPTS)]), 0, [], False, fault)
    series = [(kind, name, number) for number, kind, name in rows]
    return SegmentState(last_seq, max(attempts), rolled_seq, series, "last_seq" in raw, "")


def _fault(rows: list[Any], rolled_seq: Any, bounds: tuple[int, int], attempts: list[Any]) -> str:
    if sound_series(rows).keys() != set(range(1, len(rows) + 1)):
        return "its series are not numbered one after the other, or have no name"
    if type(rolled_seq) is not int or not bounds[0] <= rolled_seq <= bounds[1]:
        return f"its roll-ups end at {str(rolled_seq)[:40]!r}"
    if not attempts or not all(map(_is_attempt, attempts)):
        return "its attempts are not numbered"
    return ""


def _is_attempt(value: object) -> bool:
    return type(value) is int and 0 < value < MAX_ATTEMPTS
