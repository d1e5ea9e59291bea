"""The schema of a segment, and how its connections are opened."""

from __future__ import annotations

import os
import sqlite3
from pathlib import Path

ROLLUP_SHIFT = 8
"""A roll-up covers 2**8 steps: bucket = step >> 8."""

GROUP_SHIFT = 10
"""Scalars and histograms are indexed by series within groups of 2**10 consecutive numbers.

An index by series alone would change a page for each series at each step: 4 kB in the log for an entry of 12 bytes.
"""

DDL = f"""
CREATE TABLE meta(key TEXT PRIMARY KEY, value) WITHOUT ROWID;
CREATE TABLE attempt(attempt INTEGER PRIMARY KEY, first_seq INTEGER NOT NULL, started_ns INTEGER NOT NULL);
CREATE TABLE series(id INTEGER PRIMARY KEY, kind TEXT NOT NULL, name TEXT NOT NULL, UNIQUE(kind, name));
CREATE TABLE scalar(
    seq INTEGER PRIMARY KEY, series INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
    time_ns INTEGER NOT NULL, value REAL);
CREATE INDEX scalar_by_group ON scalar(seq >> {GROUP_SHIFT}, series, step);
CREATE TABLE histogram(
    seq INTEGER PRIMARY KEY, series INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
    time_ns INTEGER NOT NULL, data BLOB NOT NULL);
CREATE INDEX histogram_by_group ON histogram(seq >> {GROUP_SHIFT}, series, step);
CREATE TABLE artifact(
    seq INTEGER PRIMARY KEY, series INTEGER NOT NULL, attempt INTEGER NOT NULL, step INTEGER NOT NULL,
    time_ns INTEGER NOT NULL, meta TEXT NOT NULL, data, blob TEXT);
CREATE INDEX artifact_by_series ON artifact(series, step);
CREATE TABLE rollup(
    series INTEGER, bucket INTEGER, count INTEGER, non_finite INTEGER, min REAL, max REAL,
    PRIMARY KEY(bucket, series)) WITHOUT ROWID;
"""

# One statement a commit keeps the work inside SQLite, which holds no Python lock while it runs.
UPDATE_ROLLUPS = f"""
INSERT INTO rollup
SELECT series, step >> {ROLLUP_SHIFT} AS bucket, count(*), sum(value IS NULL OR abs(value) > 1.7976931348623157e308),
       min(CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END),
       max(CASE WHEN abs(value) <= 1.7976931348623157e308 THEN value END)
FROM scalar WHERE seq BETWEEN ? AND ? GROUP BY bucket, series
ON CONFLICT(bucket, series) DO UPDATE SET
    count = count + excluded.count, non_finite = non_finite + excluded.non_finite,
    min = coalesce(min(min, excluded.min), min, excluded.min),
    max = coalesce(max(max, excluded.max), max, excluded.max)
"""

LAST_SEQ = """
SELECT max(coalesce((SELECT max(seq) FROM scalar), 0), coalesce((SELECT max(seq) FROM histogram), 0),
           coalesce((SELECT max(seq) FROM artifact), 0))
"""


def select_series(table: str, columns: str) -> str:
    """Returns the query for the rows of one series; its parameters are the first and last group, and the series."""
    if table == "artifact":
        return f"SELECT {columns} FROM artifact WHERE series = ?3 AND seq >> {GROUP_SHIFT} BETWEEN ?1 AND ?2"
    return f"""
    WITH RECURSIVE wanted(number) AS (SELECT ?1 UNION ALL SELECT number + 1 FROM wanted WHERE number < ?2)
    SELECT {columns} FROM wanted CROSS JOIN {table} WHERE seq >> {GROUP_SHIFT} = wanted.number AND series = ?3
    """


def open_for_writing(path: Path) -> sqlite3.Connection:
    """Opens a segment for its one writer, in WAL mode, with transactions begun by hand."""
    connection = sqlite3.connect(path, isolation_level=None, timeout=10, check_same_thread=False)
    connection.execute("PRAGMA journal_mode=WAL")
    # NORMAL survives a killed process; a power cut may take the last commits, never the file.
    connection.execute("PRAGMA synchronous=NORMAL")
    return connection


def open_for_reading(path: Path) -> sqlite3.Connection | None:
    """Opens a segment read-only, also on a medium that cannot be written; None while it has no tables yet."""
    uri = f"{path.resolve().as_uri()}?mode=ro"
    connection = _connect(uri)
    try:
        ready = _has_tables(connection)
    except sqlite3.OperationalError:
        connection.close()
        if os.access(path.parent, os.W_OK):
            raise
        # WAL needs shared memory beside the file; on a read-only medium there is no writer to share it with.
        connection = _connect(f"{uri}&immutable=1")
        ready = _has_tables(connection)
    if ready:
        return connection
    connection.close()
    return None


def has_tables(path: Path) -> bool:
    """Whether the segment was created completely."""
    connection = sqlite3.connect(path)
    try:
        return _has_tables(connection)
    finally:
        connection.close()


def _connect(uri: str) -> sqlite3.Connection:
    return sqlite3.connect(uri, uri=True, isolation_level=None, timeout=10, check_same_thread=False)


def _has_tables(connection: sqlite3.Connection) -> bool:
    return connection.execute("SELECT 1 FROM sqlite_master WHERE name = 'meta'").fetchone() is not None
