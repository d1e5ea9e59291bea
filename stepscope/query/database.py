"""Answers a query: attaches or copies what it reads, and lets it do nothing but read."""

from __future__ import annotations

import sqlite3
import time
from collections.abc import Iterable, Iterator, Sequence
from os import PathLike
from pathlib import Path
from typing import Annotated, Any, Self

from msgspec import Meta
from tracker_adapters.errors import RunError, StepscopeError
from tracker_adapters.store.connections import GatedConnection
from tracker_adapters.store.fork_gate import inside
from tracker_adapters.store.reading.segments import looked_again
from tracker_adapters.values.checked_values import check_value

from stepscope.export.selection import Ranks, Selection
from stepscope.query.functions import Functions, explained
from stepscope.query.sources import Sources
from stepscope.runs.folders import find_runs

MAX_VALUE_BYTES = 256 * 1024 * 1024
_STEPS_BETWEEN_CHECKS = 10_000
_Seconds = Annotated[float, Meta(ge=0, description="seconds from 0")]
_DAMAGED = (sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_IOERR)
_ALLOWED = frozenset({sqlite3.SQLITE_SELECT, sqlite3.SQLITE_READ, sqlite3.SQLITE_FUNCTION, sqlite3.SQLITE_RECURSIVE})


class QueryError(StepscopeError, ValueError):
    """A query failed; the message gives the reason in one line."""


