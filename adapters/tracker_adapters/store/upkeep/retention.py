"""Keeps a run's folder within a number of bytes, by compacting its oldest segments."""

import contextlib
import sqlite3
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, field
from pathlib import Path

from tracker_adapters.errors import DamagedError, RunBusyError
from tracker_adapters.safe_files import files_below, status_of
from tracker_adapters.store.layout import (
    BLOBS,
    COMPACTION_LOCK,
    DELIVERY_DATABASE,
    STORE,
    WRITER_LOCK,
    below_run,
    rank_folder,
    ranks,
    replaced_segments,
    segment_name,
    segments,
)
from tracker_adapters.store.ledger import Ledger
from tracker_adapters.store.lock import FileLock
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.check import Faults
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.segment import SEGMENT_BYTES
from tracker_adapters.store.upkeep.blob_sweep import BLOB_GRACE_S, sweep_blobs
from tracker_adapters.store.upkeep.compaction import compact, remove_segment

SEGMENTS_IN_LIMIT = 16
"""A run that has a limit has segments of a sixteenth of it, or of their usual size where that is less."""
MIN_SEGMENT_BYTES = 128 * 1024
SLACK_BYTES = 64 * 1024
"""What an empty segment takes."""
MAX_LEVEL = 40
WORTHWHILE = 0.9
"""A segment that compacting leaves larger than this share of its parts is not compacted again at once."""
RECENT_SHARE = 0.25
"""The newest segments, up to this share of the limit, are compacted after the others."""
UNTAKEN_LEVELS = 4
"""What some sink has not taken yet is thinned when what all have taken is as much coarser: 2**4 times."""
NOTES_SHARE = 0.25
LOCK_TIMEOUT_S = 10.0


@dataclass(frozen=True, slots=True)
class Sealed:
    """A sealed segment: its path, size, level, last number, and whether all sinks that the run knows have taken it."""

    path: Path
    nbytes: int
    level: int
    last_seq: int
    is_taken: bool


@dataclass(frozen=True, slots=True)
class Retained:
    """What was done: the run's bytes before and after, and how many segments were replaced by how many.

    ``damaged`` are the segments that stay as they are since not all of them can be read, and what is wrong with each.
    """

    bytes_before: int
    bytes_after: int
    replaced: int = 0
    made: int = 0
    damaged: Mapping[Path, str] = field(default_factory=dict)


