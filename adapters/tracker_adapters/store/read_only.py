"""How a reader opens a database of a run: read-only, whatever state its writer left it in."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar

from tracker_adapters.store.connections import GatedConnection, connect, tried_again

T = TypeVar("T")
_ROLLBACK_TIMEOUT_S = 0.25


def opened_to_read(path: Path, look: Callable[[GatedConnection], T]) -> tuple[GatedConnection, T]:
    """Opens a database read-only, also on a medium that cannot be written; returns it with what ``look`` returns of it.

    A writer that was killed while it made the database, or closed it, leaves a rollback journal. What it had not
    committed is rolled back where the folder may be written, and overlooked where not.
    The caller closes the connection.

    Raises:
        UnsafeFileError: As ``connect``.
        sqlite3.Error: When it cannot be read.
    """
    try:
        # A new database has a rollback journal until it has a log. When it goes between two looks, SQLite takes it for
        # one that a dead writer left, and a reader may not roll back.
        return tried_again(
            lambda: _opened(path, look),
            lambda code: code == sqlite3.SQLITE_READONLY_ROLLBACK,
            timeout_s=_ROLLBACK_TIMEOUT_S,
        )
    except sqlite3.OperationalError as error:
        if not os.access(path.parent, os.W_OK):
            # WAL needs shared memory beside the file; on a read-only medium there is no writer to share it with.
            return _opened(path, look, immutable=True)
        if error.sqlite_errorcode != sqlite3.SQLITE_READONLY_ROLLBACK:
            raise
    with closing(connect(path, "rw")) as connection:
        look(connection)  # SQLite rolls back before it reads, unless a living writer holds its lock
    return _opened(path, look)


def _opened(path: Path, look: Callable[[GatedConnection], T], *, immutable: bool = False) -> tuple[GatedConnection, T]:
    connection = connect(path, "ro", immutable=immutable)
    try:
        return connection, look(connection)
    except BaseException:
        connection.close()
        raise
