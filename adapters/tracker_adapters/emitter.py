"""The emitter: one call for each artifact, which checks, copies and queues it, and waits for no tracker."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import (
    Alert,
    AlertLevel,
    Cell,
    Curve,
    File,
    Histogram,
    Image,
    Page,
    PageEntry,
    Table,
    Text,
)
from tracker_adapters.by_value import LogsByValue
from tracker_adapters.emission import Emission
from tracker_adapters.frames import frame_table, is_frame
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.recording import Deferred, HistogramBlock, PendingArray, Recorder, ScalarBlock, ScalarRow
from tracker_adapters.redaction import redact
from tracker_adapters.values.arrays import as_float
from tracker_adapters.values.base import MAX_STEP, check_name, check_step, check_time
from tracker_adapters.values.image import Layout, pixels
from tracker_adapters.values.pictures import with_layout
from tracker_adapters.values.plain import as_path, storable
from tracker_adapters.values.tensors import check_readable, host_dtype, is_device_tensor

MAX_KNOWN_NAMES = 100_000  # a name a step, by mistake, must not fill the memory


class Emitter(Emission, LogsByValue):
    """Emits artifacts under a name scope, at a given or a bound step.

    ``scoped`` and ``at`` derive emitters that share the recorder and cost nothing to make. All methods may be
    called from any thread. Wrong arguments raise ArtifactError at the caller's line; nothing else raises.
    """

    _origin: Emitter | None = None

    def scoped(self, scope: str) -> Emitter:
        """Returns an emitter that puts ``scope/`` before every name."""
        check_name("scope", scope)
        return self._derived(f"{self._scope}{scope}/", self._step)

    def at(self, step: int) -> Emitter:
        """Returns an emitter whose calls need no step."""
        step = check_step("scope", self._scope or "run", step)
        return self._derived(self._scope, step)

    def scalar(self, name: str, value: Any, *, step: int | None = None, time_ns: int | None = None) -> None:
        """Emits one number: float, int, bool, NumPy scalar, or a 0-d array or tensor.

        A tensor on a device is cloned there and read later: emitting it never synchronises. ``time_ns`` is when it was
        measured; now by default.
        """
        now = time.time_ns() if time_ns is None else check_time("scalar", name, time_ns)
        if step is None:
            step = self._bound_step("scalar", name)
        if type(name) is not str or (full := self._scope + name) not in self._known_names:
            full = self._full_name("scalar", name)
            if len(self._known_names) >= MAX_KNOWN_NAMES:
                self._known_names.clear()
            self._known_names.add(full)
        if type(step) is not int or not 0 <= step <= MAX_STEP:
            step = check_step("scalar", full, step)
        if type(value) is not float:
            if is_device_tensor(value):
                self._put_device_scalar(full, value, step, now)
                return
            value = as_float(f"scalar {full!r}", value)
        self._recorder.put((full, step, now, value), 0)

    def histogram(self, name: str, values: Any, *, step: int | None = None) -> None:
        """Emits the distribution of an array or tensor of any shape; NaN and infinities are counted.

        Host data is aggregated at once. A tensor on a device is cloned there and aggregated later.
        """
        now = time.time_ns()
        full, step = self._checked("histogram", name, step)
        build = partial(Histogram.from_values, full, step=step, time_ns=now)
        if is_device_tensor(values):
            self._put_later(Histogram.kind, full, build, values)
            return
        histogram = build(values)
        self._recorder.put(histogram, histogram.bins.nbytes + histogram.counts.nbytes + 256)

    def scalars(
        self, names: Sequence[str], values: npt.ArrayLike, *, step: int | None = None, time_ns: int | None = None
    ) -> None:
        """Emits many numbers of one moment, one for each name; far cheaper than as many calls of ``scalar``.

        Args:
            names: Their names, without the scope; cheapest if they are the same ones at each step.
            values: As many real numbers, on the host; copied.
            step: The step of all of them.
            time_ns: When they were measured; now by default.
        """
        full, step, time_ns = self._checked_block("scalar", names, step, time_ns)
        block = ScalarBlock.checked(full, step, time_ns, values)
        if full:
            self._recorder.put(block, block.nbytes + 256)

    def histograms(
        self, names: Sequence[str], columns: HistogramColumns, *, step: int | None = None, time_ns: int | None = None
    ) -> None:
        """Emits many histograms of one moment, one for each name; see ``scalars``. The columns are not copied."""
        full, step, time_ns = self._checked_block("histogram", names, step, time_ns)
        block = HistogramBlock.checked(full, step, time_ns, columns)
        if full:
            self._recorder.put(block, block.nbytes + 256)

    def image(
        self,
        name: str,
        values: Any,
        *,
        layout: Layout | None = None,
        step: int | None = None,
        value_range: tuple[float, float] | None = None,
    ) -> None:
        """Emits a picture: a matplotlib figure, a Pillow image, or an array.

        An array is taken as ``tracker_adapters.values.image.pixels`` takes it, and needs a layout.
        Pixels are copied at once and encoded later; a figure is drawn at once.
        """
        now = time.time_ns()
        full, step = self._checked("image", name, step)
        values, layout = with_layout(f"image {full!r}", values, layout)
        build = partial(Image.from_pixels, full, step=step, time_ns=now)
        if is_device_tensor(values):
            check_readable(f"image {full!r}", values)
            # The shape and dtype are known without the values, so a wrong call still fails at its own line.
            blank = np.zeros(tuple(values.shape), dtype=host_dtype(values))
            pixels(full, blank, layout, value_range)
            self._put_later(Image.kind, full, lambda array: build(pixels(full, array, layout, value_range)), values)
            return
        array = pixels(full, values, layout, value_range)
        parts = partial(Image.in_parts, full, array, step=step, time_ns=now)
        self._put(Deferred(Image.kind, full, array.nbytes, lambda: build(array), parts))

    def text(self, name: str, text: str, *, step: int | None = None) -> None:
        """Emits a text, shown as Markdown where the tracker can."""
        full, step = self._checked("text", name, step)
        self._put(Text(name=full, text=text, step=step))

    def alert(
        self,
        name: str,
        message: str,
        *,
        step: int | None = None,
        level: AlertLevel = "warning",
        told: bool = False,
    ) -> None:
        """Emits an alert, which a run shows on standard error, too: the first of each name, from ``warning`` on.

        Args:
            name: Its kind, such as ``exploding_gradient``.
            message: What happened.
            step: Its step.
            level: ``info``, ``warning`` or ``error``.
            told: Whether it was printed or logged already.
        """
        full, step = self._checked("alert", name, step)
        # Most alerts are made from exceptions, which quote what failed.
        message = redact(message) if isinstance(message, str) else message
        artifact = Alert(name=full, message=message, level=level, step=step)
        self._put(artifact)
        if self._on_alert is not None and not told:
            self._on_alert(artifact)

    def table(
        self, name: str, columns: Any, rows: Sequence[Sequence[Cell]] | None = None, *, step: int | None = None
    ) -> None:
        """Emits rows of plain cells under named columns, or a data frame of pandas or polars in place of both."""
        full, step = self._checked("table", name, step)
        columns, rows = (columns, rows) if rows is not None or not is_frame(columns) else frame_table(columns)
        self._put(Table(name=full, columns=columns, rows=rows, step=step))  # type: ignore[arg-type]  # copied to tuples

    def curve(
        self,
        name: str,
        x: Any,
        y: Any,
        *,
        step: int | None = None,
        title: str = "",
        x_label: str = "x",
        y_label: str = "y",
    ) -> None:
        """Emits y over x at one step, such as a ROC curve or a spectrum; the points are joined in their order.

        Args:
            name: Its name.
            x: At most 100,000 finite real numbers, shape (n,): a sequence, array or tensor. A tensor on a device is
                copied without synchronising, and its values are checked later.
            y: As many; where it is NaN or infinite, the line has a gap.
            step: Its step.
            title: Stands above the plot; the name by default.
            x_label: Names the horizontal axis.
            y_label: Names the vertical axis.
        """
        full, step = self._checked(Curve.kind, name, step)
        on_host = [np.zeros(tuple(one.shape)) if is_device_tensor(one) else one for one in (x, y)]
        curve = Curve(name=full, step=step, x=on_host[0], y=on_host[1], title=title, x_label=x_label, y_label=y_label)
        if is_device_tensor(x) or is_device_tensor(y):
            values = [one if is_device_tensor(one) else copy for one, copy in ((x, curve.x), (y, curve.y))]
            self._put_later(Curve.kind, full, lambda x, y: replace(curve, x=x, y=y), *values)
        else:
            self._put(curve)

    def page(
        self,
        path: str | Path,
        *,
        step: int | None = None,
        name: str | None = None,
        contents: Sequence[PageEntry] = (),
        sha256: str = "",
    ) -> None:
        """Emits a page of debug outputs. The run's folder gets a hard link to it, or a copy across file systems.

        Args:
            path: The finished page; it must not be changed afterwards.
            step: Its step.
            name: By default the file's name without its suffix: ``page_0``.
            contents: Its table of contents, which trackers show beside it.
            sha256: Its checksum in hexadecimal digits; without it the file is read to compute it.
        """
        name = name if name is not None else storable(as_path("page", path).stem)
        self._put_file(Page, name, step, path, contents=tuple(contents), sha256=sha256)

    def file(
        self,
        path: str | Path,
        *,
        media_type: str = "application/octet-stream",
        step: int | None = None,
        name: str | None = None,
    ) -> None:
        """Emits a file as it is now: the run's folder gets a copy. ``name`` is the file's name by default."""
        name = name if name is not None else storable(as_path("file", path).name or str(path))
        self._put_file(File, name, step, path, media_type=media_type)

    @property
    def origin(self) -> Emitter:
        """The emitter from which this one was derived by ``scoped`` and ``at``, such as a run; else itself."""
        return self if self._origin is None else self._origin

    def _derived(self, scope: str, step: int | None) -> Emitter:
        # Its names are remembered with ours: one is derived for each step, and gives the same names each time.
        emitter = Emitter.__new__(Emitter)
        emitter._recorder, emitter._defer, emitter._scope, emitter._step = self._recorder, self._defer, scope, step
        emitter._known_names, emitter._name_sequences = self._known_names, self._name_sequences
        emitter._origin = self.origin
        emitter._on_alert, emitter._owners, emitter._reached = self._on_alert, self._owners, self._reached
        return emitter


__all__ = ["Deferred", "Emitter", "PendingArray", "Recorder", "ScalarRow"]
