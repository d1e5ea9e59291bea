"""The ledger: the cursor and the token of each sink, committed together."""

import hashlib
import json
import os
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Annotated, Any, Literal, Self, TypeAlias

import msgspec

from tracker_adapters.redaction import redact
from tracker_adapters.safe_files import names_in, status_of
from tracker_adapters.store.connections import check_tables, connect, unshare, write_ahead
from tracker_adapters.store.layout import DELIVERY_DATABASE, WRITER_LOCK, below_run
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.read_only import opened_to_read

DeliveryState: TypeAlias = Literal["waiting", "delivering", "retrying", "quarantined", "done"]

_DDL = """
CREATE TABLE IF NOT EXISTS cursor(
    key TEXT PRIMARY KEY, sink TEXT NOT NULL, target TEXT NOT NULL, seq INTEGER NOT NULL, token BLOB,
    delivered INTEGER NOT NULL, failed TEXT NOT NULL, state TEXT NOT NULL, error TEXT NOT NULL,
    updated_ns INTEGER NOT NULL, trying INTEGER NOT NULL, failures INTEGER NOT NULL, bisection TEXT NOT NULL,
    thinning BLOB) WITHOUT ROWID
"""
_Count = Annotated[int, msgspec.Meta(ge=0, le=2**53)]


@dataclass(frozen=True, slots=True)
class Position:
    """One sink's line in the ledger.

    ``seq`` is the last artifact taken; ``delivered`` and the sum of ``failed`` add up to it. ``error`` is the last
    failure's message, empty while all is well; ``failures`` counts those since the sink last took something.
    ``trying`` is the last artifact of the batch that the sink is being given, 0 between batches: where a process finds
    it set, the one before it died on that batch. ``bisection`` and ``thinning`` are the states of those two.
    ``target`` and ``error`` show no secrets.
    """

    sink: str
    target: str
    seq: _Count = 0
    token: bytes | None = None
    delivered: _Count = 0
    failed: dict[str, _Count] = field(default_factory=dict)
    state: DeliveryState = "waiting"
    error: str = ""
    updated_ns: int = 0
    trying: _Count = 0
    failures: _Count = 0
    bisection: str = ""
    thinning: bytes | None = None


_COLUMNS = [column.name for column in fields(Position)]


def position_key(sink: str, target: str) -> str:
    """Returns the key of a sink's position: its type and a checksum of its resolved target."""
    return f"{sink}-{hashlib.sha256(os.fsencode(target)).hexdigest()[:16]}"


def unshare_ledger(rank_folder: Path) -> None:
    """Gives a hard-linked ledger files of its own, unless a delivery may write to it now.

    Raises:
        UnsafeFileError: When it, or a folder on the way to it, is a link or no regular file.
        OSError: When there is no room for a copy.
    """
    leases = (name for name in names_in(*below_run(rank_folder)) if name.endswith(".lock") and name != WRITER_LOCK)
    if not any(is_locked(rank_folder / name) for name in leases):
        unshare(rank_folder / DELIVERY_DATABASE)


def read_positions(rank_folder: Path) -> dict[str, Position]:
    """Returns all positions by key, and changes nothing; none where nothing was ever delivered.

    Raises:
        UnsafeFileError: When the ledger, or a folder on the way to it, is a link or no regular file.
        sqlite3.Error: When it cannot be read.
    """
    path = rank_folder / DELIVERY_DATABASE
    if status_of(*below_run(path)) is None:
        return {}
    connection, is_filled = opened_to_read(path, lambda connection: check_tables(connection, _DDL))
    with closing(connection):
        return _positions(connection) if is_filled else {}


