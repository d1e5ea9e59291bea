"""Runs several debuggers on each datapoint, and keeps what they return in pages."""

import logging
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.base_debugger import BaseDebugger
from debuggers.errors import ClosedDebuggerError, DebuggerConfigError, PageError
from debuggers.forward_debugger import ForwardDebugger
from debuggers.host_arrays.block_memory import PageMemory
from debuggers.instrumentation.closing import Closing
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.instrumentation.isolation import Isolation, OnError, describe, failure_alerts
from debuggers.page_files.buffer import PageBuffer
from debuggers.page_files.index import DATAPOINT, PageRecord
from debuggers.page_files.writer import FinishedPage
from debuggers.torch_import import torch
from debuggers.wrappers.datapoint_index import datapoint_indices
from debuggers.wrappers.debugger_config import build_debuggers, check_keep, find_layers, page_bytes
from debuggers.wrappers.debugger_registry import check_allow_imports
from debuggers.wrappers.emission import page_contents
from debuggers.wrappers.isolated_debugger import IsolatedDebugger
from debuggers.wrappers.layer_watch import LayerWatch
from debuggers.wrappers.output_emission import OutputEmission
from debuggers.wrappers.page_values import by_datapoint, check_outputs, host_copy
from debuggers.wrappers.watched_debugger import WatchedDebugger

_SAVE_TIMEOUT_S = 600.0
_log = logging.getLogger(__name__)


