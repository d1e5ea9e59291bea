"""Where a run's parts lie in its folder.

::

    <run>/run.json                                  who the run is
    <run>/store/rank_00000/segment_000007.db        artifacts, in segments of consecutive numbers
    <run>/store/rank_00000/segment_000000-000003.2.db   segments 0 to 3, compacted twice
    <run>/store/rank_00000/delivery.db              each sink's position
    <run>/store/rank_00000/{writer,<sink>}.lock     held by the live writer, and by each sink's delivery
    <run>/store/compaction.lock                     held while segments are compacted
    <run>/blobs/ab/ab12…                            files by their SHA-256

What lies at the path of a sealed segment never changes: a compacted one has a name of its own, and stands for those
whose numbers it covers from the moment it is there.
"""

import os
import re
from collections.abc import Iterable, Sequence
from contextlib import suppress
from pathlib import Path, PurePath
from typing import NamedTuple

from tracker_adapters.errors import DamagedError, UnsafeFileError
from tracker_adapters.safe_files import folder_of, is_folder, names_in

SCHEMA_VERSION = 5
MANIFEST = "run.json"
STORE = "store"
BLOBS = "blobs"
DELIVERY_DATABASE = "delivery.db"
DELIVERY_LOG = "delivery.log"
WRITER_LOCK = "writer.lock"
COMPACTION_LOCK = "compaction.lock"
COMPACTION_LOG = "compaction.log"
PRIVATE = ".remote"
"""The folder in a local copy of a remote run that is about its place."""
_SEGMENT = re.compile(r"segment_(\d{1,18})(?:-(\d{1,18})\.(\d{1,18}))?\.db", re.ASCII)
_RANK = re.compile(r"rank_(\d{5,9})", re.ASCII)
_CHECKSUM = re.compile("[0-9a-f]{64}")
_TOPS = frozenset({STORE, BLOBS, PRIVATE})


class SegmentName(NamedTuple):
    """What a segment's file name says: the numbers that it covers, and how often its content was thinned by half."""

    first: int
    last: int
    level: int


def rank_folder(run_folder: Path, rank: int) -> Path:
    """Returns the folder of one rank's store."""
    return run_folder / rank_name(rank)


def rank_name(rank: int) -> str:
    """Returns the path of that folder below the run's."""
    return f"{STORE}/rank_{rank:05d}"


def ranks(run_folder: Path) -> list[int]:
    """Returns the ranks that have a store, ascending."""
    with suppress(FileNotFoundError, UnsafeFileError), folder_of(run_folder, STORE) as store:
        found = map(_RANK.fullmatch, store.names())
        return sorted({int(match[1]) for match in found if match is not None and store.has_folder(match[0])})
    return []


def no_folders(run_folder: Path, known: Sequence[int]) -> list[Path]:
    """Returns what has the name of the store's folder, or of a rank's, and is none: a link, or a file.

    Those of ``known`` ranks are folders, as ``ranks`` has found.
    """
    found = map(_RANK.fullmatch, sorted(names_in(run_folder, STORE)))
    ranks = (f"{STORE}/{match[0]}" for match in found if match is not None and int(match[1]) not in known)
    places = [STORE, *ranks] if os.path.lexists(run_folder / STORE) and not known else [*ranks]
    return [run_folder / place for place in places if not is_folder(run_folder, place)]


def segment_path(folder: Path, number: int) -> Path:
    """Returns the path of one segment in a rank's folder."""
    return folder / f"segment_{number:06d}.db"


def compacted_path(folder: Path, name: SegmentName) -> Path:
    """Returns the path of a compacted segment in a rank's folder."""
    return folder / f"segment_{name.first:06d}-{name.last:06d}.{name.level}.db"


def segment_name(path: Path) -> SegmentName:
    """Returns what the name of a segment says."""
    return _said(path.name)


def segments(folder: Path) -> list[Path]:
    """Returns the segments of a rank's folder in their order, without those that a compacted one stands for."""
    return [folder / name for name in segments_among(names_in(*below_run(folder)))[0]]


def replaced_segments(folder: Path) -> list[Path]:
    """Returns the segments that a compacted one stands for: a compaction that was cut short may leave them."""
    return [folder / name for name in segments_among(names_in(*below_run(folder)))[1]]


def segments_among(names: Iterable[str]) -> tuple[list[str], list[str]]:
    """Returns the names of ``segments``, and those of ``replaced_segments``, among those in a rank's folder."""
    found = sorted(
        ((_said(name), name) for name in names if _SEGMENT.fullmatch(name)),
        key=lambda pair: (pair[0].first, -pair[0].last, -pair[0].level),
    )
    kept: list[str] = []
    replaced: list[str] = []
    reached = -1
    for said, name in found:
        # Ranges contain each other or have nothing in common.
        (kept if said.last > reached else replaced).append(name)
        reached = max(reached, said.last)
    return kept, replaced


def _said(name: str) -> SegmentName:
    found = _SEGMENT.fullmatch(name)
    assert found is not None
    first, last, level = found.groups()
    return SegmentName(int(first), int(last or first), int(level or 0))


def is_checksum(blob: object) -> bool:
    """Whether this is a SHA-256 in hexadecimal digits, and no path that leads elsewhere."""
    return isinstance(blob, str) and _CHECKSUM.fullmatch(blob) is not None


def blob_name(sha256: object) -> str:
    """Returns the path, below the run's folder, of the blob with this checksum; raises DamagedError for no checksum."""
    if not isinstance(sha256, str) or not is_checksum(sha256):
        raise DamagedError(f"{str(sha256)[:80]!r} is no SHA-256; expected 64 hexadecimal digits")
    return f"{BLOBS}/{sha256[:2]}/{sha256}"


def blob_path(run_folder: Path, sha256: str) -> Path:
    """Returns where a blob with this checksum lies; raises as ``blob_name``."""
    return run_folder / blob_name(sha256)


def below_run(path: Path) -> tuple[Path, PurePath]:
    """Returns the run's folder that a path leads into, and the rest of the path; else its parent, and its name.

    ``safe_files`` follows no link in the rest.
    """
    parts = path.parts
    for place in range(len(parts) - 1, 0, -1):
        if parts[place] in _TOPS:
            return path.parents[len(parts) - place - 1], PurePath(*parts[place:])
    return path.parent, PurePath(path.name)
