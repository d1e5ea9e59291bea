"""What producers hold: one call an artifact, which checks, copies and queues, and waits for no tracker."""

from __future__ import annotations

import time
import weakref
from collections.abc import Callable, Generator, Sequence
from functools import partial
from pathlib import Path
from sys import getsizeof
from typing import Any, NoReturn, Self, TypeVar

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import (
    Alert,
    AlertLevel,
    Artifact,
    Cell,
    File,
    Histogram,
    Image,
    Page,
    PageEntry,
    Scalar,
    Table,
    Text,
)
from tracker_adapters.by_value import LogsByValue
from tracker_adapters.errors import ArtifactError, UnreadableFileError
from tracker_adapters.frames import frame_table, is_frame
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.recording import Deferred, HistogramBlock, PendingArray, Recorder, ScalarBlock, ScalarRow
from tracker_adapters.redaction import redact
from tracker_adapters.values.arrays import as_float, check_readable, host_dtype, is_device_tensor
from tracker_adapters.values.base import MAX_STEP, check_name, check_step, check_time
from tracker_adapters.values.image import Layout, pixels
from tracker_adapters.values.name_sequences import NameSequences
from tracker_adapters.values.pictures import with_layout
from tracker_adapters.values.plain import as_path, storable

F = TypeVar("F", Page, File)
MAX_KNOWN_NAMES = 100_000  # a name a step, by mistake, must not fill the memory


