"""Databases whose writer was killed, or is about to leave, are read."""

import sqlite3
import subprocess
import sys
from contextlib import closing

import pytest
from tracker_adapters.store import connections
from tracker_adapters.store.connections import JOURNAL
from tracker_adapters.store.layout import DELIVERY_DATABASE
from tracker_adapters.store.ledger import Ledger, read_positions
from tracker_adapters.store.segments.schema import open_for_reading, open_for_writing
from tracker_adapters.store.segments.segment import SegmentWriter

KILLED = """
import os, sqlite3, sys
connection = sqlite3.connect(sys.argv[1], isolation_level=None)
connection.execute("PRAGMA journal_mode=DELETE")
connection.execute("PRAGMA cache_size=1")
connection.execute("BEGIN")
connection.execute("CREATE TABLE unfinished(x)")
connection.execute("INSERT INTO unfinished VALUES (zeroblob(1000000))")
os._exit(0)
"""


def test_a_reader_looks_again_when_a_journal_goes_between_two_looks(folder, monkeypatch):
    path = folder / "segment_000000.db"
    open_for_writing(path, log_bytes=2**20).close()
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA journal_mode=DELETE")
    journal = path.with_name(path.name + JOURNAL)
    journal.write_bytes(b"\xd9\xd5\x05\xf9\x20\xa1\x63\xd7" + bytes(504))
    monkeypatch.setattr(connections.time, "sleep", lambda seconds: journal.unlink(missing_ok=True))
    assert open_for_reading(path) is None


@pytest.fixture
def written(folder):
    """A segment and a ledger, and what reads each of them."""
    SegmentWriter(folder, lambda payload: "").close()
    with Ledger(folder) as ledger:
        ledger.register("memory", "here")

    def attempts():
        with closing(open_for_reading(folder / "segment_000000.db")) as connection:
            return connection.execute("SELECT count(*) FROM attempt").fetchone()[0]

    return {"segment_000000.db": attempts, DELIVERY_DATABASE: lambda: len(read_positions(folder))}


@pytest.mark.parametrize("name", ["segment_000000.db", DELIVERY_DATABASE])
def test_what_a_killed_writer_had_not_committed_is_rolled_back(folder, written, name):
    subprocess.run([sys.executable, "-c", KILLED, folder / name], check=True)
    assert (folder / f"{name}{JOURNAL}").exists()
    assert written[name]() == 1
    assert not (folder / f"{name}{JOURNAL}").exists()
