"""Saves tensors on which hooks act, each as a page of its own, in the background."""

import re
from pathlib import Path
from typing import Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.fork_safe import TemporaryFolder

from debuggers.conditional_hooks.events import HookEvent
from debuggers.errors import DebuggerConfigError
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.instrumentation.isolation import Isolation
from debuggers.page_files.index import page_name, page_number, read_index
from debuggers.page_files.writer import FinishedPage, PageWriter
from debuggers.torch_import import torch

BUDGET_BYTES = 256 << 20
"""Memory for tensors that are not on the disk yet."""
_STALL_TIMEOUT_S = 1.0
_CLOSE_TIMEOUT_S = 30.0
_NOT_IN_FOLDERS = re.compile(r"[^\w.-]+")


class HookPages:
    """Writes a page ``page_<n>.pkl`` for each tensor, after those that its folder has.

    ``load_page`` reads it: ``{n: {<hook's name>: {"layer", "step", "is_forward", "values"}}}``. With an emitter the
    page is also emitted as ``hooks/<hook's name>/page_<n>``, at the event's step. What a device holds is copied without
    waiting for it. Where the disk is so slow that 256 MB wait for it, a page is given up after a second, and counted.
    """

    def __init__(self, output_dir: Path | None, emitter: Emitter | None, isolation: Isolation) -> None:
        """Takes the folder that has a subfolder for each hook, unless the hook says otherwise."""
        self._output_dir, self._emitter, self._isolation = output_dir, emitter, isolation
        self._next: dict[Path, int] = {}
        self._names: dict[Path, str] = {}
        self._spool: TemporaryFolder | None = None
        self._writer: PageWriter | None = None

    def check(self, hook: str, folder: str | Path | None) -> None:
        """Checks that there is a place for pages.

        Raises:
            DebuggerConfigError: When there is none.
        """
        if folder is None and self._output_dir is None and self._emitter is None:
            raise DebuggerConfigError(
                f"hook {hook!r}: SAVE_TENSOR has no place for pages; expected a folder, as in "
                '.action(HookAction.SAVE_TENSOR, folder="./tensors"), or a session with a run or an output_dir'
            )

    def save(self, event: HookEvent, name: str, tensor: torch.Tensor, folder: str | Path | None) -> Path:
        """Hands a tensor over, and returns where its page will be.

        Raises:
            OSError: When the folder cannot be made.
            PageError: When too many pages wait.
        """
        place = self._place(event.hook, folder)
        number = self._number_in(place)
        values = DeferredTensor(tensor.detach())
        outputs: dict[str, Any] = {
            "layer": name,
            "step": event.step,
            "is_forward": bool(event.is_forward),
            "values": values,
        }
        self._names[place] = event.hook
        self._writer_of_pages().submit(
            FinishedPage(
                folder=place,
                number=number,
                datapoints={number: {event.hook: outputs}},
                nbytes=values.nbytes,
                step=event.step,
            )
        )
        self._next[place] = number + 1
        return place / page_name(number)

    def close(self) -> None:
        """Waits for what is being written, 30 s at most."""
        if self._writer is not None:
            self._writer.flush(_CLOSE_TIMEOUT_S)
        if self._spool is not None:
            self._spool.remove()
            self._spool = None

    def _place(self, hook: str, folder: str | Path | None) -> Path:
        if folder is not None:
            return Path(folder)
        name = _NOT_IN_FOLDERS.sub("_", hook).strip(".") or "hook"
        if self._output_dir is not None:
            return self._output_dir / "hooks" / name
        if self._spool is None:
            self._spool = TemporaryFolder("stepscope-hooks-")
        return self._spool.path / name

    def _number_in(self, folder: Path) -> int:
        if folder not in self._next:
            folder.mkdir(parents=True, exist_ok=True)
            self._next[folder] = max((page_number(record.page) + 1 for record in read_index(folder)), default=0)
        return self._next[folder]

    def _writer_of_pages(self) -> PageWriter:
        if self._writer is None:
            self._writer = PageWriter(
                BUDGET_BYTES,
                on_written=self._emit,
                on_error=lambda page, error: self._isolation.record("saving a hook's page", error),
                stall_timeout_s=_STALL_TIMEOUT_S,
            )
        return self._writer

    def _emit(self, page: FinishedPage, record: Any) -> None:
        if self._emitter is not None:
            path = page.folder / record.page
            name = f"hooks/{self._names[page.folder]}/{path.stem}"
            self._emitter.page(path, step=page.step, name=name, sha256=record.sha256)
