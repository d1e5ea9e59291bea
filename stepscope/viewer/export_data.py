"""The answers of an export: asked for in the order of their worth, packed, and put where there is room."""

import base64
import gzip
import hashlib
import json
import time
from collections import Counter
from dataclasses import dataclass, field
from math import inf
from pathlib import Path
from typing import Any

from tracker_adapters.atomic_files import write_atomically

from stepscope.viewer.answers.answer import Answer, AnswerError
from stepscope.viewer.answers.table import answer
from stepscope.viewer.export_plan import planned
from stepscope.viewer.watched_runs import RunList

CHUNK_BYTES = 4_000_000
_PACKED_FROM = 300
_KEPT = 32
"""Answers that are kept for those that come from them."""
_REFUSED_IN_A_ROW = 20
"""Answers of one kind without room, after which no more of them are asked for."""
_FRAME, _POINTER = 24, 80
"""Bytes around an address and its data in the page, and around an address whose data lie elsewhere."""


@dataclass
class ExportData:
    """The answers of an export: those inside the page, and those in files beside it.

    ``inline`` holds an entry for each address: media type, encoding, and the data or where they lie. ``reserve`` is the
    room for where they lie.
    """

    target: Path
    room: int
    room_beside: int
    inline: dict[str, list[str]] = field(default_factory=dict)
    left_out: Counter[str] = field(default_factory=Counter)
    written: int = 0
    reserve: int = 0
    _chunk: dict[str, list[str]] = field(default_factory=dict)
    _chunk_bytes: int = 0
    _chunks: int = 0
    _seen: set[str] = field(default_factory=set)
    _asked: dict[str, Answer | None] = field(default_factory=dict)
    _refused: Counter[str] = field(default_factory=Counter)
    """Answers without room since the last one with room, by the path of their addresses."""

    def collect(self, runs: RunList, first: str | None, seconds: float | None) -> None:
        """Asks for everything, and keeps what there is room for; ``first`` is the run that the page opens with."""
        self.reserve = self.room // 10 if self.room_beside else 0
        deadline = inf if seconds is None else time.monotonic() + seconds

        def is_over(address: str) -> bool:
            return time.monotonic() > deadline or self._refused[_path(address)] >= _REFUSED_IN_A_ROW

        def ask(address: str, *, at_any_rate: bool = False) -> Answer | None:
            if address not in self._asked:
                if is_over(address) and not at_any_rate:
                    return None
                while len(self._asked) >= _KEPT:
                    del self._asked[next(iter(self._asked))]
                self._asked[address] = _answered(runs, address)
            return self._asked[address]

        for part, address in planned([run.key for run in runs.all()], ask, quickly=seconds is not None):
            if address in self._seen:
                continue
            if address:
                self._seen.add(address)
            of_overview = part == "overview"
            if not of_overview and (not address or is_over(address)):
                self.left_out[part] += 1
                continue
            found = ask(address, at_any_rate=of_overview)
            if found is not None:
                is_kept = self._add(address, found)
                self.left_out[part] += not is_kept
                self._refused[_path(address)] = 0 if is_kept else self._refused[_path(address)] + 1
        self._write_chunk()
        self.left_out = +self.left_out
        note = {"made_ms": time.time() * 1000, "first": first, "left_out": dict(self.left_out)}
        self.inline["export"] = ["application/json", "text", json.dumps(note)]

    def _add(self, address: str, found: Answer) -> bool:
        """Keeps an answer; False where there is no room for it."""
        entry = _packed(found)
        size = sum(map(len, entry)) + len(address) + _FRAME
        pointer = len(address) + _POINTER
        if size <= self.room - self.reserve:
            self.room -= size
            self.inline[address] = entry
        elif pointer > self.room:
            return False
        elif size <= self.room_beside and entry[0].startswith("image/"):
            self.room_beside -= size
            name = f"{hashlib.sha256(found.body).hexdigest()[:24]}.png"
            self._write(name, found.body)
            self.inline[address] = [entry[0], "file", f"data/{name}"]
            self.room -= pointer
        elif size <= self.room_beside:
            self.room_beside -= size
            if self._chunk_bytes + size > CHUNK_BYTES:
                self._write_chunk()
            self._chunk[address] = entry
            self._chunk_bytes += size
            self.room -= pointer
        else:
            return False
        return True

    def _write_chunk(self) -> None:
        if not self._chunk:
            return
        name = f"{self._chunks:04d}.js"
        self._chunks += 1
        self._write(name, f"(self.STEPSCOPE_DATA??={{}})[{name!r}]={json_in_script(self._chunk)};".encode())
        for address in self._chunk:
            self.inline[address] = ["", "script", f"data/{name}"]
        self._chunk, self._chunk_bytes = {}, 0

    def _write(self, name: str, content: bytes) -> None:
        folder = self.target / "data"
        folder.mkdir(exist_ok=True)
        write_atomically(folder, name, content, sync="nothing")
        self.written += len(content)


def _path(address: str) -> str:
    return address.partition("?")[0]


def _answered(runs: RunList, address: str) -> Answer | None:
    """What an address answers; None for an error, which the live page would show where it is looked at."""
    try:
        return answer(runs, address)
    except AnswerError:
        return None


def _packed(found: Answer) -> list[str]:
    """The answer as the page reads it: media type, encoding, data."""
    body = found.body
    if found.media_type.startswith("image/"):
        return [found.media_type, "base64", base64.b64encode(body).decode()]
    if len(body) >= _PACKED_FROM:
        packed = base64.b64encode(gzip.compress(body, 6, mtime=0)).decode()
        return [found.media_type, "gzip", packed]
    if found.media_type.startswith(("application/json", "text/")):
        return [found.media_type, "text", body.decode()]
    return [found.media_type, "base64", base64.b64encode(body).decode()]


def json_in_script(value: Any) -> str:
    """JSON that may stand inside a script of a page: nothing in it ends the script, or begins a comment."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")
