"""Sees that files of a store were emptied or cut short, by their sizes: the store need not be read."""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from tracker_adapters.store.layout import rank_folder, segments

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
    told, empty = [], 0
    for path in paths:
        with suppress(OSError):  # compacted meanwhile, or no file: who reads it says so
            size, said = path.stat().st_size, _size_said(path)
            empty += not size
            if not size:
                told.append(f"{path} has 0 bytes: it was emptied, or the run died when it began this file")
            elif size < said:
                told.append(f"{path} is cut short: it has {size:,} of {said:,} bytes")
    more = f"; and {len(told) - 1} more" if len(told) > 1 else ""
    return Damage("".join(told[:1]) + more, bool(paths) and empty == len(paths))


def _size_said(path: Path) -> int:
    """How large an SQLite database says that it is, as far as it does; see https://sqlite.org/fileformat.html."""
    with path.open("rb") as file:
        header = file.read(_HEADER_BYTES)
    if len(header) < _HEADER_BYTES:
        return _HEADER_BYTES
    log = path.with_name(path.name + _WAL)
    if header[24:28] != header[92:96] or (log.exists() and log.stat().st_size):
        return 0  # the number of pages is an old one, or the log has the rest of the file
    page = int.from_bytes(header[16:18], "big")
    return (65536 if page == 1 else page) * int.from_bytes(header[28:32], "big")
