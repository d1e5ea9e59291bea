"""Inspects single tensors that a training loop passes in: statistics, health, memory, leaks and comparisons."""

import threading
from datetime import timedelta

from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.values.base import check_name, check_step

from debuggers.errors import DebuggerConfigError, UnknownTensorError
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.tensors.comparison import TensorComparison, compare_infos
from debuggers.tensors.info import HealthLevel, TensorInfo
from debuggers.tensors.inspection import PendingInspection
from debuggers.tensors.lifetimes import TensorLeak, TensorLifetimes
from debuggers.tensors.sampling import REMEMBERED_NAMES, EvenSampling
from debuggers.tensors.tracked import TrackedTensors

_GROUP = "tensors"


@methods_between_graphs
class TensorInspector:
    """Measures the tensors that it is given, keeps the last results, and follows the memory of all of them.

    Tensors are never changed nor kept alive, and no random number is drawn. On CUDA ``inspect_tensor`` waits for
    nothing: what has arrived is taken at the next call, and reading waits for the rest. A result takes about 5 kB at
    FULL (its histogram; 45 kB if all 4080 bins are occupied), and at FULL_TENSOR the tensor's size more. Methods may
    be called from any thread.

    With an emitter, a tensor at FULL emits the histogram ``tensors/<name>``; the first NaN or infinity under a name
    emits an alert ``non_finite_tensor``, at any level; memory that accumulates under it, an alert ``tensor_leak``, and
    ``tensor_leak_ended`` when it stops to.

    Attributes:
        inspected: Calls of ``inspect_tensor``.
        skipped: Those of them that were not measured: left out by sampling, or not enabled.
    """

    def __init__(
        self,
        *,
        max_tracked_tensors: int = 1000,
        sampling_rate: float = 1.0,
        level: HealthLevel = HealthLevel.FULL,
        enabled: bool = True,
        emitter: Emitter | None = None,
        counts_rounds: bool = False,
    ) -> None:
        """Sets it up.

        Args:
            max_tracked_tensors: Number of results that are kept; the oldest are dropped first.
            sampling_rate: The share of calls under each name that is measured; see ``EvenSampling``.
            level: What is measured, unless a call says otherwise.
            enabled: Whether anything is: without, all calls are counted as skipped, and no memory is followed.
            emitter: Where histograms and alerts go.
            counts_rounds: Whether a tensor that comes again begins the next step, until a step is given: for a loop
                that gives none. It comes again with the same name, layer and operation.

        Raises:
            DebuggerConfigError: For a wrong value.
        """
        self.inspected = self.skipped = 0
        self._tracked = TrackedTensors(max_tracked_tensors, self._emit)
        self._sampling = EvenSampling(sampling_rate)
        self._level = _as_level(level)
        self._enabled = enabled
        self._emitter = emitter
        self._step = 0
        self._round: set[tuple[str, str | None, str | None]] | None = set() if counts_rounds else None
        self._lifetimes = TensorLifetimes()
        self._alerted: set[tuple[str, str]] = set()
        self._leaking: set[str] = set()
        self._lock = threading.RLock()

    def start_step(self, step: int) -> None:
        """Says which step tensors belong to from now on, and notes what is alive at the end of the one before.

        Raises:
            ArtifactError: Unless ``step`` is an integer of at least 0.
        """
        step = check_step("tensor inspector", "start_step", step)
        with self._lock:
            if step == self._step:
                return
            self._round = None
            self._go_to(step)

    def inspect_tensor(
        self,
        tensor: object,
        name: str,
        layer: str | None = None,
        operation: str | None = None,
        *,
        step: int | None = None,
        level: HealthLevel | None = None,
    ) -> int:
        """Measures a tensor. Its memory is followed also when sampling leaves the measurement out.

        Args:
            tensor: A torch tensor of any dtype and layout that ``summarize`` takes, a NumPy array, a number or a
                list of numbers. The memory of numbers and lists is not followed.
            name: What it is called; under the same name at another step it is the same tensor later.
            layer: The layer that it belongs to.
            operation: What made it, such as ``forward``.
            step: Starts this step if it is not the current one, which is 0 at first; see ``start_step`` and
                ``counts_rounds``.
            level: What is measured, if not what the inspector measures.

        Returns:
            An id for ``get_tensor_info``, also for a tensor that was left out.

        Raises:
            ArtifactError: For what holds no plain numbers, and for a wrong name, layer, operation or step.
            DebuggerConfigError: For a wrong level.
        """
        name = check_name("tensor", name)
        check_name("tensor", f"{_GROUP}/{name}")
        for what, text in (("layer", layer), ("operation", operation)):
            if text is not None and not isinstance(text, str):
                raise ArtifactError(f"tensor {name!r}: {what} is {text!r}; expected a str or None")
        level = self._level if level is None else _as_level(level)
        with self._lock:
            if step is not None:
                self._round = None
                self.start_step(check_step("tensor", name, step))
            elif self._round is not None:
                self._count_round((name, layer, operation))
            memory_bytes = self._lifetimes.watch(name, tensor) if self._enabled else 0
            if self._enabled and self._sampling.takes(name):
                described = {"id": self.inspected + 1, "layer": layer, "operation": operation, "step": self._step}
                pending = PendingInspection(tensor, name, level, memory_bytes=memory_bytes, **described)
                self._tracked.add(self.inspected + 1, pending)
            else:
                self.skipped += 1
            self.inspected += 1
            return self.inspected

    def get_tensor_info(self, tensor_id: int) -> TensorInfo | None:
        """Returns what is known of a tensor; waits for its device.

        Returns:
            None for a tensor that was left out, and for one that was dropped or cleared since.

        Raises:
            UnknownTensorError: For an id that ``inspect_tensor`` never returned.
        """
        with self._lock:
            if not isinstance(tensor_id, int) or not 1 <= tensor_id <= self.inspected:
                raise UnknownTensorError(f"tensor id {tensor_id!r} is unknown; expected what inspect_tensor returned")
            return self._tracked.get(tensor_id)

    def tensors(self, name: str | None = None) -> list[TensorInfo]:
        """Returns what is known of all tracked tensors, or of those under a name, the oldest first."""
        with self._lock:
            return [info for info in self._tracked.all() if name is None or info.name == name]

    def compare(self, a: int, b: int) -> TensorComparison:
        """Compares two tensors by their ids, of any names, layers and steps: how b differs from a.

        Raises:
            UnknownTensorError: If one of them is not tracked.
        """
        return compare_infos(self._known(a), self._known(b))

    def compare_steps(self, name: str, step_a: int, step_b: int) -> TensorComparison:
        """Compares the tensors under a name at two steps: how the second differs from the first.

        Of several under that name at a step, the last one counts.

        Raises:
            UnknownTensorError: If there is none at one of the steps.
        """
        by_step = {info.step: info for info in self.tensors(name)}
        for step in (step_a, step_b):
            if step not in by_step:
                known = ", ".join(map(str, by_step)) or "none"
                raise UnknownTensorError(f"no tensor {name!r} is tracked at step {step}; its steps are: {known}")
        return compare_infos(by_step[step_a], by_step[step_b])

    def live_bytes(self) -> dict[str, int]:
        """Returns the bytes that inspected tensors still keep, by name, the largest first.

        A storage counts once, under the name it was first seen with, whatever else uses it.
        """
        with self._lock:
            return self._lifetimes.live_bytes()

    def leaks(self) -> list[TensorLeak]:
        """Returns the names whose memory keeps growing, as of the last step that ended; see ``TensorLeak``."""
        with self._lock:
            return self._lifetimes.leaks()

    def clear(self, older_than: float | timedelta | None = None) -> int:
        """Forgets results, and returns how many; memory is followed on.

        Args:
            older_than: Only those inspected at least so many seconds ago; all of them by default.

        Raises:
            ArtifactError: For an age that is negative, NaN or no number.
        """
        with self._lock:
            return self._tracked.clear(older_than)

    def drain(self) -> None:
        """Waits for all measurements, so that everything is emitted."""
        with self._lock:
            self._tracked.drain()

    @property
    def dropped(self) -> int:
        """Results that were dropped in favour of newer ones, because of ``max_tracked_tensors``."""
        return self._tracked.dropped

    def _count_round(self, tensor: tuple[str, str | None, str | None]) -> None:
        assert self._round is not None
        if tensor in self._round or len(self._round) >= REMEMBERED_NAMES:
            self._round.clear()
            self._go_to(self._step + 1)
        self._round.add(tensor)

    def _go_to(self, step: int) -> None:
        self._lifetimes.observe(self._step)
        for leak in self._lifetimes.leaks():
            if self._alert_once("tensor_leak", leak.name, leak.message, self._step, level="warning"):
                self._leaking.add(leak.name)
        for name in [name for name in self._leaking if self._lifetimes.has_ended(name)]:
            self._leaking.discard(name)
            message = f"{name}: no more memory than before: the reported leak was a cache or buffer that filled up"
            self._alert_once("tensor_leak_ended", name, message, self._step, level="info")
        self._step = step

    def close(self) -> None:
        """Ends it: waits for all measurements, as ``drain`` does. Calling it again does nothing."""
        self.drain()

    def _known(self, tensor_id: int) -> TensorInfo:
        info = self.get_tensor_info(tensor_id)
        if info is None:
            raise UnknownTensorError(
                f"tensor id {tensor_id} is not tracked: it was skipped by sampling, dropped or cleared"
            )
        return info

    def _emit(self, info: TensorInfo, columns: HistogramColumns | None) -> None:
        if self._emitter is None:
            return
        if columns is not None:
            self._emitter.histograms([f"{_GROUP}/{info.name}"], columns, step=info.step, time_ns=info.time_ns)
        if info.quality.has_non_finite:
            self._alert_once("non_finite_tensor", info.name, f"{info.name}: {info.quality.describe()}", info.step)

    def _alert_once(self, kind: str, name: str, message: str, step: int, *, level: AlertLevel = "error") -> bool:
        """Returns whether it was the first time."""
        if self._emitter is None or (kind, name) in self._alerted:
            return False
        if len(self._alerted) >= REMEMBERED_NAMES:
            self._alerted.clear()
        self._alerted.add((kind, name))
        self._emitter.alert(kind, message, step=step, level=level)
        return True


def _as_level(level: object) -> HealthLevel:
    if isinstance(level, HealthLevel):
        return level
    known = ", ".join(f"HealthLevel.{known.name}" for known in HealthLevel)
    raise DebuggerConfigError(f"level is {level!r}; expected one of {known}")
