"""Takes times and memory that a loop tells or asks to be measured, and says where they go."""

import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from datetime import timedelta
from typing import Annotated, Any

from msgspec import Meta
from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.base import check_name
from tracker_adapters.values.checked_values import PositiveInteger, at_least, check_value

from debuggers.diagnosis.data_waiting import DataWaiting
from debuggers.errors import ArgumentTypeError, DebuggerConfigError, ProfilerError, TimerError
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.profiling.bottlenecks import Bottleneck, find_bottlenecks, suggestion
from debuggers.profiling.forward_times import forward_times
from debuggers.profiling.measured_steps import MeasuredSteps, SessionSide
from debuggers.profiling.step_times import ModuleStep
from debuggers.profiling.totals import NO_RUNS, LayerTotals, TimerTotals
from debuggers.torch_import import torch
from debuggers.utils import nearest_names

MAX_NAMES = 10_000
"""Most timers, and most layers, that are kept; further names are counted in ``left_out``."""
_Amount = Annotated[float, Meta(ge=0, description="a number of at least 0")]


@methods_between_graphs
class PerformanceProfiler:
    """Timers, and the times and memory of layers, measured or as a loop tells them; sums only.

    ::

        with session.profiler.timer("data loading"):
            batch = next(batches)
        session.profiler.measure_steps(10)  # and train on
        for line in session.profiler.suggestions():
            print(line)

    Timers measure wall time on the host and wait for no device: around a CUDA computation they measure its launch.
    Methods may be called from any thread; each thread has its own running timers, and they are summed by name.

    Attributes:
        left_out: Calls that were not kept, because there are 10,000 other names.
        steps: Whom the session tells of its steps; None without a session.
    """

    def __init__(self, model: torch.nn.Module | None = None, *, session: SessionSide | None = None) -> None:
        """Takes the model that is measured, if there is one, and what a session gives."""
        self.left_out = 0
        self._model, self._session = model, session
        self.steps = None if session is None else MeasuredSteps(model, session, self._take_step)
        self._running: dict[tuple[int, str], int] = {}
        self._timers: dict[str, TimerTotals] = {}
        self._layers: dict[str, LayerTotals] = {}
        self._lock = threading.Lock()

    def start_timer(self, name: str) -> None:
        """Starts the timer of this name on the calling thread.

        Raises:
            TimerError: When it runs already.
            DebuggerConfigError: For what is no name.
        """
        key = threading.get_ident(), _checked_name("timer", name)
        if key in self._running:
            raise TimerError(f"the timer {name!r} was started twice; end it before it is started again")
        self._running[key] = time.perf_counter_ns()

    def end_timer(self, name: str) -> float:
        """Ends the timer of this name, and returns how long it ran, in seconds.

        Raises:
            TimerError: When it does not run on the calling thread: never started, or ended before.
        """
        now = time.perf_counter_ns()
        started = self._running.pop((threading.get_ident(), name), None)
        if started is None:
            raise TimerError(self._not_running(name))
        seconds = (now - started) / 1e9
        with self._lock:
            if name in self._timers or len(self._timers) < MAX_NAMES:
                self._timers[name] = self._timers.get(name, NO_RUNS).plus(seconds)
            else:
                self.left_out += 1
        return seconds

    @contextmanager
    def timer(self, name: str) -> Iterator[None]:
        """Runs the timer of this name around a ``with`` block, also one that raises."""
        self.start_timer(name)
        try:
            yield
        finally:
            self.end_timer(name)

    def record_layer_execution(  # noqa: PLR0917 (loops pass them by place)
        self,
        name: str,
        kind: str,
        forward_time: float | timedelta,
        backward_time: float | timedelta | None = None,
        memory: float | None = None,
        parameters: int | None = None,
    ) -> None:
        """Adds one execution of a layer.

        Args:
            name: The layer.
            kind: Its type.
            forward_time: Seconds, or a timedelta.
            backward_time: The same of the backward pass; None if there was none.
            memory: What it holds, in bytes; None if not known.
            parameters: Number of its parameters; None if not known.

        Raises:
            DebuggerConfigError: For a wrong value; a time or memory that is NaN or negative is one.
        """
        name, kind = _checked_name("layer", name), _checked_name("layer's kind", kind)
        forward = _seconds(name, "forward_time", forward_time)
        backward = None if backward_time is None else _seconds(name, "backward_time", backward_time)
        check_value(f"layer {name!r}: memory", memory, _Amount | None, DebuggerConfigError)
        check_value(f"layer {name!r}: parameters", parameters, at_least(0) | None, DebuggerConfigError)
        self._add(name, kind, 1, forward, backward, memory, parameters)

    def measure_forward(self, *inputs: Any, repeats: int = 3) -> None:
        """Records the forward time of each layer of the session's model, on these inputs: see ``forward_times``.

        The model runs aside: its buffers and the random state stay as they were. It takes the time of ``repeats + 1``
        forward passes, and waits for the device.

        Raises:
            ArgumentTypeError: In a session without a model.
            DebuggerConfigError: Unless ``repeats`` is at least 1; for a model that computes with other processes.
        """
        check_value("repeats", repeats, PositiveInteger, DebuggerConfigError)
        if self._session is not None and not self._session.enabled:
            return
        if self._model is None:
            raise ArgumentTypeError("profiler: the session has no model whose forward pass could be measured")
        for name, module, seconds in forward_times(self._model, inputs, repeats):
            parameters = sum(one.numel() for one in module.parameters())
            self.record_layer_execution(name, type(module).__name__, seconds, parameters=parameters)

    def measure_steps(self, steps: int = 10) -> None:
        """Records forward and backward times and the memory of each module in the coming steps of the training itself.

        The next step warms up and is not measured. Of a module that holds others its own operations are timed, without
        theirs; calls without gradients are left out. Memory is that of the tensors that a module without submodules
        makes and returns, per step. Nothing waits for a device: on CUDA the device's own clock is used, elsewhere the
        host's. What was compiled is one module.

        Raises:
            ProfilerError: Outside of a session, which tells of steps.
            ArgumentTypeError: In a session without a model.
            DebuggerConfigError: Unless ``steps`` is at least 1.
        """
        measured = self._measured_steps("steps", steps)
        if self._model is None and self._session is not None and self._session.enabled:
            raise ArgumentTypeError("profiler: the session has no model whose steps could be measured")
        measured.measure(steps)

    def trace(self, steps: int = 3, *, max_mb: float = 50.0) -> None:
        """Records the coming steps by ``torch.profiler``, and keeps the trace as a file of the run and in output_dir.

        All sinks get it; Chrome (``chrome://tracing``) and ``ui.perfetto.dev`` open it. torch waits for a CUDA device
        when it begins and when it ends. A session that ends before keeps what was seen.

        Args:
            steps: How many.
            max_mb: A larger file, in units of 2**20 bytes, is not kept, which is said on standard error.

        Raises:
            ProfilerError: Outside of a session, in one with neither a run nor an output_dir, and where a profiler of
                torch runs.
            DebuggerConfigError: Unless ``steps`` is at least 1 and ``max_mb`` above 0.
        """
        check_value("max_mb", max_mb, Annotated[float, Meta(gt=0, description="a number above 0")], DebuggerConfigError)
        self._measured_steps("steps", steps).trace(steps, max_mb)

    @property
    def data_waiting(self) -> DataWaiting | None:
        """The share of a step before its forward pass, as in loading data; None while it is not known."""
        return None if self._session is None else self._session.waiting()

    @property
    def timers(self) -> Mapping[str, TimerTotals]:
        """The totals of each timer that has ended at least once."""
        with self._lock:
            return dict(self._timers)

    @property
    def layers(self) -> tuple[LayerTotals, ...]:
        """The totals of each layer, the slowest first; waits for the device after ``measure_steps``."""
        if self.steps is not None:
            self.steps.drain()
        with self._lock:
            found = list(self._layers.values())
        return tuple(sorted(found, key=lambda layer: -layer.total_s))

    def bottlenecks(self) -> tuple[Bottleneck, ...]:
        """Returns the layers that take much of the time or memory; empty when fewer than two layers were told."""
        return find_bottlenecks(self.layers)

    def suggestions(self) -> tuple[str, ...]:
        """Returns what to try against each bottleneck, with the arithmetic behind it."""
        return tuple(suggestion(one) for one in self.bottlenecks())

    def _measured_steps(self, what: str, steps: int) -> MeasuredSteps:
        check_value(what, steps, PositiveInteger, DebuggerConfigError)
        if self.steps is None:
            raise ProfilerError("the profiler is told of no steps; expected that of a session, session.profiler")
        return self.steps

    def _take_step(self, name: str, kind: str, parameters: int, step: ModuleStep) -> None:
        memory = step.memory_bytes or None
        self._add(name, kind, step.calls, step.forward_s, step.backward_s, memory, parameters)

    def _add(  # noqa: PLR0917 (what record_layer_execution takes, in its order)
        self,
        name: str,
        kind: str,
        count: int,
        forward_s: float,
        backward_s: float | None,
        memory: float | None,
        parameters: int | None,
    ) -> None:
        with self._lock:
            if name not in self._layers and len(self._layers) >= MAX_NAMES:
                self.left_out += 1
                return
            before = self._layers.get(name, LayerTotals(name=name, kind=kind))
            self._layers[name] = replace(
                before,
                kind=kind,
                count=before.count + count,
                forward_s=before.forward_s + forward_s,
                backward_s=before.backward_s + (backward_s or 0.0),
                backward_count=before.backward_count + (0 if backward_s is None else count),
                peak_memory_bytes=_largest(before.peak_memory_bytes, memory),
                parameters=before.parameters if parameters is None else parameters,
            )

    def _not_running(self, name: object) -> str:
        if not isinstance(name, str):
            return f"the timer's name is {name!r}; expected a str"
        if name in self._timers:
            return f"the timer {name!r} has ended already; start it again before it is ended again"
        running = [known for thread, known in list(self._running) if thread == threading.get_ident()]
        hint = nearest_names(name, running) if running else "no timer runs on this thread"
        return f"the timer {name!r} was never started on this thread; {hint}"


def _checked_name(kind: str, name: object) -> str:
    try:
        return check_name(kind, name)
    except ArtifactError as error:
        raise DebuggerConfigError(str(error)) from None


def _seconds(layer: str, what: str, value: float | timedelta) -> float:
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    check_value(f"layer {layer!r}: {what}", seconds, _Amount, DebuggerConfigError)
    return float(seconds)


def _largest(before: float | None, now: float | None) -> float | None:
    if now is None:
        return before
    return now if before is None else max(before, now)
