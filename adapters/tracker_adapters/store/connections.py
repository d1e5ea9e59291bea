"""How every database of a run is opened: a regular file below the run's folder, that cannot run code of its own."""

from __future__ import annotations

import re
import sqlite3
import time
from collections.abc import Callable, Iterable
from contextlib import closing, suppress
from functools import cache, lru_cache, partial, wraps
from pathlib import Path
from typing import Any, Literal, TypeVar

from tracker_adapters.safe_files import check_journal, give_own_copy, place_of, remove_file, status_of
from tracker_adapters.store.fork_gate import inside
from tracker_adapters.store.layout import below_run

T = TypeVar("T")
JOURNAL = "-journal"
SUFFIXES = ("", "-wal", "-shm", JOURNAL)
"""What SQLite opens for a database, behind its path."""
_ROWS_AT_ONCE = 1024
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.001, 0.05


def _gated(method: Callable[..., Any]) -> Any:
    """Returns a method of SQLite's that is inside the gate, and has one kind of error for damage.

    Python reads SQLite's own message as UTF-8. A message that quotes a damaged schema may be none, and the error would
    then be of Python's, about the message.
    """

    @wraps(method)
    def call(*args: Any) -> Any:
        with inside():
            try:
                return method(*args)
            except UnicodeDecodeError as error:
                raise sqlite3.DatabaseError(
                    f"SQLite reports damage in a message that is not UTF-8: {error.object!r}"
                ) from error

    return call


@lru_cache(1024)
def _has_numbers(statement: str) -> bool:
    return re.search(r"\?\d", statement) is not None


class GatedCursor(sqlite3.Cursor):
    """A cursor that is inside the gate whenever SQLite is at work, and outside between two parts of its rows."""

    _execute: Any = _gated(sqlite3.Cursor.execute)
    executemany: Any = _gated(sqlite3.Cursor.executemany)
    executescript: Any = _gated(sqlite3.Cursor.executescript)
    fetchone: Any = _gated(sqlite3.Cursor.fetchone)
    fetchmany: Any = _gated(sqlite3.Cursor.fetchmany)
    close: Any = _gated(sqlite3.Cursor.close)
    __next__: Any = _gated(sqlite3.Cursor.__next__)

    def execute(self, statement: str, parameters: Any = ()) -> Any:
        """Also takes a sequence for parameters that are numbered, such as ``?1``: Python 3.14 wants them by name."""
        if parameters and _has_numbers(statement):
            parameters = {str(number): value for number, value in enumerate(parameters, 1)}
        return self._execute(statement, parameters)

    def fetchall(self) -> list[Any]:  # noqa: D102 - every cursor has it
        rows: list[Any] = []
        while part := self.fetchmany(_ROWS_AT_ONCE):
            rows += part
        return rows


