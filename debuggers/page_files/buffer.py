"""The page being filled: collects datapoints, and submits a page when it is full."""

import os
import threading
import weakref
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from shutil import copyfileobj
from typing import Any

from tracker_adapters.atomic_files import atomic_file
from tracker_adapters.fork_safe import TemporaryFolder

from debuggers.errors import PageError
from debuggers.page_files.index import INDEX_NAME, add_to_index, clear_pages, page_name, page_number, read_index
from debuggers.page_files.writer import FinishedPage, OnError, OnWritten, PageWriter

MAX_LOAD = 8_000_000
"""How much work it may be to read a page, in pickle operations; the reader refuses 10 million."""
_ARRAY_LOAD, _CONTAINER_LOAD, _TEXT_LOAD = 60, 15, 5


class PageBuffer:
    """Gathers ``{datapoint_idx: {debugger_name: outputs}}`` in pages of about ``page_size`` bytes.

    A page is handed over before it would grow beyond ``page_size``, or hold more objects than ``load_page`` accepts; a
    single datapoint that is larger makes a page of its own. While no folder is open, full pages go to a temporary one,
    and move when a folder is opened. What is added after ``save`` belongs to the folder that is opened next. May be
    called from any thread. The copy of a forked child is empty and has no folder: what there is is its parent's.
    """

    def __init__(self, page_size: int, *, on_written: OnWritten, on_error: OnError) -> None:
        self.page_size = page_size
        self.folder: Path | None = None
        # One page is written while the next is filled: two pages of memory.
        self._writer = PageWriter(page_size, on_written=on_written, on_error=on_error)
        self._spool: TemporaryFolder | None = None
        self._lock = threading.RLock()
        self._start_over()
        _buffers.add(self)

    def _start_over(self) -> None:
        self.page_idx = 0
        self._is_saved = False
        # Where the pages lie that were saved before those that are gathered now, and how many there are.
        self._saved: Path | None = None
        self._saved_pages = 0
        self._start_page()

    def _start_page(self) -> None:
        self.page_data: dict[int, dict[str, Any]] = {}
        self.page_bytes = 0
        self._load = 0
        # Holds what was measured, also what a later record of its datapoint replaced: an id belongs to what lives.
        self._measured: dict[int, Any] = {}
        self._step = 0

    def open(self, folder: Path, timeout_s: float) -> None:
        """Sends the pages of this round to ``folder``, which is made if needed.

        The folder will hold exactly the pages of this round: those of an earlier one are removed. After ``save``, the
        folder that was saved gets further pages, and any other begins with page 0.

        Raises:
            PageError: When pages of this round already lie in another folder, or pages that were handed over
                could not be written in time.
        """
        with self._lock:
            if folder == self.folder:
                return
            if self._is_saved:
                self._begin_after_save()
            if self.folder is not None and self.page_idx:
                raise PageError(f"{folder}: pages of this round already lie in {self.folder}")
            # A page of an earlier round may be on its way to this folder, or to the temporary one.
            if not self._writer.flush(timeout_s):
                raise PageError(f"{folder}: earlier pages were not written within {timeout_s:g} s")
            if folder != self._saved:
                clear_pages(folder)
                self.page_idx -= self._saved_pages
            if self._spool is not None:
                _move_pages(self._spool.path, folder, 0 if folder == self._saved else self._saved_pages)
                self._drop_spool()
            self.folder, self._saved, self._saved_pages = folder, None, 0

    def add(self, datapoints: Mapping[int, dict[str, Any]], step: int) -> None:
        """Adds datapoints to the page; waits while the writer has no room for a page that is full.

        Args:
            datapoints: Their outputs as ``debuggers.wrappers.page_values`` makes them: nothing else may hold on to
                them.
            step: The step at which they were recorded.

        Raises:
            PageError: When the writer had no room for a full page; the datapoints are on the page that follows it.
        """
        with self._lock:
            if self._is_saved:
                self._begin_after_save()
            full = []
            for idx, outputs in datapoints.items():
                size = self._size(outputs)
                if self.page_data and (self.page_bytes + size > self.page_size or self._load > MAX_LOAD):
                    full.append(self._finished_page())
                    size = self._size(outputs)
                self.page_data[idx] = outputs
                self.page_bytes += size
                self._step = step
            while full:
                self._writer.submit(full.pop(0))

    def save(self, timeout_s: float) -> bool:
        """Hands the last page over and waits for the writer; False if time ran out."""
        with self._lock:
            if self.page_data:
                self._writer.submit(self._finished_page())
            self._is_saved = self.folder is not None
        return self._writer.flush(timeout_s)

    @property
    def saved_folder(self) -> Path | None:
        """Where the round was saved, as long as nothing was added since."""
        return self.folder if self._is_saved else None

    @property
    def has_late_datapoints(self) -> bool:
        """Whether datapoints were added after ``save``, and no folder was opened for them."""
        return self._saved is not None

    @property
    def has_lost_datapoints(self) -> bool:
        """Whether datapoints were added and no folder was given for them."""
        return self.folder is None and (self.page_idx > self._saved_pages or bool(self.page_data))

    def reset(self, timeout_s: float) -> None:
        """Forgets the unfinished page and the folder; the next page is number 0."""
        with self._lock:
            if self._spool is not None:
                self._writer.flush(timeout_s)
                self._drop_spool()
            self.folder = None
            self._start_over()

    def _begin_after_save(self) -> None:
        self._saved, self._saved_pages, self.folder = self.folder, self.page_idx, None
        self._is_saved = False

    def _finished_page(self) -> FinishedPage:
        """Returns the page being filled, and starts the next."""
        page = FinishedPage(
            folder=self.folder or self._spool_folder(),
            number=self.page_idx,
            datapoints=self.page_data,
            nbytes=self.page_bytes,
            step=self._step,
        )
        self.page_idx += 1
        self._start_page()
        return page

    def _spool_folder(self) -> Path:
        if self._spool is None:
            self._spool = TemporaryFolder("stepscope-pages-")
        return self._spool.path

    def _drop_spool(self) -> None:
        if self._spool is not None:
            self._spool.remove()
            self._spool = None

    def _begin_in_forked_child(self) -> None:
        """Another thread may hold a lock at the fork, and did not come along."""
        self._lock, self._spool, self.folder = threading.RLock(), None, None
        self._writer.begin_in_forked_child()
        self._start_over()

    def _size(self, value: Any) -> int:
        """Bytes of what ``value`` holds; what the page holds already counts once."""
        if isinstance(value, (dict, list, tuple)):
            if id(value) in self._measured:
                return 0
            self._measured[id(value)] = value
            parts = value.values() if isinstance(value, dict) else value
            self._load += _CONTAINER_LOAD + len(parts) * (_TEXT_LOAD if isinstance(value, dict) else 1)
            return 64 + sum(32 + self._size(part) for part in parts)
        if isinstance(value, (str, bytes)):
            self._load += _TEXT_LOAD
            return len(value)
        if not hasattr(value, "nbytes") or id(value) in self._measured:
            return 0
        self._measured[id(value)] = value
        self._load += _ARRAY_LOAD
        return int(value.nbytes)


_buffers: weakref.WeakSet[PageBuffer] = weakref.WeakSet()
os.register_at_fork(after_in_child=lambda: [*map(PageBuffer._begin_in_forked_child, list(_buffers))])


def _move_pages(source: Path, folder: Path, first: int) -> None:
    """Moves pages, also to another file system: each appears in its new folder when it is complete.

    Args:
        source: Where they lie.
        folder: Where they go.
        first: The number of a page that becomes page 0.
    """
    for record in read_index(source):
        name = page_name(page_number(record.page) - first)
        with (source / record.page).open("rb") as old, atomic_file(folder, name, sync="name") as new:
            copyfileobj(old, new, 1 << 20)
        add_to_index(folder, replace(record, page=name))
    (source / INDEX_NAME).unlink()
