"""The JSON files that a debug session leaves."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from datetime import datetime
from pathlib import Path
from typing import Any

from debuggers.atomic_file import atomic_file


def save_debug_files(folder: Path, prefix: str, contents: Mapping[str, Any]) -> list[Path]:
    """Writes one file ``<prefix>_<name>_<timestamp>.json`` for each entry and returns their paths.

    NaN and infinities are written as the texts ``"NaN"``, ``"Infinity"`` and ``"-Infinity"``, as the JSON mapping
    of Protocol Buffers does: strict JSON has no numbers for them. All files of a call bear the same timestamp, in
    local time with microseconds.

    Raises:
        OSError: When the folder cannot be made or written to.
    """
    folder.mkdir(parents=True, exist_ok=True)
    timestamp = datetime.now().astimezone().strftime("%Y%m%d_%H%M%S_%f")
    paths = []
    for name, content in contents.items():
        path = folder / f"{prefix}_{name}_{timestamp}.json"
        with atomic_file(path) as stream:
            stream.write(json.dumps(plain_json(content), allow_nan=False, indent=1).encode())
        paths.append(path)
    return paths


def plain_json(value: Any) -> Any:
    """Returns a nested value with NaN and infinities as texts."""
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, Mapping):
        return {key: plain_json(item) for key, item in value.items()}
    if isinstance(value, list):
        return [plain_json(item) for item in value]
    return value