class GatedConnection(sqlite3.Connection):
    """A connection that is inside the gate whenever SQLite is at work, and so are its cursors; see ``fork_gate``."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        with inside():
            super().__init__(*args, **kwargs)

    def cursor(self, factory: Any = GatedCursor) -> Any:  # noqa: D102 - these are what every connection has
        return super().cursor(factory)

    def execute(self, *args: Any) -> Any:  # noqa: D102
        return self.cursor().execute(*args)

    def executemany(self, *args: Any) -> Any:  # noqa: D102
        return self.cursor().executemany(*args)

    def executescript(self, *args: Any) -> Any:  # noqa: D102
        return self.cursor().executescript(*args)

    def close(self) -> None:  # noqa: D102
        with inside():
            super().close()


def connect(
    path: Path, mode: Literal["ro", "rw", "rwc"], *, immutable: bool = False, timeout_s: float = 10.0
) -> GatedConnection:
    """Opens a database in a rank's folder; transactions are begun by hand.

    Text that is no UTF-8 comes as bytes, so that whoever checks types finds it.

    Args:
        path: The database, in the folder of one rank's store.
        mode: Whether it is read, written, or also made.
        immutable: Whether it lies where nobody can change it, nor make files beside it.
        timeout_s: How long a statement waits for a lock.

    Raises:
        UnsafeFileError: When it, a file that belongs to it, or a folder on the way from the run's is a link or no
            regular file, or its journal names another file.
        sqlite3.Error: When it cannot be opened.
    """
    check_files(path)
    uri = f"{path.resolve().as_uri()}?mode={mode}" + ("&immutable=1" if immutable else "")
    connection = sqlite3.connect(
        uri, uri=True, isolation_level=None, timeout=timeout_s, check_same_thread=False, factory=GatedConnection
    )
    connection.text_factory = _text
    connection.execute("PRAGMA trusted_schema=OFF")
    return connection


def write_ahead(connection: sqlite3.Connection, *, timeout_s: float) -> None:
    """Has a database keep a write-ahead log, with commits that survive a killed process.

    The switch reads the database before it writes it. SQLite waits for no lock then, because two that do so at once
    would wait for each other: so it is tried again here.

    Args:
        connection: The database, outside a transaction.
        timeout_s: How long others may hold it.

    Raises:
        sqlite3.OperationalError: When they held it longer, or it cannot be written.
    """
    tried_again(
        partial(connection.execute, "PRAGMA journal_mode=WAL"),
        lambda code: code & 0xFF == sqlite3.SQLITE_BUSY,
        timeout_s=timeout_s,
    )
    # A power cut may take the last commits, never the file.
    connection.execute("PRAGMA synchronous=NORMAL")


def tried_again(attempt: Callable[[], T], passes: Callable[[int], bool], *, timeout_s: float) -> T:
    """Returns what ``attempt`` returns; it is made again for ``timeout_s`` while its error is one that passes.

    Args:
        attempt: What may raise sqlite3.OperationalError.
        passes: Whether an error of this extended code may be gone at the next attempt.
        timeout_s: After so many seconds the error is raised.
    """
    deadline, pause_s = time.monotonic() + timeout_s, _FIRST_PAUSE_S
    while True:
        try:
            return attempt()
        except sqlite3.OperationalError as error:
            if not passes(error.sqlite_errorcode) or time.monotonic() >= deadline:
                raise
        time.sleep(pause_s)
        pause_s = min(2 * pause_s, _LONGEST_PAUSE_S)


def snapshot(path: Path, target: Path) -> None:
    """Copies a database, with what its log holds, to a file of its own without a log; raises as ``connect``."""
    with closing(connect(path, "rw")) as source, closing(connect(target, "rwc")) as copy:
        source.backup(copy)
        copy.execute("PRAGMA journal_mode=DELETE")


def check_files(path: Path) -> None:
    """Raises UnsafeFileError unless a database, and what SQLite keeps beside it, are regular files or missing.

    Nor may its journal name another file; see ``check_journal``.
    """
    folder, relative = below_run(path)
    with suppress(FileNotFoundError), place_of(folder, relative) as place:
        if JOURNAL in place.present(SUFFIXES):
            check_journal(folder, f"{relative}{JOURNAL}")


def unshare(path: Path) -> None:
    """Gives a database that has other names, by hard links, files of its own: what has the others is not changed.

    The caller is the only one that has it open for writing, or is about to.

    Raises:
        UnsafeFileError: As ``connect``.
        OSError: When there is no room for a copy.
    """
    for suffix in SUFFIXES:
        place = below_run(Path(f"{path}{suffix}"))
        status = status_of(*place)
        if status is not None and status.st_nlink > 1:
            # Shared memory is made anew from the log.
            remove_file(*place) if suffix == "-shm" else give_own_copy(*place)


def is_damage(error: Exception) -> bool:
    """Whether an error of SQLite's is about what a database holds, and not about the place where it lies."""
    return isinstance(error, sqlite3.DatabaseError) and not isinstance(error, sqlite3.OperationalError)


def check_tables(connection: sqlite3.Connection, *ddl: str) -> bool:
    """Whether a database has been filled: false for an empty one.

    Views, triggers, expressions and tables of another shape would run or return what their author wants.

    Args:
        connection: The database.
        ddl: Scripts, one of which is all that it may have been made with.

    Raises:
        sqlite3.DatabaseError: When it holds anything else.
    """
    found = _tables(connection)
    if not found:
        return False
    if not has_shape(found, *ddl):
        strange = sorted({f"{row[0]} {row[1]}" for row in found.difference(*map(_expected, ddl))})
        raise sqlite3.DatabaseError(f"its tables are not those of a run: {', '.join(strange)[:200] or 'some are gone'}")
    return True


def has_shape(found: Iterable[Any], *ddl: str) -> bool:
    """Whether rows (type, name, tbl_name, sql) of a schema are those that one of the scripts makes."""
    return frozenset(found) in map(_expected, ddl)


@cache
def _expected(ddl: str) -> frozenset[Any]:
    with inside():
        connection = sqlite3.connect(":memory:", factory=GatedConnection)
        connection.executescript(ddl)
        found = _tables(connection)
        connection.close()
    return found


def _tables(connection: sqlite3.Connection) -> frozenset[Any]:
    rows: Iterable[Any] = connection.execute("SELECT type, name, tbl_name, sql FROM sqlite_master").fetchall()
    return frozenset(rows)


def _text(raw: bytes) -> str | bytes:
    try:
        return raw.decode()
    except UnicodeDecodeError:
        return raw
