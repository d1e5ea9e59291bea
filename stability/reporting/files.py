"""The files that a debug session leaves: their names, their size and their number."""

import json
import math
import re
from collections.abc import Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from tracker_adapters.atomic_files import write_atomically

BYTES_PER_MB = 2**20
_TIMESTAMP = r"\d{8}_\d{6}_\d{6}"


def save_debug_files(
    folder: Path,
    prefix: str,
    contents: Mapping[str, list[Any]],
    *,
    most_files: int = 20,
    most_bytes: float = 64 * BYTES_PER_MB,
) -> list[Path]:
    """Writes the files ``<prefix>_<name>_<timestamp>.json``, one list for each entry, and returns their paths.

    NaN and infinities are written as the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as the JSON mapping
    of Protocol Buffers does: strict JSON has no numbers for them. All files of a call bear the same timestamp, in
    local time with microseconds. What would be larger than ``most_bytes`` goes into several files, each a list of its
    own; the second ends in ``_002.json``. An entry that is larger alone has a file alone.

    Args:
        folder: Made if it is not there.
        prefix: What the names begin with.
        contents: Lists of plain values by name.
        most_files: How many files of each name stay in the folder, those just written included; the oldest ones go.
        most_bytes: The largest size of a file.

    Raises:
        OSError: When the folder cannot be made or written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    timestamp = _timestamp()
    paths = []
    for name, content in contents.items():
        for number, part in enumerate(_parts(content, most_bytes), start=1):
            suffix = "" if number == 1 else f"_{number:03}"
            path = folder / f"{prefix}_{name}_{timestamp}{suffix}.json"
            write_atomically(folder, path.name, part, sync="name")
            paths.append(path)
        rotate(folder, prefix, name, most_files)
    return [path for path in paths if path.exists()]


def new_debug_path(folder: Path, prefix: str, name: str, suffix: str) -> Path:
    """Returns the path for a file that is written now: ``<prefix>_<name>_<timestamp><suffix>``."""
    return folder / f"{prefix}_{name}_{_timestamp()}{suffix}"


def rotate(folder: Path, prefix: str, name: str, most_files: int) -> None:
    """Removes the oldest files of a name, by their timestamps, until ``most_files`` are left.

    Files whose names are of another form are left alone. One that has gone meanwhile is as good as removed.
    """
    form = re.compile(rf"{re.escape(prefix)}_{re.escape(name)}_{_TIMESTAMP}(_\d+)?(\.[a-z]+)+")
    for path in sorted(path for path in folder.iterdir() if form.fullmatch(path.name))[:-most_files]:
        path.unlink(missing_ok=True)


def plain_json(value: Any) -> Any:
    """Returns a nested value with NaN and infinities as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain_json(item) for item in value]
    return value


def _timestamp() -> str:
    return datetime.now().astimezone().strftime("%Y%m%d_%H%M%S_%f")


def _parts(content: list[Any], most_bytes: float) -> Iterator[bytes]:
    """JSON lists of the entries, in order; at least one."""
    entries: list[str] = []
    size = 0
    for item in content:
        entry = json.dumps(plain_json(item), allow_nan=False, indent=1)
        nbytes = len(entry.encode()) + 2
        if entries and size + nbytes + 2 > most_bytes:
            yield _list(entries)
            entries, size = [], 0
        entries.append(entry)
        size += nbytes
    yield _list(entries)


def _list(entries: list[str]) -> bytes:
    body = ",\n".join(entries)
    return f"[\n{body}\n]".encode()
