"""Writes the viewer's page with its data into files: one to open by a double click, more where there is much."""

import base64
import hashlib
import os
import re
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from html import escape
from pathlib import Path

from tracker_adapters.atomic_files import write_atomically
from tracker_adapters.errors import RunError, StepscopeError
from tracker_adapters.remote.place import is_url
from tracker_adapters.values.checked_values import at_least, check_value

from stepscope.runs.byte_sizes import format_bytes
from stepscope.runs.folders import readable
from stepscope.viewer.export_data import ExportData, json_in_script
from stepscope.viewer.found_runs import find
from stepscope.viewer.watched_run import WatchedRun
from stepscope.viewer.watched_runs import RunList

PAGE_BYTES = 10_000_000
"""What ``index.html`` takes at most."""
DATA_BYTES = 200_000_000
"""What the files beside it take at most."""
BUILT = Path(__file__).parent / "built"
NOT_BUILT = "the page is not built; expected npm at installation: from a checkout, make page, then export again"
_MARK, _MARK_WITHIN = b'<meta name="generator" content="stepscope">', 500
"""What tells a page of ours, and within how many bytes from its beginning."""
_UNFINISHED = _MARK + b"<title>stepscope</title><p>This export was not finished. Export again."
_OWN_NAMES = re.compile(r"[0-9]{4}\.js|[0-9a-f]{24}\.png")
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

    It contains all runs, and opens as the viewer does: with those given one by one, if they are at most eight, and
    otherwise with the first run given, or the newest of the first folder. ``index.html`` contains the page and as much
    of the data as fits, the most important first. The rest is in ``data/``, which the page loads on request, from a
    file or a web server alike. What fits into neither is omitted, and the page says so. A long series is exported as
    800 ranges with their extremes.

    Args:
        runs: Each a run's folder, a folder that contains runs, a pattern, or a URL.
        folder: Where to write; made if it does not exist. What an earlier export left there is replaced; nothing else
            is touched.
        page_bytes: The most that ``index.html`` may take; at least 1 MB.
        data_bytes: The most that the files beside it may take; 0 for one file alone.
        seconds: When to leave out the rest, and what may take long; None for no limit.

    Raises:
        RunError: When there is no run, an argument is wrong, the page was not built at installation, or ``folder`` is
            none, or has an ``index.html`` or a ``data`` of something else.
        OSError: When the folder cannot be written.
    """
    check_value("page_bytes", page_bytes, at_least(1_000_000), RunError)
    check_value("data_bytes", data_bytes, at_least(0), RunError)
    target = _target(folder)
    given = [runs] if isinstance(runs, (str, os.PathLike)) else list(runs)
    listed = RunList(given)
    try:
        script, style = ((BUILT / name).read_text(encoding="utf-8") for name in ("page.js", "page.css"))
    except FileNotFoundError:
        raise RunError(NOT_BUILT) from None
    try:
        if not listed.all():
            places = ", ".join(map(readable, given))
            raise RunError(f"there is no run at {places}; expected the folder of a run, or of runs")
        target.mkdir(parents=True, exist_ok=True)
        _make_room(target)
        data = ExportData(target, page_bytes - len(script.encode()) - len(style.encode()) - len(_PAGE), data_bytes)
        data.collect(listed, _first_run(given[0], listed), seconds)
        title = ", ".join(run.head().manifest.info.name for run in listed.all()[:5])
    finally:
        listed.close()
    page = _page(script, style, title, data.inline)
    write_atomically(target, "index.html", page, sync="nothing")
    return ExportedPage(target / "index.html", len(page), data.written, dict(data.left_out))


def _target(folder: str | os.PathLike[str]) -> Path:
    expected = "expected the name of a folder on this machine, which is made where there is none"
    if not os.fspath(folder) or is_url(folder):
        raise RunError(f"the export's folder is {os.fspath(folder)!r}; {expected}")
    target = Path(folder)
    if not target.is_dir() and (target.exists() or target.is_symlink()):
        what = f"a link to {target.readlink()}, where no folder is" if target.is_symlink() else "no folder"
        raise RunError(f"the export's folder {target} is {what}; {expected}")
    return target


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


def _first_run(place: str | os.PathLike[str], listed: RunList) -> str | None:
    """The key of the newest run at a place; None where none can be read."""
    keys = {WatchedRun(found).key for found in find(os.fspath(place)).runs}
    created = {}
    for run in listed.all():
        with suppress(StepscopeError, OSError):
            created[run.key] = run.head().manifest.info.created_ns if run.key in keys else 0
    return max(created, key=created.__getitem__, default=None)


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
        policy=policy, title=escape(f"{title} · stepscope"), style=style, script=script, answers=json_in_script(answers)
    )
    return page.encode(errors="replace")