class QueryResult(Iterable[tuple[Any, ...]]):
    """The answer: ``columns`` are its names; iterate over its rows once, and close it, or use it in a ``with``.

    Values are int, float, str, bytes or None. SQL has no NaN: it is None. ``unmatched`` are the names and patterns that
    matched nothing.
    """

    def __init__(
        self, connection: sqlite3.Connection, cursor: sqlite3.Cursor, guard: _Guard, unmatched: tuple[str, ...]
    ) -> None:
        self.columns = tuple(column[0] for column in cursor.description or ())
        self.unmatched = unmatched
        self._connection = connection
        self._cursor = cursor
        self._guard = guard

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        while True:
            with self._guard:
                rows = self._cursor.fetchmany(1000)
            if not rows:
                return
            yield from rows

    def close(self) -> None:
        """Closes the files that it reads."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()


def query_runs(
    runs: Sequence[str | PathLike[str]],
    sql: str,
    *,
    names: Iterable[str] = (),
    ranks: Ranks = "all",
    steps: str | tuple[int | None, int | None] | None = None,
    all_attempts: bool = False,
    timeout_s: float = 60.0,
) -> QueryResult:
    """Runs one SELECT statement over runs; see ``docs/data.md`` for the tables and functions.

    The stores are opened read-only, and SQLite refuses all other statements.

    Args:
        runs: Folders of runs, folders that contain runs, or patterns of such folders.
        sql: SQLite's SQL.
        names: Only these names or shell patterns.
        ranks: Only these ranks; ``steps`` and ``all_attempts`` as in ``export_runs``.
        steps: ``"FIRST:LAST"``.
        all_attempts: Also what a later attempt recorded again at the same step.
        timeout_s: The time limit in seconds.

    Raises:
        NotARunError: When there is no run at one of the places.
        ExportError: For a wrong argument.
        QueryError: For SQL that is wrong, does more than read, or takes too long; also while rows are fetched.
        RunError: When a run's store cannot be read.
    """
    check_value("timeout_s", timeout_s, _Seconds, QueryError)
    selection = Selection.checked(names=names, ranks=ranks, steps=steps, all_attempts=all_attempts)
    folders = find_runs(runs)
    return looked_again(lambda: _answered(folders, sql, selection, timeout_s))


def _answered(folders: Sequence[Path], sql: str, selection: Selection, timeout_s: float) -> QueryResult:
    # An unnamed database is a temporary file that stays in memory while it is small.
    connection = sqlite3.connect("", uri=True, isolation_level=None, factory=GatedConnection)
    try:
        sources = Sources(connection, folders, selection)
        guard = _Guard(connection, Functions(connection, sources.run_of_origin), timeout_s)
        sources.prepare()
        tables = guard.tables_read_by(sql)
        with guard:
            sources.load(tables, guard.check_time)
        connection.execute("PRAGMA query_only=ON")
        with guard:
            connection.set_authorizer(guard.only_reading)
            return QueryResult(connection, connection.execute(sql), guard, selection.unused())
    except BaseException:
        connection.close()
        raise


class _Guard:
    """Turns SQLite's errors into QueryError, and ends a query that takes too long."""

    def __init__(self, connection: sqlite3.Connection, functions: Functions, timeout_s: float) -> None:
        self._connection = connection
        self._functions = functions
        self._timeout_s = timeout_s
        self._deadline = time.monotonic() + timeout_s
        self._read: set[str] = set()
        self._refused = ""
        connection.setlimit(sqlite3.SQLITE_LIMIT_LENGTH, MAX_VALUE_BYTES)
        connection.set_progress_handler(self._is_over, _STEPS_BETWEEN_CHECKS)

    def tables_read_by(self, sql: str) -> set[str]:
        """Returns the names of all tables that a statement reads, through views too; it is not run.

        Raises:
            QueryError: When it is wrong or does more than read.
        """
        with self:
            # SQLite makes the table functions of JSON when they are first used, which is more than reading.
            self._connection.execute("SELECT 1 FROM json_each('[]'), json_tree('[]')").close()
            self._connection.set_authorizer(self.only_reading)
            self._connection.execute(f"EXPLAIN {sql}").close()
        self._connection.set_authorizer(None)
        return self._read

    def only_reading(self, action: int, first: str | None, second: str | None, *where: str | None) -> int:
        """SQLite asks this for each thing that a statement does."""
        if action == sqlite3.SQLITE_READ and first:
            self._read.add(first)
        if action in _ALLOWED and not (action == sqlite3.SQLITE_FUNCTION and second == "load_extension"):
            return sqlite3.SQLITE_OK
        self._refused = "queries can only read: SELECT, WITH … SELECT or VALUES"
        return sqlite3.SQLITE_DENY

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, traceback: object) -> None:
        # ProgrammingError: several statements, or parameters without values.
        if isinstance(error, (sqlite3.Error, sqlite3.Warning)):
            if self._functions.error is not None:
                raise QueryError(explained(self._functions.error)) from error
            self.check_time()
            # Ctrl-C, in what SQLite calls now and then.
            if getattr(error, "sqlite_errorname", "") == "SQLITE_INTERRUPT":
                raise KeyboardInterrupt from error
            if getattr(error, "sqlite_errorcode", 0) & 0xFF in _DAMAGED and (damaged := self._damaged_file()):
                raise RunError(f"cannot read {damaged}: {error}") from error
            raise QueryError(self._refused or f"SQL: {error}") from error
        if isinstance(error, UnicodeEncodeError):
            raise QueryError(f"SQL: {error}") from error

    def check_time(self) -> None:
        """Raises QueryError when the query has taken too long."""
        if self._is_over():
            raise QueryError(f"the query took longer than {self._timeout_s:g} s")

    def _damaged_file(self) -> str:
        """The file that is damaged, of those attached; SQLite does not say which one it was reading."""
        self._connection.set_authorizer(None)
        attached = self._connection.execute("PRAGMA database_list").fetchall()
        for _, schema, path in attached:
            try:
                found = self._connection.execute(f"PRAGMA {schema}.quick_check(1)").fetchone()
            except sqlite3.DatabaseError as error:
                if error.sqlite_errorcode & 0xFF in _DAMAGED:
                    return str(path)
                return ""  # the query's time is over
            if found != ("ok",):
                return str(path)
        return ""

    def _is_over(self) -> bool:
        inside().step_aside()
        return time.monotonic() > self._deadline
