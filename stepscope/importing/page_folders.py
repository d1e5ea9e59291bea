"""Reads folders of pages into a run; a page is opened by the reader that executes nothing in it."""

import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracker_adapters.artifacts import PageEntry, sha256_of
from tracker_adapters.errors import ArtifactError

from debuggers.page_files.index import INDEX_NAME, read_index
from debuggers.pages import PageError, load_page
from stepscope.importing.new_run import NewRun
from stepscope.importing.skipped import Skipped

PAGE = re.compile(r"page_([0-9]{1,18})\.pkl")
EPOCH = re.compile(r"epoch[_-]?([0-9]{1,18})", re.IGNORECASE)
_MAX_SUMMARY = 200


def import_page_folders(root: Path, folders: Sequence[Path], run: NewRun, skipped: Skipped) -> None:
    """Adds the pages of folders such as ``epoch_4/debugger``: there the step is 4 and names begin with ``debugger/``.

    A page that our reader refuses, that is not what its index says, or that is a link, is omitted.
    """
    for folder in sorted(folders, key=lambda folder: (_epoch(root, folder), str(folder))):
        parts = [part for part in folder.relative_to(root).parts if not EPOCH.fullmatch(part)]
        try:
            if (folder / INDEX_NAME).exists() and not (folder / INDEX_NAME).is_file():
                raise PageError(f"{folder / INDEX_NAME}: is not a regular file")
            checksums = {record.page: (record.size, record.sha256) for record in read_index(folder)}
        except PageError as error:
            skipped.add("an index of pages that cannot be read", str(error))
            checksums = {}
        pages = [path for path in folder.iterdir() if PAGE.fullmatch(path.name)]
        for path in sorted(pages, key=lambda path: int(path.stem[5:])):
            if path.is_symlink():
                skipped.add("a page that is a link", str(path))
                continue
            name = "/".join([*parts, path.stem])
            _add_page(path, checksums.get(path.name), run, skipped, name=name, step=_epoch(root, folder))
        for missing in sorted(set(checksums) - {path.name for path in pages}):
            skipped.add(f"a page that {INDEX_NAME} lists and that is missing", str(folder / missing))


def _add_page(path: Path, known: tuple[int, str] | None, run: NewRun, skipped: Skipped, **common: Any) -> None:
    size, sha256 = known or (None, None)
    try:
        page = load_page(path, size=size, sha256=sha256)
        if any(abs(idx) >= 2**63 for idx in page):
            raise PageError(f"{path}: has a datapoint whose number is beyond 64 bits")
        contents = tuple(
            PageEntry(datapoint=idx, debugger=debugger, summary=_summary(outputs))
            for idx, by_debugger in page.items()
            for debugger, outputs in by_debugger.items()
        )
    except (PageError, ArtifactError) as error:
        skipped.add("a page that is damaged or could execute something", str(error))
        return
    time_ns = path.stat().st_mtime_ns
    run.put_page(path, sha256 or sha256_of(path), contents=contents, time_ns=max(time_ns, 0), **common)


def _epoch(root: Path, folder: Path) -> int:
    for part in folder.relative_to(root).parts:
        if match := EPOCH.fullmatch(part):
            return int(match[1])
    return 0


def _summary(outputs: Any) -> str:
    if isinstance(outputs, Mapping):
        return ", ".join(f"{key} {_leaf(value)}" for key, value in list(outputs.items())[:20])[:_MAX_SUMMARY]
    return _leaf(outputs)[:_MAX_SUMMARY]


def _leaf(value: Any) -> str:
    if hasattr(value, "dtype"):
        return f"{value.dtype} {value.shape}"
    if isinstance(value, (list, tuple, Mapping)):
        return f"{len(value)} values"
    return f"{value:.6g}" if isinstance(value, float) else str(value)[:_MAX_SUMMARY]
