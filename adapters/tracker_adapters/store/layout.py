"""Where a run's parts lie in its folder.

::

    <run>/run.json                                  who the run is
    <run>/store/rank_00000/segment_000000.db        artifacts, in segments of consecutive numbers
    <run>/store/rank_00000/delivery.db              each sink's position
    <run>/store/rank_00000/{writer,<sink>}.lock     held by the live writer, and by each sink's delivery
    <run>/blobs/ab/ab12…                            files by their SHA-256
"""

from __future__ import annotations

from pathlib import Path

SCHEMA_VERSION = 2
MANIFEST = "run.json"
STORE = "store"
DELIVERY_DATABASE = "delivery.db"
DELIVERY_LOG = "delivery.log"
WRITER_LOCK = "writer.lock"


def rank_folder(run_folder: Path, rank: int) -> Path:
    """Returns the folder of one rank's store."""
    return run_folder / STORE / f"rank_{rank:05d}"


def ranks(run_folder: Path) -> list[int]:
    """Returns the ranks that have a store, ascending."""
    folders = (folder.name.removeprefix("rank_") for folder in (run_folder / STORE).glob("rank_*"))
    return sorted(int(number) for number in folders if number.isdecimal())


def segment_path(folder: Path, number: int) -> Path:
    """Returns the path of one segment in a rank's folder."""
    return folder / f"segment_{number:06d}.db"


def segment_number(path: Path) -> int:
    """Returns the number of a segment from its path."""
    return int(path.stem.removeprefix("segment_"))


def segments(folder: Path) -> list[Path]:
    """Returns the segments of a rank's folder in their order."""
    return sorted(folder.glob("segment_*.db"))


def blob_path(run_folder: Path, sha256: str) -> Path:
    """Returns where a blob with this checksum lies."""
    return run_folder / "blobs" / sha256[:2] / sha256
