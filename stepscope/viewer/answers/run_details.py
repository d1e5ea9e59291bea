"""What a run is: configuration, environment, attempts, ranks, delivery to each sink, sizes, and what is damaged."""

import sqlite3
from collections import Counter
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Any

from tracker_adapters.errors import StepscopeError, UnsafeFileError
from tracker_adapters.safe_files import files_below
from tracker_adapters.store.layout import BLOBS, DELIVERY_DATABASE, STORE, WRITER_LOCK, rank_folder, segments
from tracker_adapters.store.ledger import Position, read_positions
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.reading.record import RunRecord

from stepscope.runs.pending_line import sync_command
from stepscope.runs.places import open_record
from stepscope.viewer.answers.answer import Answer, json_answer
from stepscope.viewer.answers.query import Query
from stepscope.viewer.watched_runs import RunList


def run_answer(runs: RunList, query: Query) -> Answer:
    """``run?run=K``: what a run is, and what became of its artifacts."""
    key = query.run()
    run = runs.run(key)
    # What is known of a run beside its store is shown also where the store holds nothing.
    with closing(open_record(run.place)) if run.head().damage.is_all else runs.opened(key) as record:
        found = run_details(record)
    if run.folder is None:  # the record reads a copy
        found["folder"] = run.shown
    return json_answer({"key": key} | found)


def run_details(record: RunRecord) -> dict[str, Any]:
    """Returns what a run is; times are in milliseconds since 1970, sizes in bytes."""
    manifest = record.manifest
    info = manifest.info
    damage: list[str] = []
    kinds = _kinds(record, damage)
    ranks = [_rank(record, rank, manifest, damage) for rank in record.ranks]
    return {
        "name": info.name,
        "id": info.id,
        "folder": str(record.path),
        "status": info.status,
        "live": info.status == "running" and record.is_live,
        "created_ms": info.created_ns / 1e6,
        "ended_ms": None if manifest.ended_ns is None else manifest.ended_ns / 1e6,
        "tags": list(info.tags),
        "config": info.flat_config(),
        "environment": info.environment,
        "kinds": kinds,
        "ranks": ranks,
        "delivery": [sink for rank in record.ranks for sink in _delivery(record, rank, damage)],
        "sizes": _sizes(record, damage),
        "lost": manifest.lost,
        "damaged": record.damaged,
        "damage": list(dict.fromkeys([*damage, *record.damage()])),
    }


def _kinds(record: RunRecord, damage: list[str]) -> dict[str, dict[str, int]]:
    """How many names and artifacts of each kind there are, over all ranks."""
    names: Counter[str] = Counter()
    counts: Counter[str] = Counter()
    with _noting(damage):
        for info in record.names("all"):
            names[info.kind] += 1
            counts[info.kind] += info.count
    return {kind: {"names": names[kind], "artifacts": counts[kind]} for kind in sorted(names)}


def _rank(record: RunRecord, rank: int, manifest: Manifest, damage: list[str]) -> dict[str, Any]:
    folder = rank_folder(record.path, rank)
    has_ended = rank == 0 and manifest.info.status != "running"  # what is still written is how it ended
    live = not has_ended and is_locked(folder / WRITER_LOCK)
    attempts: list[dict[str, Any]] = []
    stored = 0
    with _noting(damage):
        stored = record.last_number(rank)
        found = record.attempts(rank)
        attempts = [
            {
                "attempt": one.attempt,
                "began_ms": one.began_ns / 1e6,
                "last_ms": None if one.last_ns is None else one.last_ns / 1e6,
                "stored": one.stored,
                "state": _state(manifest, rank, live=live, is_last=one is found[-1]),
            }
            for one in found
        ]
    return {
        "rank": rank,
        "live": live,
        "stored": stored,
        "segments": len(segments(folder)),
        "bytes": _bytes(record.path, f"{STORE}/{folder.name}"),
        "attempts": attempts,
    }


def _state(manifest: Manifest, rank: int, *, live: bool, is_last: bool) -> str:
    if not is_last:
        return "followed by another"
    if live:
        return "running"
    return manifest.info.status if rank == 0 else "ended"


def _delivery(record: RunRecord, rank: int, damage: list[str]) -> Iterator[dict[str, Any]]:
    folder = rank_folder(record.path, rank)
    try:
        positions = read_positions(folder)
    except (sqlite3.Error, OSError, UnsafeFileError) as error:
        damage.append(f"{folder.name}/{DELIVERY_DATABASE}: {error}")
        return
    stored = 0
    with suppress(StepscopeError, OSError, sqlite3.Error):  # told with the rank
        stored = record.last_number(rank)
    for key, position in sorted(positions.items()):
        pending = max(0, stored - position.seq)
        at_work = is_locked(folder / f"{key}.lock")
        yield {
            "rank": rank,
            "sink": position.sink,
            "target": position.target,
            "delivered": position.delivered,
            "pending": pending,
            "failed": position.failed,
            "state": position.state,
            "at_work": at_work,
            "error": position.error,
            "updated_ms": position.updated_ns / 1e6,
            "command": _command(record.path, position, rank) if pending and not at_work else "",
        }


def _command(run_folder: Path, position: Position, rank: int) -> str:
    command = sync_command(run_folder, position.sink, position.target)
    return f"{command} --rank {rank}" if rank else command


def _sizes(record: RunRecord, damage: list[str]) -> dict[str, int]:
    """The bytes of the store, of what lies beside it, and of the pages among that."""
    pages = 0
    with _noting(damage):
        pages = sum({page.sha256: page.size for page in record.pages()}.values())
    return {"store": _bytes(record.path, STORE), "blobs": _bytes(record.path, BLOBS), "pages": pages}


def _bytes(run_folder: Path, part: str) -> int:
    return sum(status.st_size for _, status in files_below(run_folder, part))


@contextmanager
def _noting(damage: list[str]) -> Iterator[None]:
    """Leaves out what cannot be read, and notes why."""
    try:
        yield
    except (StepscopeError, OSError, sqlite3.Error) as error:
        damage.append(str(error) or repr(error))
