"""The pages of a run by epoch: from its store, and from folders of pages in its own folder."""

from __future__ import annotations

import re
import threading
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import msgspec
from tracker_adapters.artifacts import Page
from tracker_adapters.safe_files import is_folder
from tracker_adapters.store.reading.record import RunRecord

from debuggers.errors import PageError
from debuggers.page_files.index import DATAPOINT, PageRecord
from stepscope.viewer.outputs.page_process import PageProcess

_NUMBER = re.compile(r"(?:.*/)?page_([0-9]{1,18})")
_FOLDER = re.compile(r"epoch[_-]?[0-9]{1,18}", re.IGNORECASE)
_PAGES = "debugger"
_KEPT_EPOCHS = 8


@dataclass(slots=True, kw_only=True)
class Epoch:
    """Pages that were written together.

    Attributes:
        key: Stable in its run: rank and number by order of arrival, or the folder.
        title: What a person calls it: ``epoch_1``, or its name scope.
        step: The step of its last page; None of a folder.
        rank: Whose it is.
        pages: As ``page_requests`` takes them: ``page`` is a path below the run's folder.
        page_of: The number of the page that holds a datapoint, as it was last recorded; in the order of arrival.
        debuggers: The datapoints that each debugger has left something of; empty where only its pages know.
    """

    key: str
    title: str
    step: int | None = None
    rank: int = 0
    pages: list[dict[str, Any]] = field(default_factory=list)
    page_of: dict[int, int] = field(default_factory=dict)
    debuggers: dict[str, set[int]] = field(default_factory=dict)

    def record_of(self, idx: int) -> dict[str, Any]:
        """Returns the page of a datapoint; raises KeyError when the epoch has none of it."""
        return self.pages[self.page_of[idx]]


@dataclass(slots=True, kw_only=True)
class RunEpochs:
    """The epochs of a run in order of arrival, and why other files and folders of pages are in none."""

    epochs: list[Epoch]
    refused: list[str] = field(default_factory=list)


class EpochList:
    """The epochs of the runs that were asked for last; they are read again when a run has more pages."""

    def __init__(self, process: PageProcess) -> None:
        """``process`` reads the indexes of folders."""
        self._process = process
        self._known: OrderedDict[Path, tuple[Any, RunEpochs]] = OrderedDict()
        self._lock = threading.Lock()

    def of(self, record: RunRecord) -> RunEpochs:
        """Returns the epochs of a run; folders whose pages the store lacks come last."""
        folders = list(_folders(record.path))
        state = (
            record.ranks,
            record.counted("page"),
            tuple(_stamp(record.path, folder) for folder in folders),
            tuple(folders),
        )
        with self._lock:
            known = self._known.get(record.path)
        if known is not None and known[0] == state:
            return known[1]
        found = RunEpochs(
            epochs=[epoch for rank in record.ranks for epoch in _stored(record.path, record.pages(rank), rank)]
        )
        for folder in folders:
            self._add_folder(record.path, folder, found)
        with self._lock:
            self._known[record.path] = (state, found)
            while len(self._known) > _KEPT_EPOCHS:
                self._known.popitem(last=False)
        return found

    def _add_folder(self, run: Path, folder: str, found: RunEpochs) -> None:
        """Names the epoch whose pages the folder holds, or adds one."""
        try:
            content = self._process.ask({"ask": "index", "folder": str(run / folder)})
        except PageError as error:
            found.refused.append(str(error))
            return
        records, refused = msgspec.json.decode(content, type=tuple[list[PageRecord], list[str]])
        found.refused += refused
        checksums = {record.sha256 for record in records}
        for epoch in found.epochs:
            if any(page["sha256"] in checksums for page in epoch.pages):
                epoch.title = _title(folder)
                return
        if records:
            epoch = Epoch(key=f"folder:{folder}", title=_title(folder))
            for record in records:
                _add(epoch, f"{folder}/{record.page}", record.size, record.sha256, record.datapoints)
            found.epochs.append(epoch)


def _stored(run: Path, pages: Sequence[Page], rank: int) -> list[Epoch]:
    """Pages of one rank by epoch: an epoch of a name scope ends where its pages are numbered from the start again."""
    open_epochs: dict[str, tuple[Epoch, int, set[str]]] = {}
    found: list[Epoch] = []
    for page in pages:
        scope = page.name.rpartition("/")[0]
        match = _NUMBER.fullmatch(page.name)
        number = int(match[1]) if match else 0
        epoch, last, names = open_epochs.get(scope, (None, 0, set()))
        if epoch is None or page.name in names or number < last:
            epoch, names = Epoch(key=f"{rank}.{len(found)}", title=scope, rank=rank), set()
            found.append(epoch)
        open_epochs[scope] = (epoch, number, {*names, page.name})
        epoch.step = page.step
        datapoints = dict.fromkeys(entry.datapoint for entry in page.contents)
        _add(epoch, page.path.relative_to(run).as_posix(), page.size, page.sha256, datapoints)
        for entry in page.contents:
            if entry.debugger != DATAPOINT:
                epoch.debuggers.setdefault(entry.debugger, set()).add(entry.datapoint)
    return found


def _add(epoch: Epoch, path: str, size: int, sha256: str, datapoints: Any) -> None:
    for idx in datapoints:
        epoch.page_of[idx] = len(epoch.pages)
    epoch.pages.append({"page": path, "size": size, "sha256": sha256, "datapoints": list(datapoints)})


def _folders(run: Path) -> Iterator[str]:
    """Folders of pages as a trainer or an evaluator makes them: ``epoch_4/debugger`` and ``debugger``."""
    try:
        names = [path.name for path in run.iterdir() if _FOLDER.fullmatch(path.name)]
    except OSError:
        return
    names.sort(key=lambda name: (int(re.sub(r"\D", "", name)), name))
    for folder in (_PAGES, *(f"{name}/{_PAGES}" for name in names)):
        if is_folder(run, folder):  # a link is none
            yield folder


def _stamp(run: Path, folder: str) -> int:
    try:
        return (run / folder).stat().st_mtime_ns
    except OSError:
        return 0


def _title(folder: str) -> str:
    return folder.removesuffix(f"/{_PAGES}")
