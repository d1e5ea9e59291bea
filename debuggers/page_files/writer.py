"""The writer thread: writes finished pages in the background, within a fixed amount of memory."""

import threading
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tracker_adapters.fork_safe import finalize

from debuggers.errors import PageError
from debuggers.page_files.index import PageRecord, add_to_index
from debuggers.page_files.saving import write_page

STALL_TIMEOUT_S = 60.0
"""How long a full writer holds its caller up before a page is given up."""
EXIT_TIMEOUT_S = 30.0
"""How long the interpreter's exit waits for pages that were handed over."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FinishedPage:
    """A page to be written. ``nbytes``: what it keeps in memory; ``step``: of its last datapoint."""

    folder: Path
    number: int
    datapoints: Mapping[int, Mapping[str, Any]]
    nbytes: int
    step: int


OnWritten = Callable[[FinishedPage, PageRecord], None]
OnError = Callable[[FinishedPage, Exception], None]


class PageWriter:
    """Writes pages in the order in which they are handed over.

    The pages that wait and the one being written take at most ``budget_bytes`` together (or are a single
    page): beyond that ``submit`` waits. A thread runs only while there are pages to write. It is a daemon, so
    a hanging disk cannot hold the interpreter up at exit for longer than 30 s. Where no thread can be started,
    ``submit`` writes the page itself.
    """

    def __init__(
        self,
        budget_bytes: int,
        *,
        on_written: OnWritten,
        on_error: OnError,
        stall_timeout_s: float = STALL_TIMEOUT_S,
    ) -> None:
        """No thread is started yet.

        Args:
            budget_bytes: Memory for the pages that are not on the disk yet.
            on_written: Called in the writer's thread with each page that is on the disk and in the index.
            on_error: Called in the writer's thread with each page that could not be written.
            stall_timeout_s: How long ``submit`` waits for room.
        """
        self._budget_bytes = budget_bytes
        self._on_written = on_written
        self._on_error = on_error
        self._stall_timeout_s = stall_timeout_s
        self._threads: list[threading.Thread] = []
        self._begin()
        finalize(self, _join_all, self._threads)

    def _begin(self) -> None:
        self._changed = threading.Condition()
        self._waiting: deque[FinishedPage] = deque()
        self._held_bytes = 0

    def begin_in_forked_child(self) -> None:
        """Forgets the pages that wait, which are its parent's, and the thread, which did not come along."""
        self._threads.clear()
        self._begin()

    def submit(self, page: FinishedPage) -> None:
        """Submits a page, once there is room for it.

        Raises:
            PageError: When there was no room for ``stall_timeout_s``; the page is not written.
        """
        with self._changed:
            if not self._changed.wait_for(lambda: self._has_room(page), self._stall_timeout_s):
                raise PageError(
                    f"{page.folder / f'page_{page.number}.pkl'}: not written: no page was written for "
                    f"{self._stall_timeout_s:g} s, and {self._held_bytes} bytes are waiting"
                )
            self._waiting.append(page)
            self._held_bytes += page.nbytes
            if self._threads:
                return
            worker = self._started_worker()
            self._threads.append(worker)
        if worker is threading.current_thread():
            self._work()

    def flush(self, timeout_s: float) -> bool:
        """Waits until every page that was handed over is written or has failed; False if time ran out."""
        with self._changed:
            return self._changed.wait_for(lambda: not any(t.is_alive() for t in self._threads), timeout_s)

    def _started_worker(self) -> threading.Thread:
        thread = threading.Thread(target=self._work, name="stepscope-page-writer", daemon=True)
        try:
            thread.start()
        except RuntimeError:  # there are too many, or the interpreter shuts down
            return threading.current_thread()
        return thread

    def _has_room(self, page: FinishedPage) -> bool:
        return self._held_bytes == 0 or self._held_bytes + page.nbytes <= self._budget_bytes

    def _work(self) -> None:
        while True:
            with self._changed:
                if not self._waiting:
                    self._threads.clear()
                    self._changed.notify_all()
                    return
                page = self._waiting.popleft()
            nbytes = page.nbytes
            try:
                self._write(page)
            finally:
                del page  # frees its memory before its room is released
                with self._changed:
                    self._held_bytes -= nbytes
                    self._changed.notify_all()

    def _write(self, page: FinishedPage) -> None:
        try:
            record = write_page(page.folder, page.number, page.datapoints)
            add_to_index(page.folder, record)
            self._on_written(page, record)
        except Exception as error:
            self._on_error(page, error)


def _join_all(threads: list[threading.Thread]) -> None:
    for thread in tuple(threads):
        thread.join(EXIT_TIMEOUT_S)
