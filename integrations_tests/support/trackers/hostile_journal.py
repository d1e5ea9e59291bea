"""A rollback journal by which SQLite would delete a file of somebody else's."""

import sqlite3
import struct
from contextlib import closing
from pathlib import Path


def write_journal_that_names(file: Path, database: Path) -> None:
    """Lays a journal beside a database: SQLite puts the database right by it, and then deletes the file it names."""
    with closing(sqlite3.connect(database)) as connection:
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        pages, page_bytes = (connection.execute(f"PRAGMA {name}").fetchone()[0] for name in ("page_count", "page_size"))
    magic, name = bytes.fromhex("d9d505f920a163d7"), bytes(file)
    head = magic + struct.pack(">IIIII", 0, 0, pages, 512, page_bytes)
    end = struct.pack(">I", (1 << 30) // page_bytes + 1) + name + struct.pack(">II", len(name), sum(name)) + magic
    Path(f"{database}-journal").write_bytes(head.ljust(512, b"\0") + end)