class Emitter(LogsByValue):
    """Emits artifacts under a name scope, at a given or a bound step.

    ``scoped`` and ``at`` derive emitters that share the recorder and cost nothing to make. All methods may be
    called from any thread. Wrong arguments raise ArtifactError at the caller's line; nothing else raises.
    """

    def __init__(
        self,
        recorder: Recorder,
        *,
        defer: Callable[[Any], PendingArray] | None = None,
        scope: str = "",
        step: int | None = None,
        on_alert: Callable[[Alert], None] | None = None,
    ) -> None:
        """Makes an emitter; ``scoped`` and ``at`` are the usual ways to derive another.

        Args:
            recorder: Where artifacts go.
            defer: Copies a device tensor without synchronising; without it device tensors are refused.
            scope: Prefix of every name, ending in a slash, or empty.
            step: The step of calls that give none.
            on_alert: Shows alerts to the person at the terminal.
        """
        self._recorder, self._defer, self._on_alert = recorder, defer, on_alert
        self._scope, self._step = scope, step
        self._origin: Emitter | None = None
        self._known_names: set[str] = set()
        self._owners: dict[str, weakref.ref[object]] = {}
        self._reached: dict[str, int] = {}
        self._name_sequences = NameSequences()

    def __reduce__(self) -> NoReturn:
        raise TypeError(
            "a run belongs to the process that opened it and cannot be pickled; open a run of its own in each process "
            "that emits, or return the values and emit them here"
        )

    def __deepcopy__(self, memo: object) -> Self:
        """Returns the emitter itself: a copy of a model emits into the same run."""
        return self

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
            check_readable(f"histogram {full!r}", values)
            pending = self._deferred(f"histogram {full!r}", values)
            self._put_pending(Histogram.kind, full, pending, lambda: build(pending.resolve()))
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
            pending = self._deferred(f"image {full!r}", values)
            self._put_pending(
                Image.kind, full, pending, lambda: build(pixels(full, pending.resolve(), layout, value_range))
            )
            return
        array = pixels(full, values, layout, value_range)
        parts = partial(Image.in_parts, full, array, step=step, time_ns=now)
        self._put(Deferred(Image.kind, full, array.nbytes, lambda: build(array), parts), array.nbytes)

    def text(self, name: str, text: str, *, step: int | None = None) -> None:
        """Emits a text, shown as Markdown where the tracker can."""
        full, step = self._checked("text", name, step)
        artifact = Text(name=full, text=text, step=step)
        self._put(artifact, getsizeof(artifact.text))

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
        self._put(artifact, getsizeof(artifact.message))
        if self._on_alert is not None and not told:
            self._on_alert(artifact)

    def table(
        self, name: str, columns: Any, rows: Sequence[Sequence[Cell]] | None = None, *, step: int | None = None
    ) -> None:
        """Emits rows of plain cells under named columns, or a data frame of pandas or polars in place of both."""
        full, step = self._checked("table", name, step)
        columns, rows = (columns, rows) if rows is not None or not is_frame(columns) else frame_table(columns)
        artifact = Table(name=full, columns=columns, rows=rows, step=step)  # type: ignore[arg-type]  # copied to tuples
        cells = sum(getsizeof(cell) + 8 for row in (artifact.columns, *artifact.rows) for cell in row)
        self._put(artifact, cells + 64 * len(artifact.rows))

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
        full, step = self._checked("page", name if name is not None else storable(as_path("page", path).stem), step)
        source = as_path(f"page {full!r}", path)
        page = self._made(
            lambda: Page(name=full, path=source, contents=tuple(contents), sha256=sha256, step=step), Page.kind, full
        )
        if page is not None:
            self._put_file(page, sum(map(_entry_bytes, page.contents)) + 512)

    def file(
        self,
        path: str | Path,
        *,
        media_type: str = "application/octet-stream",
        step: int | None = None,
        name: str | None = None,
    ) -> None:
        """Emits a file as it is now: the run's folder gets a copy. ``name`` is the file's name by default."""
        full, step = self._checked(
            "file", name if name is not None else storable(as_path("file", path).name or str(path)), step
        )
        source = as_path(f"file {full!r}", path)
        file = self._made(lambda: File(name=full, path=source, media_type=media_type, step=step), File.kind, full)
        if file is not None:
            self._put_file(file, 512)

    @property
    def origin(self) -> Emitter:
        """The emitter from which this one was derived by ``scoped`` and ``at``, such as a run; else itself."""
        return self if self._origin is None else self._origin

    def claim(self, owner: object) -> bool:
        """Takes the scope for a producer of series with fixed names, such as the session of a model.

        Returns:
            Whether it is the first one there: two would mix their series.
        """
        return self._owners.setdefault(self._scope, weakref.ref(owner))() is owner

    @property
    def reached(self) -> int:
        """The last step of the producer of series that was in this scope before; -1 where there was none."""
        return self._reached.get(self._scope, -1)

    def reach(self, step: int) -> None:
        """Says how far a producer of series with fixed names has come in this scope, so that the next one goes on."""
        self._reached[self._scope] = max(step, self.reached)

    def _derived(self, scope: str, step: int | None) -> Emitter:
        # Its names are remembered with ours: one is derived for each step, and gives the same names each time.
        emitter = Emitter.__new__(Emitter)
        emitter._recorder, emitter._defer, emitter._scope, emitter._step = self._recorder, self._defer, scope, step
        emitter._known_names, emitter._name_sequences = self._known_names, self._name_sequences
        emitter._origin = self.origin
        emitter._on_alert, emitter._owners, emitter._reached = self._on_alert, self._owners, self._reached
        return emitter

    def _put_file(self, artifact: Page | File, nbytes: int) -> None:
        adopted = self._recorder.adopt(artifact)
        if adopted is not None:
            self._put(adopted, nbytes)

    def _checked(self, kind: str, name: object, step: int | None) -> tuple[str, int]:
        full = self._full_name(kind, name)
        return full, check_step(kind, full, self._bound_step(kind, full) if step is None else step)

    def _checked_block(
        self, kind: str, names: Sequence[str], step: int | None, time_ns: int | None
    ) -> tuple[tuple[str, ...], int, int]:
        full = self._name_sequences.full(kind, self._scope, names)
        if step is None:
            step = self._bound_step(f"{kind}s", full[:1])
        time_ns = time.time_ns() if time_ns is None else check_time(f"{kind}s", self._scope, time_ns)
        return full, check_step(f"{kind}s", self._scope, step), time_ns

    def _full_name(self, kind: str, name: object) -> str:
        return check_name(kind, self._scope + check_name(kind, name))

    def _bound_step(self, kind: str, name: object) -> int:
        if self._step is None:
            raise ArtifactError(f"{kind} {name!r}: no step given; pass step=… or emit through emitter.at(step)")
        return self._step

    def _deferred(self, what: str, tensor: Any) -> PendingArray:
        if self._defer is None:
            raise ArtifactError(
                f"{what}: got a tensor on {tensor.device}; this emitter takes host values only, such as tensor.cpu()"
            )
        return self._defer(tensor)

    def _put_device_scalar(self, name: str, tensor: Any, step: int, time_ns: int) -> None:
        what = f"scalar {name!r}"
        check_readable(what, tensor)
        if tensor.ndim != 0:
            raise ArtifactError(f"{what}: got shape {tuple(tensor.shape)}; expected a number or a 0-d tensor or array")
        pending = self._deferred(what, tensor)
        self._put_pending(
            Scalar.kind,
            name,
            pending,
            lambda: Scalar(name=name, value=float(pending.resolve()), step=step, time_ns=time_ns),
        )

    def _put_pending(self, kind: str, name: str, pending: PendingArray, build: Callable[[], Artifact]) -> None:
        parts = partial(_built_when_ready, pending, build)
        self._put(Deferred(kind, name, pending.nbytes, build, parts), pending.nbytes)

    def _put(self, item: Artifact | Deferred, nbytes: int) -> None:
        self._recorder.put(item, nbytes + getsizeof(item.name) + 256)

    def _made(self, make: Callable[[], F], kind: str, name: str) -> F | None:
        """What ``make`` makes; None, counted as lost, when this machine cannot read the file now."""
        try:
            return make()
        except UnreadableFileError as error:
            self._put(Deferred(kind, name, 0, partial(_fail, error)), 0)
            return None


def _built_when_ready(pending: PendingArray, build: Callable[[], Artifact]) -> Generator[bool, None, Artifact]:
    """Builds without waiting for a device where the pending array can tell whether it is there."""
    ready = getattr(pending, "ready", None)
    while ready is not None and not ready():
        yield False
    return build()


def _fail(error: Exception) -> NoReturn:
    raise error


def _entry_bytes(entry: PageEntry) -> int:
    return getsizeof(entry.debugger) + getsizeof(entry.summary) + len(entry.picture) + 128


__all__ = ["Deferred", "Emitter", "PendingArray", "Recorder", "ScalarRow"]
