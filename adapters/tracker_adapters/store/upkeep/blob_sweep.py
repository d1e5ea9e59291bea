"""Removes the files beside a store that nothing in it refers to (garbage collection)."""

import time
from pathlib import Path

from tracker_adapters.safe_files import files_below, remove_file, status_of
from tracker_adapters.store.layout import BLOBS, rank_folder, ranks, segments
from tracker_adapters.store.segments.check import Faults, blobs_of

BLOB_GRACE_S = 300.0
"""A file beside the store that came this recently may belong to a row that is not committed yet."""


def sweep_blobs(run_folder: Path, faults: Faults, grace_s: float = BLOB_GRACE_S) -> int:
    """Removes files beside the store that no segment refers to and that came before ``grace_s`` seconds ago.

    Nothing is removed while a segment does not say what it refers to; that is noted.

    Returns:
        The bytes of those that no segment refers to and that stay.
    """
    # Looked for first: what comes after the segments were read is younger than the grace.
    latest = time.time() - grace_s
    found = [*files_below(run_folder, BLOBS)]
    if not found:
        return 0
    waiting = 0
    wanted: set[str] = set()
    is_known = True
    for path in (path for rank in ranks(run_folder) for path in segments(rank_folder(run_folder, rank))):
        referred: set[str] | None = None
        with faults.noted(path):
            referred = blobs_of(path)
        is_known &= referred is not None
        wanted |= referred or set()
    for blob, _ in found:
        if blob.name in wanted or (status := status_of(run_folder, blob)) is None:
            continue
        # The time of the last link or rename: a page may be old when it is taken.
        if is_known and status.st_ctime < latest:
            remove_file(run_folder, blob, missing_ok=True)
        else:
            waiting += status.st_size
    return waiting
