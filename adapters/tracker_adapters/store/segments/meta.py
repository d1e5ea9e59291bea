"""What a segment says about itself, made to agree with what it holds."""

import sqlite3

from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.soundness import MAX_SEQ

MAX_LEVEL = 40
_FIRST_SEQ = """
SELECT min(coalesce((SELECT min(seq) FROM scalar WHERE seq_group = (SELECT min(seq_group) FROM scalar)), ?1),
           coalesce((SELECT min(seq) FROM histogram), ?1), coalesce((SELECT min(seq) FROM artifact), ?1))
"""


def segment_meta(connection: sqlite3.Connection) -> dict[str, int]:
    """Returns ``first_seq``, and of a sealed segment ``last_seq``, ``level`` and the shifts of its roll-ups.

    What is missing, of another type or beyond what the segment can hold is replaced by what its rows say: a damaged
    number must neither hide rows nor stand for more of them than were ever recorded.
    """
    rows = connection.execute("SELECT key, value FROM meta").fetchall()
    meta = {key: value for key, value in rows if type(value) is int and 0 <= value < MAX_SEQ}
    level = meta["level"] = meta.get("level", 0) if meta.get("level", 0) <= MAX_LEVEL else 0
    recorded = _recorded(connection) if level else 0
    meta["first_seq"] = _first_seq(connection, meta.get("first_seq", MAX_SEQ), recorded)
    if "last_seq" in dict(rows):
        stored = stored_last_seq(connection)
        most = max(stored, meta["first_seq"] - 1 + recorded)
        meta["last_seq"] = max(stored, min(meta.get("last_seq", stored), most))
        meta["rollup_shift"] = _shift(meta, "rollup_shift", schema.ROLLUP_SHIFT + level)
        meta["summary_shift"] = _shift(meta, "summary_shift", max(meta["rollup_shift"], schema.SUMMARY_SHIFT))
    return meta


def stored_last_seq(connection: sqlite3.Connection) -> int:
    """Returns the number of the last row of a segment that has one, 0 when there is none."""
    group, *lasts = connection.execute(schema.LAST_SEQS).fetchone()
    is_sound = all(one is None or (type(one) is int and 0 < one < MAX_SEQ) for one in lasts)
    if is_sound and (None if lasts[0] is None else lasts[0] >> schema.GROUP_SHIFT) == group:
        return max(one or 0 for one in lasts)
    return highest(connection, "seq", MAX_SEQ)


def highest(connection: sqlite3.Connection, column: str, limit: int) -> int:
    """Returns the highest number below a limit in a column of all rows, 0 when there is none; reads all of them."""
    found = [
        connection.execute(
            f"SELECT max({column}) FROM {table} WHERE typeof({column}) = 'integer' AND {column} BETWEEN 1 AND ?",
            (limit - 1,),
        ).fetchone()[0]
        for table in schema.WIDTHS
    ]
    return max(one or 0 for one in found)


def _first_seq(connection: sqlite3.Connection, said: int, recorded: int) -> int:
    stored = connection.execute(_FIRST_SEQ, (MAX_SEQ,)).fetchone()[0]
    if type(stored) is not int or not 0 < stored < MAX_SEQ:  # an empty segment, or one whose first row is damaged
        return said if said < MAX_SEQ else 1
    # Compaction may have taken the first ones.
    return said if stored - recorded <= said <= stored else stored


def _recorded(connection: sqlite3.Connection) -> int:
    found = connection.execute("SELECT sum(count) FROM summary").fetchone()[0]
    return found if type(found) is int and 0 <= found < MAX_SEQ else 0


def _shift(meta: dict[str, int], key: str, default: int) -> int:
    return meta[key] if meta.get(key, 64) < 63 else default
