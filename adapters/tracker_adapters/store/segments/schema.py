"""The schema of a segment, and how its connections are opened."""

import sqlite3
from contextlib import closing
from pathlib import Path

from tracker_adapters.store.connections import check_tables, connect, write_ahead
from tracker_adapters.store.read_only import opened_to_read

ROLLUP_SHIFT = 8
"""A roll-up covers 2**8 steps: bucket = step >> 8. In a compacted segment it covers more: its meta says how many."""

ROLLUP_ROWS = 2**14
"""Scalars are rolled up this many at a time: where commits are small, a third of what rolling up each one takes."""

SUMMARY_SHIFT = 14
"""A row of the summary, which a sealed segment has, covers 2**14 steps, or as many as a roll-up where that is more."""

GROUP_SHIFT = 11
"""Scalars lie, and histograms are indexed, by series within groups of 2**11 consecutive numbers.

So a commit changes the pages of a group or two. Larger groups are faster to read a series from, and cost the log more:
a table by series alone would change a page for each series at each step, 4 kB for a row of 40 bytes.
"""

INTEGERS = ("seq", "series", "attempt", "step", "time_ns")
CONTENT = {"scalar": ("value",), "histogram": ("data",), "artifact": ("meta", "data", "blob")}
"""What a row of each table of artifacts holds behind its ``INTEGERS``."""
COLUMNS = {table: (*INTEGERS, *content) for table, content in CONTENT.items()}
WIDTHS = {table: len(columns) for table, columns in COLUMNS.items()}
"""How many values make a row of each table of artifacts."""

PAGE_BYTES = 4096
READING_CACHE_KB = 256
"""A page of a series is read once: a cache that a processor's own cache holds is a tenth faster than SQLite's 2 MB."""
_TIMEOUT_S = 10.0
_SEQ_BITS = 54
_RANGES = """
    series INTEGER, bucket INTEGER, count INTEGER, non_finite INTEGER, min REAL, max REAL,
    first_step INTEGER, last_step INTEGER, last_value REAL"""

DDL_TABLES = f"""
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE attempt(attempt INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, started_ns INTEGER NOT NULL);
CREATE TABLE series(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, UNIQUE(kind, name));
CREATE TABLE scalar(
    seq_group INTEGER NOT NULL, series INTEGER NOT NULL, seq INTEGER NOT NULL, attempt INTEGER NOT NULL,
    step INTEGER NOT NULL, time_ns INTEGER NOT NULL, value REAL, PRIMARY KEY(seq_group, series, seq)) WITHOUT ROWID;
CREATE TABLE histogram(
    seq INTEGER PRIMARY KEY, series INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
    time_ns INTEGER NOT NULL, data BLOB NOT NULL);
CREATE TABLE artifact(
    seq INTEGER PRIMARY KEY, series INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
    time_ns INTEGER NOT NULL, meta TEXT NOT NULL, data, blob TEXT);
CREATE TABLE rollup({_RANGES}, PRIMARY KEY(bucket, series)) WITHOUT ROWID;
CREATE TABLE summary({_RANGES}, PRIMARY KEY(series, bucket)) WITHOUT ROWID;
"""
DDL_INDEXES = f"""
CREATE INDEX histogram_by_group ON histogram(seq >> {GROUP_SHIFT}, series, step);
CREATE INDEX artifact_by_series ON artifact(series, step);
"""

MERGE_RANGES = """
ON CONFLICT(series, bucket) DO UPDATE SET
    count = count + excluded.count, non_finite = non_finite + excluded.non_finite,
    min = coalesce(min(min, excluded.min), min, excluded.min),
    max = coalesce(max(max, excluded.max), max, excluded.max),
    first_step = min(first_step, excluded.first_step),
    last_value = CASE WHEN excluded.last_step >= last_step THEN excluded.last_value ELSE last_value END,
    last_step = max(last_step, excluded.last_step)
"""

