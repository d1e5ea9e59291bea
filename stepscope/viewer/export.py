"""Writes the viewer's page with its data into files: one to open by a double click, more where there is much."""

import base64
import gzip
import hashlib
import json
import os
import re
import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any

from tracker_adapters.atomic_files import write_atomically
from tracker_adapters.errors import RunError
from tracker_adapters.values.checked_values import at_least, check_value

from stepscope.runs.byte_sizes import format_bytes
from stepscope.viewer.answers.answer import Answer, AnswerError
from stepscope.viewer.answers.table import answer
from stepscope.viewer.export_plan import planned
from stepscope.viewer.watched_runs import RunList

PAGE_BYTES = 10_000_000
"""What ``index.html`` takes at most."""
DATA_BYTES = 200_000_000
"""What the files beside it take at most."""
CHUNK_BYTES = 4_000_000
BUILT = Path(__file__).parent / "built"
NOT_BUILT = "the page is not built; expected npm at installation: from a checkout, make page, then export again"
_MARK, _MARK_WITHIN = b'<meta name="generator" content="stepscope">', 500
"""What tells a page of ours, and within how many bytes from its beginning."""
_UNFINISHED = _MARK + b"<title>stepscope</title><p>This export was not finished. Export again."
_OWN_NAMES = re.compile(r"[0-9]{4}\.js|[0-9a-f]{24}\.png")
_PACKED_FROM = 300
_KEPT = 32
"""Answers that are kept for those that come from them."""
_FRAME, _POINTER = 24, 80
"""Bytes around an address and its data in the page, and around an address whose data lie elsewhere."""
_PAGE = """<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="generator" content="stepscope">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta http-equiv="Content-Security-Policy" content="{policy}">
<meta name="referrer" content="no-referrer">
<title>{title}</title>
<link rel="icon" href="data:,">
<style>{style}</style>
</head>
<body>
<noscript>This page needs JavaScript. Without it, stepscope report and stepscope ls show a run.</noscript>
<script type="application/json" id="stepscope-answers">{answers}</script>
<script>{script}</script>
</body>
</html>
"""


@dataclass(frozen=True, slots=True)
class ExportedPage:
    """What was written.

    Attributes:
        page: The file to open.
        page_bytes: Its size.
        data_bytes: The size of the files beside it.
        left_out: What is not in it, by part of the page, such as ``{"images": 12}``.
    """

    page: Path
    page_bytes: int
    data_bytes: int
    left_out: dict[str, int]

    def __str__(self) -> str:
        """What was written, in one line."""
        more = f" and {format_bytes(self.data_bytes)} in data/" if self.data_bytes else ""
        left = f"; left out: {', '.join(f'{count:,} {part}' for part, count in self.left_out.items())}"
        return f"{self.page}: {format_bytes(self.page_bytes)}{more}{left if self.left_out else ''}"