def segment_bytes_within(max_bytes: int) -> int:
    """Returns the size of the segments of a run that may take ``max_bytes``."""
    return min(SEGMENT_BYTES, max(max_bytes // SEGMENTS_IN_LIMIT, MIN_SEGMENT_BYTES))


def run_bytes(run_folder: Path) -> int:
    """Returns what a run's store and the files beside it take; what sinks write into its folder is not counted."""
    return sum(status.st_size for part in (STORE, BLOBS) for _, status in files_below(run_folder, part))


def retain(run_folder: Path, max_bytes: int, *, whole: bool = True, blob_grace_s: float = BLOB_GRACE_S) -> Retained:
    """Compacts sealed segments until the run takes at most ``max_bytes``, or nothing more can be made smaller.

    The least compacted ones come first, of these the oldest, and two neighbours of one level become one of the next.
    Recent segments come after the others. Those that some sink has not taken yet stay whole until the others are 16
    times as coarse. A segment that is damaged somewhere stays as it is, and while one is, so do files beside the store
    that it may refer to.

    Args:
        run_folder: The run.
        max_bytes: What it may take.
        whole: Whether the last segment may be compacted too where no process writes to it, which keeps writers out
            until it is done.
        blob_grace_s: How old a file beside the store must be before it can be removed, in seconds.

    Raises:
        RunBusyError: When another process compacts the run.
        sqlite3.Error: When a segment cannot be read or written.
        OSError: Likewise.
    """
    lock = FileLock(run_folder / STORE / COMPACTION_LOCK)
    if not lock.acquire_within(LOCK_TIMEOUT_S):
        raise RunBusyError(f"another process compacts {run_folder}; try again when it is done")
    try:
        return _retain(run_folder, max_bytes, whole, blob_grace_s)
    finally:
        lock.release()


def _retain(run_folder: Path, max_bytes: int, whole: bool, blob_grace_s: float) -> Retained:
    folders = [rank_folder(run_folder, rank) for rank in ranks(run_folder)]
    faults = Faults(run_folder)
    for folder in folders:
        _remove_replaced(folder, faults)
    before = run_bytes(run_folder)
    replaced = made = 0
    stuck: set[Path] = set()
    last_seqs: dict[Path, int] = {}
    with contextlib.ExitStack() as held:
        ended = {folder for folder in folders if whole and _hold_if_ended(folder, held)}
        if len(ended) == len(folders):  # nobody writes, so what no row refers to is left over
            blob_grace_s = 0.0
        in_use = _bytes_in_use(run_folder, faults, blob_grace_s)
        while in_use > max_bytes:
            found = {folder: sealed_segments(folder, folder in ended, last_seqs, faults) for folder in folders}
            choice = cheapest(found, max_bytes, stuck | faults.named().keys())
            if choice is None:
                break
            _, level, parts = choice
            if any(faults.of(part) for part in parts):
                continue
            nbytes = sum(map(_size, parts))
            made_segment = None
            with faults.noted(*parts):
                made_segment = compact(
                    run_folder, parts, level, notes_bytes=int(NOTES_SHARE * max_bytes / SEGMENTS_IN_LIMIT)
                )
            if made_segment is None:
                stuck.update(parts)
                continue
            before_it, in_use = in_use, _bytes_in_use(run_folder, faults, blob_grace_s)
            if before_it - in_use < (1 - WORTHWHILE) * nbytes:
                stuck.add(made_segment)
            replaced, made = replaced + len(parts), made + 1
    return Retained(before, run_bytes(run_folder), replaced, made, faults.named())


def _remove_replaced(folder: Path, faults: Faults) -> None:
    """Removes what a compaction that was cut short has left, unless what stands for it is damaged."""
    names = {path: segment_name(path) for path in segments(folder)}
    for path in replaced_segments(folder):
        first = segment_name(path).first
        if not any(faults.of(made) for made, name in names.items() if name.first <= first <= name.last):
            remove_segment(path)


def _bytes_in_use(run_folder: Path, faults: Faults, blob_grace_s: float) -> int:
    """What a run takes without the files that will go when they are old enough; removes those that are."""
    waiting = sweep_blobs(run_folder, faults, blob_grace_s)
    return run_bytes(run_folder) - waiting


_Cost = tuple[bool, int, bool, int]


def cheapest(
    found: Mapping[Path, Sequence[Sealed]], max_bytes: int, stuck: Set[Path]
) -> tuple[Path, int, list[Path]] | None:
    """Returns what to compact next: the rank's folder, the level that results, and the parts; None for nothing more.

    Args:
        found: The sealed segments of each rank's folder, in order.
        max_bytes: What the run may take.
        stuck: Segments that do not become smaller any more.
    """
    choices = [
        (*choice, folder)
        for folder, sealed in found.items()
        if (choice := _choice(sealed, max_bytes, stuck)) is not None
    ]
    if not choices:
        return None
    _, level, parts, folder = min(choices)
    return folder, level, parts


def _choice(found: Sequence[Sealed], max_bytes: int, stuck: Set[Path]) -> tuple[_Cost, int, list[Path]] | None:
    """What to compact next in a rank's folder: the cost by which to compare, the level that results, and the parts."""
    recent_from, room = len(found), RECENT_SHARE * max_bytes
    while recent_from and found[recent_from - 1].nbytes <= room:
        recent_from -= 1
        room -= found[recent_from].nbytes
    choices = []
    for place in range(len(found)):
        for parts in (found[place : place + 1], found[place : place + 2]):
            level = _resulting_level(parts, segment_bytes_within(max_bytes))
            if level is None or level > MAX_LEVEL or any(part.path in stuck for part in parts):
                continue
            is_recent = place + len(parts) > recent_from
            # A sink that stalls for long must not cost the store all that came before.
            coarseness = level if all(part.is_taken for part in parts) else level + UNTAKEN_LEVELS
            cost = (is_recent, coarseness, len(parts) == 1, place)
            choices.append((cost, level, [part.path for part in parts]))
    return min(choices, default=None)


def _resulting_level(parts: Sequence[Sealed], segment_bytes: int) -> int | None:
    """The level of a segment made of one or two; None for two that should not become one.

    Two of one level become one of their size. Two of different levels only where they are small: the finer one becomes
    as coarse as the other.
    """
    levels, nbytes = {part.level for part in parts}, sum(part.nbytes for part in parts)
    if len(levels) == 1:
        return levels.pop() + 1 if len(parts) == 1 or nbytes <= 2 * segment_bytes + SLACK_BYTES else None
    return max(levels) if nbytes <= segment_bytes // 2 else None


def sealed_segments(folder: Path, ended: bool, last_seqs: dict[Path, int], faults: Faults) -> list[Sealed]:
    """Returns a rank's sealed segments in order, also those that cannot be opened.

    Args:
        folder: The rank's folder.
        ended: Whether nobody writes to it: then the last segment counts as sealed.
        last_seqs: What is known of paths already; filled in.
        faults: Told of the segments that cannot be opened.
    """
    taken = _taken(folder)
    found = []
    paths = segments(folder)
    for path in paths[: None if ended else -1]:
        if path not in last_seqs:
            with faults.noted(path):
                connection = schema.open_for_reading(path)
                if connection is None:
                    if path == paths[-1]:  # a crash has left it, and there is nothing in it
                        continue
                    raise DamagedError("it has no tables")
                with contextlib.closing(connection):
                    last_seqs[path] = Segment(connection, folder).last_seq()
        last_seq = last_seqs.get(path, 0)
        is_taken = path in last_seqs and last_seq <= taken
        found.append(Sealed(path, _size(path), segment_name(path).level, last_seq, is_taken))
    return found


def _taken(folder: Path) -> float:
    """Number of the last artifact that every sink of the run has taken; infinity for a run without sinks."""
    if status_of(*below_run(folder / DELIVERY_DATABASE)) is None:
        return float("inf")
    try:
        with Ledger(folder) as ledger:
            return min((position.seq for position in ledger.positions().values()), default=float("inf"))
    except sqlite3.Error:
        return 0


def _hold_if_ended(folder: Path, held: contextlib.ExitStack) -> bool:
    """Whether nobody writes to a rank's store; nobody can until ``held`` is closed then."""
    lock = FileLock(folder / WRITER_LOCK)
    if not lock.acquire():
        return False
    held.callback(lock.release)
    return True


def _size(path: Path) -> int:
    try:
        status = path.lstat()
    except OSError:
        return 0
    return status.st_size