_FINITE = "CASE WHEN value BETWEEN -1.7976931348623157e308 AND 1.7976931348623157e308 THEN value END"
_ROLLED_SEQ = "coalesce((SELECT value FROM meta WHERE key = 'rolled_seq'), 0)"
# The last value is that of the highest step, and of several at that step the last one: both numbers are packed into one
# to find it.
_LATEST_SEQ = f"latest & {2**_SEQ_BITS - 1}"
_NEW_SCALARS = f"""
SELECT series, bucket, count, non_finite, low AS min, high AS max, first_step,
       (bucket << {ROLLUP_SHIFT}) + (latest >> {_SEQ_BITS}) AS last_step,
       (SELECT value FROM scalar WHERE seq_group = ({_LATEST_SEQ}) >> {GROUP_SHIFT} AND scalar.series = new.series
        AND seq = {_LATEST_SEQ}) AS last_value
FROM (
    SELECT series, step >> {ROLLUP_SHIFT} AS bucket, count(*) AS count,
           count(*) - count({_FINITE}) AS non_finite, min({_FINITE}) AS low, max({_FINITE}) AS high,
           min(step) AS first_step, max((step & {2**ROLLUP_SHIFT - 1}) << {_SEQ_BITS} | seq) AS latest
    FROM scalar WHERE seq_group >= {_ROLLED_SEQ} >> {GROUP_SHIFT} AND seq > {_ROLLED_SEQ}
    GROUP BY step >> {ROLLUP_SHIFT}, series) AS new
"""
_OTHERS = " UNION ALL ".join(
    f"SELECT series, step >> {ROLLUP_SHIFT} AS bucket, count(*) AS count, 0 AS non_finite, NULL AS min, NULL AS max, "
    f"min(step) AS first_step, max(step) AS last_step, NULL AS last_value FROM {table} GROUP BY 1, 2"
    for table in ("histogram", "artifact")
)
SEALED_RANGES = {table: f"(SELECT *, 0 AS is_late FROM {table})" for table in ("rollup", "summary")}
"""What to select from in a sealed segment; of two rows of a series with one last step, the later one ``is_late``."""
OPEN_SCALAR_RANGES = f"(SELECT *, 0 AS is_late FROM rollup UNION ALL SELECT *, 1 FROM ({_NEW_SCALARS}))"
"""The roll-ups of scalars in a segment that is not sealed: those stored, and those of the newest values."""
OPEN_RANGES = f"(SELECT * FROM {OPEN_SCALAR_RANGES} UNION ALL SELECT *, 0 FROM ({_OTHERS}))"
"""The roll-ups of a segment that is not sealed: only scalars have stored ones, which saves time."""

SUMMARIZE = """
INSERT INTO summary
SELECT series, bucket, count, non_finite, low, high, first_step, last_step,
       (SELECT last_value FROM rollup
        WHERE rollup.series = found.series AND rollup.bucket = found.last_step >> :rollup_shift)
FROM (
    SELECT series, bucket >> (:summary_shift - :rollup_shift) AS bucket, sum(count) AS count,
           sum(non_finite) AS non_finite, min(min) AS low, max(max) AS high, min(first_step) AS first_step,
           max(last_step) AS last_step
    FROM rollup GROUP BY 1, 2) AS found
"""

LAST_SEQS = """
SELECT (SELECT max(seq_group) FROM scalar),
       (SELECT max(seq) FROM scalar WHERE seq_group = (SELECT max(seq_group) FROM scalar)),
       (SELECT max(seq) FROM histogram), (SELECT max(seq) FROM artifact)
"""
"""The last group of scalars, and the last number in it, of a histogram and of an artifact."""


def roll_up(connection: sqlite3.Connection, last_seq: int) -> None:
    """Rolls up the scalars up to the last one, whose number is ``last_seq``; the caller holds the transaction.

    One statement keeps the work inside SQLite, which holds no Python lock while it runs.
    """
    connection.execute(f"INSERT INTO rollup SELECT * FROM ({_NEW_SCALARS}) WHERE true {MERGE_RANGES}")
    connection.execute("INSERT OR REPLACE INTO meta VALUES ('rolled_seq', ?)", (last_seq,))


def seal(connection: sqlite3.Connection, last_seq: int, *, level: int = 0, rollup_shift: int = ROLLUP_SHIFT) -> None:
    """Marks a segment as one that gets no more artifacts, completes its roll-ups and sums them up.

    Args:
        connection: The segment, open for writing, outside a transaction.
        last_seq: Number of the last artifact that it stands for.
        level: How often its content was thinned by half.
        rollup_shift: Binary logarithm of the steps that each of its roll-ups covers.

    Raises:
        sqlite3.Error: When it stays as it was.
    """
    shifts = {"rollup_shift": rollup_shift, "summary_shift": max(rollup_shift, SUMMARY_SHIFT)}
    connection.execute("BEGIN")
    try:
        if level == 0:
            roll_up(connection, last_seq)
            connection.execute(f"INSERT INTO rollup {_OTHERS}")
        connection.execute(SUMMARIZE, shifts)
        meta = {"last_seq": last_seq, "level": level, **shifts}
        connection.executemany("INSERT OR REPLACE INTO meta VALUES (?,?)", meta.items())
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:
            connection.execute("ROLLBACK")
        raise