def export_page(
    runs: str | os.PathLike[str] | Sequence[str | os.PathLike[str]],
    folder: str | os.PathLike[str],
    *,
    page_bytes: int = PAGE_BYTES,
    data_bytes: int = DATA_BYTES,
    seconds: float | None = None,
) -> ExportedPage:
    """Writes the viewer's page with the data of runs into ``folder``, to be opened without a server.

    ``index.html`` holds the page, and the data as far as they fit: what a person looks at first comes first. The rest
    lies in ``data/``, which the page loads when it is asked for, from a file or a web server alike. What fits into
    neither is left out, and the page says so. A series of many values is there as 800 ranges with their extremes.

    Args:
        runs: Each a run's folder, a folder that contains runs, a pattern, or a URL.
        folder: Where to write; made if it does not exist. What an earlier export left there is replaced; nothing else
            is touched.
        page_bytes: The most that ``index.html`` may take; at least 1 MB.
        data_bytes: The most that the files beside it may take; 0 for one file alone.
        seconds: When to leave out the rest; None for no limit.

    Raises:
        RunError: When there is no run, an argument is wrong, the page was not built at installation, or ``folder`` has
            an ``index.html`` or a ``data`` of something else.
        OSError: When the folder cannot be written.
    """
    check_value("page_bytes", page_bytes, at_least(1_000_000), RunError)
    check_value("data_bytes", data_bytes, at_least(0), RunError)
    target = Path(folder)
    listed = RunList([runs] if isinstance(runs, (str, os.PathLike)) else runs)
    try:
        script, style = ((BUILT / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    except FileNotFoundError:
        raise RunError(NOT_BUILT) from None
    try:
        if not listed.all():
            raise RunError(f"there is no run at {runs!s}; expected the folder of a run, or of runs")
        target.mkdir(parents=True, exist_ok=True)
        _make_room(target)
        data = _Data(target, page_bytes - len(script.encode()) - len(style.encode()) - len(_PAGE), data_bytes)
        data.collect(listed, None if seconds is None else time.monotonic() + seconds)
        title = ", ".join(run.head().manifest.info.name for run in listed.all()[:5])
    finally:
        listed.close()
    page = _page(script, style, title, data.inline)
    write_atomically(target, "index.html", page, sync="nothing")
    return ExportedPage(target / "index.html", len(page), data.written, dict(data.left_out))


@dataclass
class _Data:
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
    _asked: dict[str, Answer | None] = field(default_factory=dict)

    def collect(self, runs: RunList, deadline: float | None) -> None:
        """Asks for everything, and keeps what there is room for."""
        self.reserve = self.room // 10 if self.room_beside else 0

        def ask(address: str) -> Answer | None:
            if address not in self._asked:
                while len(self._asked) >= _KEPT:
                    del self._asked[next(iter(self._asked))]
                self._asked[address] = _answered(runs, address)
            return self._asked[address]

        for part, address in planned([run.key for run in runs.all()], ask):
            if address in self.inline:
                continue
            if not address or (deadline is not None and time.monotonic() > deadline):
                self.left_out[part] += 1
                continue
            found = ask(address)
            if found is not None:
                self._add(part, address, found)
        self._write_chunk()
        note = {"made_ms": time.time() * 1000, "left_out": dict(self.left_out)}
        self.inline["export"] = ["application/json", "text", json.dumps(note)]

    def _add(self, part: str, address: str, found: Answer) -> None:
        entry = _packed(found)
        size = sum(map(len, entry)) + len(address) + _FRAME
        pointer = len(address) + _POINTER
        if size <= self.room - self.reserve:
            self.room -= size
            self.inline[address] = entry
        elif pointer > self.room:
            self.left_out[part] += 1
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
            self.left_out[part] += 1

    def _write_chunk(self) -> None:
        if not self._chunk:
            return
        name = f"{self._chunks:04d}.js"
        self._chunks += 1
        self._write(name, f"(self.STEPSCOPE_DATA??={{}})[{name!r}]={_json(self._chunk)};".encode())
        for address in self._chunk:
            self.inline[address] = ["", "script", f"data/{name}"]
        self._chunk, self._chunk_bytes = {}, 0

    def _write(self, name: str, content: bytes) -> None:
        folder = self.target / "data"
        folder.mkdir(exist_ok=True)
        write_atomically(folder, name, content, sync="nothing")
        self.written += len(content)


def _make_room(target: Path) -> None:
    """Removes what an earlier export left.

    Raises:
        RunError: When something else is where the export goes.
    """
    page, data = target / "index.html", target / "data"
    if page.is_symlink() or page.exists():
        if page.is_symlink() or not page.is_file() or _MARK not in page.read_bytes()[:_MARK_WITHIN]:
            raise RunError(f"{page} is not of an export; expected an empty folder, or one with an earlier export")
    elif data.is_symlink() or (data.exists() and (not data.is_dir() or any(data.iterdir()))):
        raise RunError(f"{data} is not of an export; expected an empty folder, or one with an earlier export")
    # Without its data the earlier page shows nothing; where this export ends early, the next one finds what is its own.
    write_atomically(target, "index.html", _UNFINISHED, sync="nothing")
    if data.is_dir() and not data.is_symlink():
        for path in data.iterdir():
            if _OWN_NAMES.fullmatch(path.name) and not path.is_symlink():
                path.unlink()
        with suppress(OSError):  # somebody's files lie in it
            data.rmdir()


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


def _json(value: Any) -> str:
    """JSON that may stand inside a script of a page: nothing in it ends the script, or begins a comment."""
    return json.dumps(value, separators=(",", ":")).replace("<", "\\u003c")


def _page(script: str, style: str, title: str, answers: dict[str, list[str]]) -> bytes:
    script = script.replace("</script", "<\\/script").replace("<!--", "<\\!--")
    hashes = {
        what: base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()
        for what, text in (("script", script), ("style", style))
    }
    # A script that the page's own one loads may run: that is how data beside the page come, from a file too.
    policy = (
        f"default-src 'none'; script-src 'sha256-{hashes['script']}' 'strict-dynamic'; "
        f"style-src 'sha256-{hashes['style']}'; img-src 'self' file: data: blob:; base-uri 'none'; form-action 'none'"
    )
    page = _PAGE.format(
        policy=policy, title=escape(f"{title} · stepscope"), style=style, script=script, answers=_json(answers)
    )
    return page.encode(errors="replace")
