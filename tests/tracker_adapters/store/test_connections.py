"""Databases of a run that several open at once while they are new."""

import sqlite3
import subprocess
import sys
import threading
import time
import warnings
from contextlib import closing

import pytest
from tracker_adapters.store.connections import connect, write_ahead
from tracker_adapters.store.layout import DELIVERY_DATABASE, rank_folder
from tracker_adapters.store.ledger import Ledger
from tracker_adapters.store.segments.schema import open_for_writing

OPENERS, WRITES = 6, 50


def open_ledger(folder):
    with Ledger(folder) as ledger:
        ledger.register("memory", "here")


def open_segment(folder):
    open_for_writing(folder / "segment_000000.db", log_bytes=2**20).close()


DATABASES = {DELIVERY_DATABASE: open_ledger, "segment_000000.db": open_segment}

LEDGERS = """
import sys
from pathlib import Path
from tracker_adapters.store.ledger import Ledger
print(flush=True)
for folder in map(Path, sys.stdin.read().split()):
    with Ledger(folder) as ledger:
        ledger.register("memory", "here")
"""


def write_again_and_again(path, holds):
    """Holds what SQLite reports to a switch at once, again and again."""
    with closing(sqlite3.connect(path, isolation_level=None, timeout=60)) as connection:
        for number in range(WRITES):
            connection.execute("BEGIN IMMEDIATE")
            if number == 0:
                holds()
            connection.execute("PRAGMA user_version=1")
            connection.execute("COMMIT")


@pytest.mark.parametrize("name", DATABASES)
def test_threads_open_a_new_database_that_another_one_writes(folder, name):
    failures: list[BaseException] = []

    all_begin = threading.Barrier(OPENERS + 1)

    def run():
        try:
            all_begin.wait(60)
            DATABASES[name](folder)
        except BaseException as error:
            failures.append(error)

    writer = threading.Thread(target=write_again_and_again, args=(folder / name, all_begin.wait))
    openers = [threading.Thread(target=run, daemon=True) for _ in range(OPENERS)]
    for thread in (writer, *openers):
        thread.start()
    for thread in openers:
        thread.join(60)
    writer.join(60)
    assert failures == []
    with closing(sqlite3.connect(folder / name)) as connection:
        assert connection.execute("PRAGMA journal_mode").fetchone()[0] == "wal"


def test_processes_open_new_ledgers_at_once(tmp_path):
    folders = [rank_folder(tmp_path / str(number), 0) for number in range(20)]
    for folder in folders:
        folder.mkdir(parents=True)
    processes = [
        subprocess.Popen([sys.executable, "-c", LEDGERS], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(3)
    ]
    for process in processes:
        assert process.stdout is not None
        process.stdout.readline()
    for process in processes:
        assert process.stdin is not None
        process.stdin.write("\n".join(map(str, folders)))
        process.stdin.close()
    assert [process.wait(60) for process in processes] == [0] * len(processes)
    for process in processes:
        assert process.stdout is not None
        process.stdout.close()


def test_a_switch_waits_for_its_time_and_no_longer(folder):
    path = folder / "new.db"
    with closing(connect(path, "rwc")) as holder, closing(connect(path, "rwc", timeout_s=0.2)) as other:
        holder.execute("BEGIN IMMEDIATE")
        began = time.monotonic()
        with pytest.raises(sqlite3.OperationalError, match="database is locked"):
            write_ahead(other, timeout_s=0.2)
        assert 0.2 <= time.monotonic() - began < 30
        holder.execute("COMMIT")
        write_ahead(other, timeout_s=0.2)


def test_what_is_no_lock_is_told_at_once(folder):
    connect(folder / "new.db", "rwc").close()
    with (
        closing(connect(folder / "new.db", "ro")) as connection,
        pytest.raises(sqlite3.OperationalError, match="readonly"),
    ):
        write_ahead(connection, timeout_s=3600)


def test_a_sequence_is_taken_for_numbered_parameters(tmp_path):
    with closing(connect(tmp_path / "a.db", "rwc")) as connection, warnings.catch_warnings():
        warnings.simplefilter("error")  # Python 3.12 and later say that they will refuse it
        assert connection.execute("SELECT ?2, ?1, ?1", (1, "a")).fetchall() == [("a", 1, 1)]
        assert connection.execute("SELECT ?, ?", (1, "a")).fetchall() == [(1, "a")]
        assert connection.execute("SELECT 1").fetchall() == [(1,)]
