"""How SQLite goes about the queries of a segment: it looks things up where they lie, and reads no table as a whole."""

import re
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest
from tracker_adapters.store.layout import SCHEMA_VERSION
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.codec import HISTOGRAM_COLUMNS, SCALAR_COLUMNS


@pytest.fixture
def connection():
    with closing(sqlite3.connect(":memory:")) as connection:
        connection.executescript(schema.DDL_TABLES + schema.DDL_INDEXES)
        yield connection


def steps_of(connection, query):
    numbers = [1] * max((number for number in (1, 2, 3) if f"?{number}" in query), default=0)
    return "\n".join(row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {query}", numbers))


def test_a_series_is_looked_up_within_each_group(connection):
    scalars = schema.select_series("scalar", SCALAR_COLUMNS)
    assert "scalar USING PRIMARY KEY (seq_group=? AND series=?)" in steps_of(connection, scalars)
    histograms = schema.select_series("histogram", HISTOGRAM_COLUMNS)
    assert "histogram USING INDEX histogram_by_group (<expr>=? AND series=?)" in steps_of(connection, histograms)


def test_rows_come_in_order_from_their_groups_alone(connection):
    query = f"SELECT {SCALAR_COLUMNS} FROM scalar WHERE {schema.between('scalar')} ORDER BY {schema.in_order('scalar')}"
    steps = steps_of(connection, query)
    assert "scalar USING PRIMARY KEY (seq_group>? AND seq_group<?)" in steps
    assert "TEMP B-TREE FOR ORDER BY" not in steps  # it sorts a group at a time


@pytest.mark.parametrize("query", [schema.LAST_SEQS, f"SELECT * FROM {schema.OPEN_SCALAR_RANGES}"])
def test_the_last_number_and_new_roll_ups_read_the_newest_groups(connection, query):
    steps = steps_of(connection, query)
    assert "scalar USING PRIMARY KEY (seq_group" in steps
    assert "SCAN scalar" not in steps


@pytest.mark.parametrize("table", ["scalar", "histogram", "artifact"])
def test_a_statement_inserts_several_rows(connection, table):
    columns = {"scalar": "value", "histogram": "data", "artifact": "meta, data, blob"}[table]
    rows = [(seq, 7, 1, 10 * seq, 100 * seq, *(f"{seq}",) * (schema.WIDTHS[table] - 5)) for seq in (2047, 2048, 5000)]
    connection.execute(schema.insert(table, 3), [value for row in rows for value in row])
    found = connection.execute(f"SELECT seq, series, attempt, step, time_ns, {columns} FROM {table} ORDER BY seq")
    assert [(*row[:5], *(str(value).removesuffix(".0") for value in row[5:])) for row in found] == rows
    if table == "scalar":
        assert connection.execute("SELECT seq_group FROM scalar ORDER BY seq").fetchall() == [(0,), (1,), (2,)]


def test_the_page_about_the_schema_lists_tables_and_columns_as_they_are(connection):
    page = (Path(__file__).parents[4] / "docs" / "development" / "store_schema.md").read_text(encoding="utf-8")
    assert f"schema version {SCHEMA_VERSION}," in page
    section = page.partition("## Tables of a segment")[2].partition("\n## ")[0]
    listed = {row[0]: row[1] for row in re.findall(r"^\| `(\w+)` \| (.+?) \|", section, re.MULTILINE)}
    columns = {table: ", ".join(f"`{row[1]}`" for row in connection.execute(f"PRAGMA table_info({table})"))
               for (table,) in connection.execute("SELECT name FROM sqlite_master WHERE type = 'table'")}  # fmt: skip
    assert listed.keys() == columns.keys()
    assert columns["summary"] == columns["rollup"]
    assert listed | {"summary": listed["rollup"]} == columns