@methods_between_graphs
class SequentialDebugger(BaseDebugger, Closing):
    """Runs debuggers, returns ``{debugger_name: outputs}`` for each datapoint, and keeps it in pages.

    Hooks exist in the model only while ``enabled`` is True, which it is not at first. Nothing that the
    debuggers do reaches the training: their exceptions are caught (see ``on_error``), the random number
    generators are put back, and what is kept is copied at once.

    The slot of a debugger that names one layer is its capture. If that layer was called several times in the
    model's last forward pass, or the debugger chose its layers by a pattern or a type, the slot is
    ``{capture_name: capture}``: ``<layer>``, for its second call ``<layer>:1`` and so on; 16 calls are captured.

    A batch is split: where ``datapoint["meta_info"]["idx"]`` has one entry a row, each array with as many rows
    is cut along its first dimension. With one index the whole batch is one entry.

    ``step`` is the step of what the next call emits. It rises by one with each call, and may be set.
    """

    def __init__(
        self,
        debuggers_config: Sequence[Mapping[str, Any]],
        model: torch.nn.Module,
        page_size_mb: float = 100,
        *,
        emitter: Emitter | None = None,
        on_error: OnError = "isolate",
        keep: Sequence[str] = (),
        allow_imports: Sequence[str] = (),
    ) -> None:
        """Builds the debuggers and finds their layers.

        Args:
            debuggers_config: One ``{"name": ..., "debugger_config": {"class": ..., "args": {...}}}`` a debugger, or
                another form of it: see ``debuggers.wrappers.config_dialects``; or with the debugger itself, as in
                ``{"name": ..., "debugger_config": FeatureMapDebugger("layer4")}``.
            model: Where the layers are looked up.
            page_size_mb: Size of a page; two of them, or of the largest datapoint, lie in memory.
            emitter: Where numbers, pictures, histograms, alerts and pages are emitted.
            on_error: ``isolate``: a debugger that raises leaves ``{"error": ...}`` in its slot, one alert for each
                cause, and the rest runs on. ``raise``: exceptions reach the caller.
            keep: What pages keep of the datapoint itself, under the name ``datapoint``: some of ``inputs``,
                ``labels``, ``outputs``, ``meta_info``, ``scores``, ``correct``.
            allow_imports: Where classes that the configuration names by their dotted paths may come from, such as
                ``["my_package."]``; built-in debuggers and those of installed plug-ins may always be named.

        Raises:
            DebuggerConfigError: For a configuration of another form, a duplicate or reserved name.
            LayerNotFoundError: When the model lacks a layer.
        """
        self.page_size = page_bytes(page_size_mb)
        self.debuggers: dict[str, BaseDebugger] = build_debuggers(debuggers_config, check_allow_imports(allow_imports))
        self.keep = check_keep(keep)
        self.step = 0
        self._emitter = emitter
        self._isolation = Isolation(on_error, failure_alerts(emitter, lambda: self.step))
        self._watched = {
            name: WatchedDebugger(name, debugger, self._isolation, layers, self._warn)
            for name, (debugger, layers) in find_layers(self.debuggers, model).items()
        }
        self._isolated: dict[str, IsolatedDebugger] = {
            name: self._watched.get(name) or IsolatedDebugger(name, debugger, self._isolation)
            for name, debugger in self.debuggers.items()
        }
        self._emit = OutputEmission(self._isolated, self._isolation)
        self._watch = LayerWatch(model, list(self._watched.values()))
        self._lock = threading.Lock()
        self._enabled = False
        self._closed = False
        self._pictures_wanted = True
        self._memory = PageMemory()
        self._wanted_dir: Path | None = None
        self._page_errors: list[str] = []
        self._buffer = PageBuffer(self.page_size, on_written=self._page_written, on_error=self._page_failed)

    @property
    def forward_debuggers(self) -> dict[str, list[ForwardDebugger]]:
        """The debuggers that watch a layer, by layer name."""
        return self._watch.debuggers

    @property
    def aliases(self) -> dict[str, tuple[str, ...]]:
        """The other names of the watched layers that have several: their captures have the first name."""
        return self._watch.aliases

    @property
    def skipped_calls(self) -> dict[str, int]:
        """How many calls of layers each debugger left out: those beyond 16 of one layer in one forward pass."""
        return {name: count for name, one in self._watched.items() if (count := one.skipped_calls)}

    @property
    def enabled(self) -> bool:
        """Whether calls do anything. Setting it adds the hooks to the model, or removes them."""
        return self._enabled

    @enabled.setter
    def enabled(self, value: bool) -> None:
        if value and self._closed:
            raise ClosedDebuggerError("this SequentialDebugger is closed and cannot be enabled again")
        if value and not self._enabled:
            self._watch.attach()
        elif not value:
            self._watch.detach()
        self._enabled = bool(value)

    @property
    def output_dir(self) -> Path | None:
        """The folder of the current round's pages, or None; setting it replaces the pages that lie there."""
        return self._buffer.folder

    @output_dir.setter
    def output_dir(self, folder: str | Path) -> None:
        self._wanted_dir = Path(folder).absolute()
        with self._isolation.guard("opening the pages' folder"):
            self._buffer.open(self._wanted_dir, _SAVE_TIMEOUT_S)

    @property
    def current_page_idx(self) -> int:
        """The number of the page that is being filled."""
        return self._buffer.page_idx

    @property
    def current_page_size(self) -> int:
        """What the page being filled keeps in memory, in bytes."""
        return self._buffer.page_bytes

    @property
    def current_page_data(self) -> dict[int, dict[str, Any]]:
        """The page being filled: ``{datapoint_idx: {debugger_name: outputs}}``, device tensors still pending.

        Copy what is to be kept for long: small arrays lie together in blocks of 34 MB.
        """
        return self._buffer.page_data

    @property
    def failures(self) -> dict[tuple[str, str], int]:
        """How often each place failed with each type of exception."""
        return dict(self._isolation.counts)

    def begin_epoch(self, output_dir: str | Path) -> None:
        """Starts a round: forgets what was not saved, sends pages to ``output_dir`` and enables the debuggers."""
        self.reset_buffer()
        self.output_dir = output_dir
        self.enabled = False  # forgets a forward pass that was interrupted
        self.enabled = True

    def __call__(self, datapoint: dict[str, Any], model: torch.nn.Module) -> dict[str, Any]:
        """Returns ``{debugger_name: outputs}``, emits the numbers in it, and adds a copy to the page.

        While disabled it does nothing and returns ``{}``. A datapoint without an index that is of use (see
        ``add_to_buffer``) is kept in no page, and an alert says why.
        """
        if not self._enabled:
            return {}
        with self._watch.taken() as of_pass:  # a debugger may run the model again; that is not the pass to capture
            outputs = {name: debugger.outputs(datapoint, model, of_pass) for name, debugger in self._isolated.items()}
        with self._lock:
            step, self.step = self.step, self.step + 1
            with_pictures, self._pictures_wanted = self._pictures_wanted, False
        if self._emitter is not None:
            self._emit(self._emitter.at(step), outputs, datapoint if with_pictures else None)
        with self._isolation.guard("keeping a datapoint"):
            self._add(outputs, datapoint, step)
        return outputs

    def add_to_buffer(self, outputs: Mapping[str, Any], datapoint: Mapping[str, Any]) -> None:
        """Adds a copy of the outputs to the page being filled; may be called from any thread.

        It waits while a full page finds the one before it unwritten, for a minute at most.

        Args:
            outputs: ``{debugger_name: outputs}`` of a datapoint or batch.
            datapoint: Says in ``["meta_info"]["idx"]`` which: an int for the whole batch, or a list or tensor with a
                different int for each of its rows.

        Raises:
            DatapointError: When it says anything else; see ``datapoint_index.datapoint_indices``.
            ArgumentTypeError: When the outputs are no such dict.
            ClosedDebuggerError: After ``close``.
        """
        self._add(outputs, datapoint, self.step)

    def _add(self, outputs: Mapping[str, Any], datapoint: Mapping[str, Any], step: int) -> None:
        if self._closed:
            raise ClosedDebuggerError("this SequentialDebugger is closed: further outputs would not be saved")
        check_outputs(outputs)
        indices = datapoint_indices(datapoint)
        kept = {part: datapoint[part] for part in self.keep if part in datapoint}
        copies = host_copy({**outputs, DATAPOINT: kept} if self.keep else outputs, self._memory.empty)
        with self._isolation.guard("adding to a page"):
            self._buffer.add(by_datapoint(copies, indices), step)

    def save_all(self, output_dir: str | Path | None = None, timeout_s: float = _SAVE_TIMEOUT_S) -> None:
        """Writes the last page and waits until all pages lie in ``output_dir``, by default the round's folder.

        It ends the round: what is recorded afterwards is kept for the folder that is named next, by ``begin_epoch``
        after forgetting it, by ``output_dir`` or another ``save_all``. Only ``save_all`` for the same folder adds to
        it.

        A folder that could not be opened when the round began is tried once more. Pages that could not be written have
        raised an alert; with ``on_error="raise"`` they raise PageError here.

        Raises:
            DebuggerConfigError: When no folder was ever given.
        """
        folder = self._wanted_dir if output_dir is None else output_dir
        if folder is None:
            raise DebuggerConfigError(
                "save_all: no output_dir; pass one, or set it before the epoch by begin_epoch(output_dir)"
            )
        with self._isolation.guard("saving the pages"):
            saved = self._buffer.saved_folder
            if saved is not None and Path(folder).absolute() != saved:
                raise PageError(f"{folder}: nothing was recorded since the pages were saved in {saved}")
            if output_dir is not None or self.output_dir is None:
                self.output_dir = folder
            if self.output_dir is None:
                return
            if not self._buffer.save(timeout_s):
                raise PageError(f"{self.output_dir}: pages are not on the disk after {timeout_s:g} s")
            errors, self._page_errors = self._page_errors, []
            if errors and self._isolation.on_error == "raise":
                raise PageError(f"{self.output_dir}: {len(errors)} page(s) not written; the first: {errors[0]}")

    def reset_buffer(self) -> None:
        """Forgets the page being filled and the folder, and numbers pages from 0 again."""
        self._buffer.reset(_SAVE_TIMEOUT_S)
        self._wanted_dir = None
        self._pictures_wanted = True

    def close(self, timeout_s: float = 60.0) -> None:
        """Removes the hooks, and saves what is unsaved if the folder is known; calling it again does nothing."""
        if self._closed:
            return
        self.enabled = False
        self._closed = True
        if self._wanted_dir is not None and not self._buffer.has_late_datapoints:
            self.save_all(timeout_s=timeout_s)
        if self._buffer.has_lost_datapoints:
            lost = PageError("datapoints were recorded and not saved: call save_all(output_dir) before close")
            self._isolation.record("closing", lost)
        self._buffer.reset(timeout_s)

    def _warn(self, message: str) -> None:
        _log.warning("%s", message)
        if self._emitter is not None:
            self._emitter.at(self.step).alert("calls_not_captured", message, told=True)

    def _page_written(self, page: FinishedPage, record: PageRecord) -> None:
        if self._emitter is None:
            return
        with self._isolation.guard("emitting a page"):
            contents = tuple(page_contents(page.datapoints))
            path = page.folder / record.page
            self._emitter.at(page.step).page(path, contents=contents, sha256=record.sha256)

    def _page_failed(self, page: FinishedPage, error: Exception) -> None:
        # Its text only: the frames in its traceback hold the page.
        self._page_errors.append(describe(error))
        self._isolation.record("writing a page", error)
