"""The URI of a SQLite database: SQLAlchemy reads from it the path that it was made of."""

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sqlalchemy.engine import make_url
from tracker_adapters.sinks.mlflow.sqlite_uri import sqlite_path, sqlite_uri

NAMES = st.text(st.characters(exclude_characters="/\0", exclude_categories=["Cs"]), min_size=1, max_size=30)


@given(NAMES)
def test_sqlalchemy_reads_the_path(name):
    path = Path("/runs") / name / "mlflow.db"
    assert make_url(sqlite_uri(path)).database == str(path)
    assert sqlite_path(sqlite_uri(path)) == path


def test_queries_drivers_and_other_databases():
    assert sqlite_path("sqlite+pysqlite:////a/b.db?timeout=3") == Path("/a/b.db")
    assert sqlite_path("sqlite:///b.db") == Path("b.db")
    others = ["sqlite://", "sqlite:///:memory:", "sqlite:///file:/a.db?uri=true", "postgresql://h/d", "http://h:1"]
    assert [sqlite_path(uri) for uri in others] == [None] * 5


@pytest.mark.parametrize("path", ["/runs/mlflow.db", "/a b/ü#/mlflow.db"])
def test_an_ordinary_path_stands_in_the_uri_as_it_is(path):
    assert sqlite_uri(Path(path)) == f"sqlite:///{path}"