def _positions(connection: sqlite3.Connection) -> dict[str, Position]:
    rows = connection.execute(f"SELECT key, {', '.join(_COLUMNS)} FROM cursor").fetchall()
    found = {}
    for key, *row in rows:
        try:
            values = dict(zip(_COLUMNS, row, strict=True))
            values["failed"] = json.loads(values["failed"])
            found[key] = msgspec.convert(values, Position, builtin_types=(bytes,))
        except (ValueError, TypeError, RecursionError, msgspec.MsgspecError) as error:
            raise sqlite3.DatabaseError(f"{DELIVERY_DATABASE} is damaged: {error}") from error
    return found


class Ledger:
    """All positions of one rank's store; each thread opens its own, and closes it or uses it as a context manager."""

    def __init__(self, rank_folder: Path, *, timeout_s: float = 10.0) -> None:
        """Opens the database; each statement waits at most ``timeout_s`` for a lock on it."""
        self._connection = connect(rank_folder / DELIVERY_DATABASE, "rwc", timeout_s=timeout_s)
        try:
            check_tables(self._connection, _DDL)
            write_ahead(self._connection, timeout_s=timeout_s)
            self._connection.execute(_DDL)
        except BaseException:
            self._connection.close()
            raise

    def register(self, sink: str, target: str) -> Position:
        """Returns the sink's position, at the start for a sink that is new to this run."""
        key = position_key(sink, target)
        shown = redact(os.fsencode(target).decode(errors="replace"))
        self._connection.execute(
            f"INSERT OR IGNORE INTO cursor(key, {', '.join(_COLUMNS)}) "
            "VALUES (?,?,?,0,NULL,0,'{}','waiting','',?,0,0,'',NULL)",
            (key, sink, shown, time.time_ns()),
        )
        return self.positions()[key]

    def positions(self) -> dict[str, Position]:
        """Returns all positions by key."""
        return _positions(self._connection)

    def attempt(self, key: str, last_seq: int) -> None:
        """Notes that the sink is now given the artifacts up to ``last_seq``."""
        self._update(key, trying=last_seq)

    def advance(
        self,
        key: str,
        old: Position,
        *,
        seq: int,
        token: bytes | None,
        unshown: Mapping[str, int],
        bisection: str = "",
        thinning: bytes | None = None,
    ) -> Position:
        """Commits a new cursor with its token and states in one transaction; returns the new position.

        Raises:
            sqlite3.OperationalError: When it could not be committed, or the sink's line is gone.
        """
        failed = dict(Counter(old.failed) + Counter(unshown))
        new = replace(
            old,
            seq=seq,
            token=token,
            delivered=seq - sum(failed.values()),
            failed=failed,
            state="delivering",
            error="",
            updated_ns=time.time_ns(),
            trying=0,
            failures=0,
            bisection=bisection,
            thinning=thinning,
        )
        self._save(key, new)
        return new

    def start_over(self, key: str, old: Position) -> Position:
        """Puts a sink back to the first artifact."""
        new = Position(old.sink, old.target, updated_ns=time.time_ns(), failures=old.failures, bisection=old.bisection)
        self._save(key, new)
        return new

    def note_failure(self, key: str, state: DeliveryState, error: str, *, failures: int, bisection: str) -> None:
        """Records that the sink failed; nothing of what it was given is counted as delivered."""
        self._update(key, state=state, error=redact(error), failures=failures, bisection=bisection, trying=0)

    def note(self, key: str, state: DeliveryState) -> None:
        """Records what a sink that is well is doing."""
        self._update(key, state=state, error="")

    def _save(self, key: str, position: Position) -> None:
        values = {name: getattr(position, name) for name in _COLUMNS}
        self._update(key, **values | {"failed": json.dumps(position.failed)})

    def _update(self, key: str, **values: Any) -> None:
        values = {"updated_ns": time.time_ns()} | values
        assignments = ", ".join(f"{name}=?" for name in values)
        updated = self._connection.execute(f"UPDATE cursor SET {assignments} WHERE key=?", (*values.values(), key))
        if updated.rowcount != 1:
            raise sqlite3.OperationalError(f"the ledger no longer knows {key}")

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
