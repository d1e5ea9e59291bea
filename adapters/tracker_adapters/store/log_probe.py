"""Tests whether SQLite can keep a write-ahead log in a folder, which needs shared memory."""

import contextlib
import secrets
import sqlite3
from pathlib import Path

from tracker_adapters.store.connections import SUFFIXES


def why_no_log(folder: Path, *, vfs: str | None = None) -> str:
    """Returns why SQLite can keep no write-ahead log in a folder, which is tried there; empty when it can.

    Args:
        folder: It exists.
        vfs: Another one of SQLite's ways to use files than its own choice, for tests.

    Raises:
        OSError: When nothing can be written there, which says nothing about a log.
    """
    probe = folder / f".stepscope-probe-{secrets.token_hex(4)}.db"
    probe.touch()
    try:
        uri = f"{probe.absolute().as_uri()}{f'?vfs={vfs}' if vfs else ''}"
        with contextlib.closing(sqlite3.connect(uri, uri=True, isolation_level=None)) as connection:
            mode: str = connection.execute("PRAGMA journal_mode=WAL").fetchone()[0]
            connection.execute("CREATE TABLE probe(x)")
    except sqlite3.Error as error:
        return str(error)
    else:
        return "" if mode == "wal" else f"SQLite chose the journal mode {mode}"
    finally:
        for suffix in SUFFIXES:
            with contextlib.suppress(OSError):
                Path(f"{probe}{suffix}").unlink(missing_ok=True)