def table_of(kind: str) -> str:
    """Returns which of a segment's tables holds a kind."""
    return kind if kind in COLUMNS else "artifact"


def select_series(table: str, columns: str) -> str:
    """Returns the query for the rows of one series; its parameters are the first and last group, and the series."""
    if table == "artifact":
        return f"SELECT {columns} FROM artifact WHERE series = ?3 AND seq >> {GROUP_SHIFT} BETWEEN ?1 AND ?2"
    group = "seq_group" if table == "scalar" else f"seq >> {GROUP_SHIFT}"
    return f"""
    WITH RECURSIVE wanted(number) AS (SELECT ?1 UNION ALL SELECT number + 1 FROM wanted WHERE number < ?2)
    SELECT {columns} FROM wanted CROSS JOIN {table} WHERE {group} = wanted.number AND series = ?3
    """


def between(table: str) -> str:
    """Returns the condition for the rows from number ``?1`` to ``?2``."""
    groups = f"seq_group BETWEEN ?1 >> {GROUP_SHIFT} AND ?2 >> {GROUP_SHIFT} AND " if table == "scalar" else ""
    return f"{groups}seq BETWEEN ?1 AND ?2"


def scalars_between(columns: str, conditions: str) -> str:
    """Returns the query for scalars from number ``?1`` to ``?2``, by number."""
    return f"SELECT {columns} FROM scalar WHERE {between('scalar')} AND {conditions} ORDER BY {in_order('scalar')}"


def scalars_in_groups(columns: str, conditions: str) -> str:
    """Returns ``scalars_between`` for conditions on series: those are looked for in each group, and no other row is."""
    return f"""
    WITH RECURSIVE wanted(number) AS (
        SELECT ?1 >> {GROUP_SHIFT} UNION ALL SELECT number + 1 FROM wanted WHERE number < ?2 >> {GROUP_SHIFT})
    SELECT {columns} FROM wanted CROSS JOIN scalar
    WHERE seq_group = wanted.number AND seq BETWEEN ?1 AND ?2 AND {conditions} ORDER BY {in_order("scalar")}
    """


def in_order(table: str) -> str:
    """Returns what to order rows by that shall come by their numbers, so that nothing but groups has to be sorted."""
    return "seq_group, seq" if table == "scalar" else "seq"


def insert(table: str, rows: int) -> str:
    """Returns the statement that inserts so many rows, whose values are parameters in the order of ``WIDTHS``."""
    values = ",".join([f"({','.join('?' * WIDTHS[table])})"] * rows)
    if table != "scalar":
        return f"INSERT INTO {table} VALUES {values}"
    others = "".join(f",column{number}" for number in range(3, WIDTHS[table] + 1))
    return f"INSERT INTO scalar SELECT column1 >> {GROUP_SHIFT},column2,column1{others} FROM (VALUES {values})"


def open_for_writing(path: Path, *, log_bytes: int) -> sqlite3.Connection:
    """Opens a segment for its one writer, in WAL mode, with transactions begun by hand; makes it when it is missing.

    The log is folded into the segment whenever it has grown to ``log_bytes``.

    Raises:
        UnsafeFileError: When it is a link or no regular file, or a folder on the way from the run's is.
        sqlite3.Error: When it cannot be opened, or holds what no segment does.
    """
    connection = connect(path, "rwc", timeout_s=_TIMEOUT_S)
    try:
        has_tables(connection)
        write_ahead(connection, timeout_s=_TIMEOUT_S)
        connection.execute(f"PRAGMA wal_autocheckpoint={log_bytes // PAGE_BYTES}")
        connection.execute(f"PRAGMA journal_size_limit={log_bytes}")
    except BaseException:
        connection.close()
        raise
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection | None:
    """Opens a segment as ``opened_to_read`` does; None while it has no tables yet.

    Raises:
        UnsafeFileError: As ``open_for_writing``.
        sqlite3.Error: Likewise.
    """
    connection, ready = opened_to_read(path, _is_ready)
    if ready:
        return connection
    connection.close()
    return None


def _is_ready(connection: sqlite3.Connection) -> bool:
    connection.execute(f"PRAGMA cache_size=-{READING_CACHE_KB}")
    return has_tables(connection)


def is_complete(path: Path) -> bool:
    """Whether the segment was created completely; raises as ``open_for_writing``."""
    with closing(connect(path, "rw")) as connection:
        return has_tables(connection)


def has_tables(connection: sqlite3.Connection) -> bool:
    """Whether a segment has its tables already; raises sqlite3.DatabaseError when it has others."""
    return check_tables(connection, DDL_TABLES + DDL_INDEXES)
