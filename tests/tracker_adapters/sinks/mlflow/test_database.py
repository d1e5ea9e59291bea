"""What a tracking database in a folder from elsewhere must not do."""

from __future__ import annotations

import sqlite3
import struct
from contextlib import closing
from pathlib import Path

import pytest
from tracker_adapters.errors import SinkError
from tracker_adapters.sinks.mlflow.database import prepare_database


@pytest.mark.parametrize("linked", [False, True])
def test_a_journal_that_names_another_file_deletes_nothing(tmp_path: Path, linked: bool) -> None:
    """SQLite puts the database right by the journal, and then deletes the file whose name the journal ends in."""
    elsewhere = tmp_path / "thesis.txt"
    elsewhere.write_text("two years of work")
    (tmp_path / "kept").mkdir()
    database = tmp_path / ("kept" if linked else "") / "mlflow.db"
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("create table alembic_version(version_num)")
        connection.commit()
        pages, page_bytes = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    magic, name = bytes.fromhex("d9d505f920a163d7"), bytes(elsewhere)
    head = magic + struct.pack(">IIIII", 0, 0, pages, 512, page_bytes)
    end = struct.pack(">I", (1 << 30) // page_bytes + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    Path(f"{database}-journal").write_bytes(head.ljust(512, b"\0") + end)
    if linked:
        (tmp_path / "mlflow.db").symlink_to(database)
    with pytest.raises(SinkError, match="journal names another file, which SQLite would delete"):
        prepare_database(tmp_path / "mlflow.db")
    assert elsewhere.exists()
