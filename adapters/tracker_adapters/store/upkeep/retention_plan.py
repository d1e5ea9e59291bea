"""Plans what ``retain`` would do to a run, without doing it; sizes are estimates."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tracker_adapters.store.blobs import blob_size
from tracker_adapters.store.layout import (
    WRITER_LOCK,
    SegmentName,
    compacted_path,
    rank_folder,
    ranks,
    segment_name,
)
from tracker_adapters.store.lock import is_locked
from tracker_adapters.store.segments.check import Faults, blobs_of
from tracker_adapters.store.upkeep.retention import (
    SLACK_BYTES,
    WORTHWHILE,
    Sealed,
    cheapest,
    run_bytes,
    sealed_segments,
)


@dataclass(frozen=True, slots=True)
class PlannedSegment:
    """A segment that would come about.

    ``first`` and ``last`` are the numbers that it covers, ``level`` how often its content is thinned by half in all,
    ``is_taken`` whether every sink of the run has taken it already. ``bytes_after`` is an estimate; both sizes are with
    the files beside the store.
    """

    rank: int
    first: int
    last: int
    level: int
    bytes_before: int
    bytes_after: int
    is_taken: bool


@dataclass(frozen=True, slots=True)
class Plan:
    """The segments that would come about, the run's bytes then, and how many sealed segments stay as they are.

    ``damaged`` are those of the latter that cannot be read, and what is wrong with each.
    """

    made: tuple[PlannedSegment, ...]
    bytes_after: int
    kept: int
    damaged: Mapping[Path, str]


def plan(run_folder: Path, max_bytes: int) -> Plan:
    """Returns what ``retain`` would do; each halving is taken to leave half of a segment and of the files beside it.

    Args:
        run_folder: The run.
        max_bytes: What it may take.

    Raises:
        sqlite3.Error: When a segment cannot be read.
        OSError: Likewise.
    """
    found: dict[Path, list[Sealed]] = {}
    faults = Faults(run_folder)
    for folder in (rank_folder(run_folder, rank) for rank in ranks(run_folder)):
        found[folder] = sealed_segments(folder, not is_locked(folder / WRITER_LOCK), {}, faults)
    before = {folder: list(sealed) for folder, sealed in found.items()}
    beside = _bytes_beside(run_folder, found, faults)
    total, stuck = run_bytes(run_folder), set[Path]()
    while total > max_bytes:
        choice = cheapest(found, max_bytes, stuck | faults.named().keys())
        if choice is None:
            break
        folder, level, paths = choice
        if any(faults.of(path) for path in paths if path.exists()):  # others would be made of those that exist
            continue
        parts = [sealed for sealed in found[folder] if sealed.path in paths]
        made = _estimated(folder, parts, level)
        nbytes = sum(part.nbytes for part in parts)
        beside[made.path] = sum(beside[part.path] >> (level - part.level) for part in parts)
        saved = nbytes - made.nbytes + sum(beside[part.path] for part in parts) - beside[made.path]
        if saved <= 0:
            stuck.update(paths)
            continue
        if saved < (1 - WORTHWHILE) * nbytes:
            stuck.add(made.path)
        total -= saved
        place = found[folder].index(parts[0])
        found[folder][place : place + len(parts)] = [made]
    planned = [
        _planned(folder, sealed, before[folder], beside)
        for folder, now in found.items()
        for sealed in now
        if sealed not in before[folder]
    ]
    return Plan(tuple(planned), total, sum(map(len, found.values())) - len(planned), faults.named())


def _bytes_beside(run_folder: Path, found: Mapping[Path, Sequence[Sealed]], faults: Faults) -> dict[Path, int]:
    """The bytes of the files that each segment refers to; one that several refer to counts for the first of them."""
    counted = set[str]()
    beside = {}
    for sealed in (sealed for of_rank in found.values() for sealed in of_rank):
        new: set[str] = set()
        with faults.noted(sealed.path):
            new = blobs_of(sealed.path) - counted
        counted |= new
        beside[sealed.path] = sum(blob_size(run_folder, sha256) or 0 for sha256 in new)
    return beside


def _estimated(folder: Path, parts: list[Sealed], level: int) -> Sealed:
    names = [segment_name(part.path) for part in parts]
    path = compacted_path(folder, SegmentName(names[0].first, names[-1].last, level))
    nbytes = max(SLACK_BYTES, sum(part.nbytes >> (level - part.level) for part in parts))
    return Sealed(path, nbytes, level, parts[-1].last_seq, all(part.is_taken for part in parts))


def _planned(folder: Path, sealed: Sealed, before: list[Sealed], beside: Mapping[Path, int]) -> PlannedSegment:
    name = segment_name(sealed.path)
    parts = [part for part in before if name.first <= segment_name(part.path).first <= name.last]
    return PlannedSegment(
        rank=int(folder.name.removeprefix("rank_")),
        first=name.first,
        last=name.last,
        level=name.level,
        bytes_before=sum(part.nbytes + beside[part.path] for part in parts),
        bytes_after=sealed.nbytes + beside[sealed.path],
        is_taken=sealed.is_taken,
    )
