"""Sees that files of a store were emptied, cut short, or are behind links: the store need not be read."""

import os
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tracker_adapters.errors import UnsafeFileError
from tracker_adapters.safe_files import open_file, status_of
from tracker_adapters.store.layout import no_folders, rank_folder, segments

_HEADER_BYTES = 100
_WAL = "-wal"


@dataclass(frozen=True, slots=True)
class Damage:
    """What is wrong with the files of a store, in one line; ``is_all`` says that none of them holds anything."""

    text: str = ""
    is_all: bool = False


SOUND = Damage()


def damage_of(folder: Path, ranks: Sequence[int]) -> Damage:
    """Returns what is wrong with the files of a run that nobody writes to."""
    paths = [path for rank in ranks for path in segments(rank_folder(folder, rank))]
    told = [f"{path} is no folder; links are not followed" for path in no_folders(folder, ranks)]
    empty = 0
    for path in paths:
        with suppress(OSError, UnsafeFileError):  # compacted meanwhile, a link or a pipe: who reads it says so
            size, said = _sizes(folder, path)
            empty += not size
            if not size:
                told.append(f"{path} has 0 bytes: it was emptied, or the run died when it began this file")
            elif size < said:
                told.append(f"{path} is cut short: it has {size:,} of {said:,} bytes")
    more = f"; and {len(told) - 1} more" if len(told) > 1 else ""
    return Damage("".join(told[:1]) + more, bool(told) and empty == len(paths))


def _sizes(folder: Path, path: Path) -> tuple[int, int]:
    """How large an SQLite database is, and how large it says that it is, as far as it does.

    See https://sqlite.org/fileformat.html.
    """
    place = path.relative_to(folder)
    with open_file(folder, place) as file:  # a pipe in its place would never answer
        size, header = os.fstat(file.fileno()).st_size, file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return size, _HEADER_BYTES
    log = status_of(folder, place.with_name(place.name + _WAL))
    if header[24:28] != header[92:96] or (log is not None and log.st_size):
        return size, 0  # the number of pages is an old one, or the log has the rest of the file
    page = int.from_bytes(header[16:18], "big")
    return size, (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
