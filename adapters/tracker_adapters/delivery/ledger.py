"""The ledger: how far each sink is, committed together with the sink's token."""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
import time
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Self, TypeAlias

from tracker_adapters.store.layout import DELIVERY_DATABASE

LaneState: TypeAlias = Literal["waiting", "delivering", "retrying", "quarantined", "done"]

_DDL = """
CREATE TABLE IF NOT EXISTS cursor(
    key TEXT PRIMARY KEY, sink TEXT NOT NULL, target TEXT NOT NULL, seq INTEGER NOT NULL, token BLOB,
    delivered INTEGER NOT NULL, failed TEXT NOT NULL, state TEXT NOT NULL, error TEXT NOT NULL,
    updated_ns INTEGER NOT NULL) WITHOUT ROWID
"""
_PASSWORD = re.compile(r"(?<=://)[^/@\s]+@")


@dataclass(frozen=True, slots=True)
class Position:
    """One sink's line in the ledger.

    ``seq`` is the last artifact taken; ``delivered`` and the sum of ``failed`` add up to it. ``error`` is the last
    failure's message, empty while all is well. ``target`` shows no password.
    """

    sink: str
    target: str
    seq: int = 0
    token: bytes | None = None
    delivered: int = 0
    failed: dict[str, int] = field(default_factory=dict)
    state: LaneState = "waiting"
    error: str = ""
    updated_ns: int = 0


def position_key(sink: str, target: str) -> str:
    """Returns the key of a sink's position: its type and a checksum of its resolved target."""
    return f"{sink}-{hashlib.sha256(target.encode()).hexdigest()[:16]}"


class Ledger:
    """All positions of one rank's store; each thread opens its own, and closes it or uses it as a context manager."""

    def __init__(self, rank_folder: Path, *, timeout_s: float = 10.0) -> None:
        """Opens the database; each statement waits at most ``timeout_s`` for a lock on it."""
        self._connection = sqlite3.connect(rank_folder / DELIVERY_DATABASE, isolation_level=None, timeout=timeout_s)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=NORMAL")
        self._connection.execute(_DDL)

    def register(self, sink: str, target: str) -> Position:
        """Returns the sink's position, at the start for a sink that is new to this run."""
        key = position_key(sink, target)
        shown = _PASSWORD.sub("***@", target)
        self._connection.execute(
            "INSERT OR IGNORE INTO cursor VALUES (?,?,?,0,NULL,0,'{}','waiting','',?)",
            (key, sink, shown, time.time_ns()),
        )
        return self.positions()[key]

    def positions(self) -> dict[str, Position]:
        """Returns all positions by key."""
        rows = self._connection.execute(
            "SELECT key, sink, target, seq, token, delivered, failed, state, error, updated_ns FROM cursor"
        ).fetchall()
        return {
            key: Position(sink, target, seq, token, delivered, json.loads(failed), state, error, updated_ns)
            for key, sink, target, seq, token, delivered, failed, state, error, updated_ns in rows
        }

    def advance(self, key: str, old: Position, *, seq: int, token: bytes, unshown: Mapping[str, int]) -> Position:
        """Commits a new cursor and its token in one transaction; returns the new position.

        Raises:
            sqlite3.OperationalError: When it could not be committed, or the sink's line is gone.
        """
        failed = dict(Counter(old.failed) + Counter(unshown))
        delivered = seq - sum(failed.values())
        updated = self._connection.execute(
            "UPDATE cursor SET seq=?, token=?, delivered=?, failed=?, state='delivering', error='', updated_ns=? "
            "WHERE key=?",
            (seq, token, delivered, json.dumps(failed), time.time_ns(), key),
        )
        if updated.rowcount != 1:
            raise sqlite3.OperationalError(f"the ledger no longer knows {key}")
        return Position(old.sink, old.target, seq, token, delivered, failed, "delivering")

    def start_over(self, key: str, old: Position) -> Position:
        """Puts a sink back to the first artifact."""
        self._connection.execute(
            "UPDATE cursor SET seq=0, token=NULL, delivered=0, failed='{}', updated_ns=? WHERE key=?",
            (time.time_ns(), key),
        )
        return Position(old.sink, old.target)

    def note(self, key: str, state: LaneState, error: str = "") -> None:
        """Records what a sink is doing."""
        self._connection.execute(
            "UPDATE cursor SET state=?, error=?, updated_ns=? WHERE key=?",
            (state, _PASSWORD.sub("***@", error), time.time_ns(), key),
        )

    def close(self) -> None:
        """Closes the connection."""
        self._connection.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc: object) -> None:
        self.close()
