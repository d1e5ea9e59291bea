"""A sink that writes JSON lines and misbehaves as its options say, installed as a third party's would be."""

import json
import os
import threading
from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

from tracker_adapters.artifacts import KINDS
from tracker_adapters.sink import Batch, RunInfo, RunStatus, SinkError, Unshown, checked_options

_ALLOWED = dict.fromkeys(("target", "refuse", "crash_on", "hang_on", "hang_in"), str) | {"times": int}


class OddSink:
    """Writes one line an artifact: kind, name and step.

    Options: ``refuse``, ``crash_on`` and ``hang_on`` are names of artifacts, or ``name@step``, that make ``write``
    raise, the process abort or never return; ``hang_in`` is a method that never returns; ``times`` limits how often,
    counted in a file.
    """

    kinds: ClassVar[frozenset[str]] = frozenset(KINDS)

    def __init__(self, target: str, times: int = 1_000_000, **behaviour: str) -> None:
        self.target = target
        self._times = times
        self._behaviour = behaviour
        self._path = Path(target)
        self._stream: Any = None

    @classmethod
    def resolve(cls, options: Mapping[str, Any], run_folder: Path) -> dict[str, Any]:
        given = checked_options("odd", options, _ALLOWED)
        return {"target": str(run_folder / "odd.jsonl")} | given

    @classmethod
    def look(cls, options: Mapping[str, Any]) -> str:
        return str(options["target"])

    def open(self, info: RunInfo, token: bytes | None) -> None:
        self._maybe_hang("open")
        self._stream = self._path.open("ab")
        self._stream.truncate(int(token or 0))

    def write(self, batch: Batch) -> Unshown:
        self._maybe_hang("write")
        rows = [(int(seq), "scalar", *row) for seq, *row in zip(batch.scalars.seqs, batch.scalars.names,
                batch.scalars.steps.tolist(), strict=True)]  # fmt: skip
        for column in batch.columns():
            rows += [
                (seq, one.kind, one.name, one.step) for seq, one in zip(column.seqs, column.artifacts, strict=True)
            ]
        names = {row[2] for row in rows} | {f"{row[2]}@{row[3]}" for row in rows}
        if self._behaviour.get("refuse") in names and self._still():
            raise SinkError("refused on purpose")
        if self._behaviour.get("crash_on") in names and self._still():
            os.abort()
        if self._behaviour.get("hang_on") in names and self._still():
            threading.Event().wait()
        self._stream.writelines((json.dumps(row[1:]) + "\n").encode() for row in sorted(rows))
        return {}

    def flush(self) -> bytes:
        self._maybe_hang("flush")
        self._stream.flush()
        return str(self._stream.tell()).encode()

    def finish(self, status: RunStatus) -> None:
        self._maybe_hang("finish")

    def close(self) -> None:
        self._maybe_hang("close")
        if self._stream is not None:
            self._stream.close()

    def _maybe_hang(self, method: str) -> None:
        if self._behaviour.get("hang_in") == method and self._still():
            threading.Event().wait()

    def _still(self) -> bool:
        count = Path(f"{self.target}.count")
        done = int(count.read_text()) if count.exists() else 0
        count.write_text(str(done + 1))
        return done < self._times


def read_back(target: Path) -> list[tuple[str, str, int]]:
    """Returns (kind, name, step) of every line."""
    return [tuple(json.loads(line)) for line in target.read_text().splitlines()]


def install(folder: Path) -> dict[str, str]:
    """Makes an installed distribution that offers the sink as ``odd``; returns the variables to import it with."""
    place = folder / "site"
    metadata = place / "odd_sinks-1.0.dist-info"
    metadata.mkdir(parents=True)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: odd-sinks\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[stepscope.sinks]\nodd = odd_sinks:OddSink\n")
    (place / "odd_sinks.py").symlink_to(Path(__file__))
    return {"PYTHONPATH": os.pathsep.join([str(place), *filter(None, [os.environ.get("PYTHONPATH")])])}
