"""The steps of a session that are measured on request: times of modules, and a trace."""

import shutil
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from os import PathLike
from pathlib import Path

from tracker_adapters.emitter import Emitter
from tracker_adapters.terminal_text import say

from debuggers.diagnosis.data_waiting import DataWaiting
from debuggers.errors import ProfilerError
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.profiling.step_times import ModuleStep, StepTimes
from debuggers.profiling.step_trace import MEDIA_TYPE, TRACE_NAME, StepTrace
from debuggers.torch_import import torch


@dataclass(frozen=True, slots=True, kw_only=True)
class SessionSide:
    """What a session gives its profiler.

    Attributes:
        emitter: Where traces go; None for nowhere.
        output_dir: A folder for traces; None for none.
        isolation: Keeps failures from the training.
        stopwatch: Adds up the time that measuring takes.
        enabled: Whether anything is measured.
        waiting: Returns how long steps wait for data.
    """

    emitter: Emitter | None
    output_dir: str | PathLike[str] | None
    isolation: Isolation
    stopwatch: Stopwatch
    enabled: bool
    waiting: Callable[[], DataWaiting | None]


class MeasuredSteps:
    """Measures the coming steps, as long as it was asked to; a session tells it of its steps."""

    def __init__(
        self, model: torch.nn.Module | None, side: SessionSide, take: Callable[[str, str, int, ModuleStep], None]
    ) -> None:
        """Measures nothing yet; ``take`` gets name, type and number of parameters of a module, and its numbers."""
        self._side, self._take, self._left = side, take, 0
        self._warm = False
        self._trace: StepTrace | None = None
        self._times: StepTimes | None = None
        if model is not None:
            self._times = StepTimes(model, side.isolation, side.stopwatch, self._take_step)

    def measure(self, steps: int) -> None:
        """Times the modules in so many steps after the next one, which warms up."""
        self._left, self._warm = steps, False
        self.begin()

    def trace(self, steps: int, max_mb: float) -> None:
        """Records a trace of so many steps, from here on.

        Raises:
            ProfilerError: Where a trace cannot be kept, or another profiler runs.
        """
        if not self._side.enabled:
            return
        if self._side.emitter is None and self._side.output_dir is None:
            raise ProfilerError(
                "the session has neither a run nor an output_dir to keep a trace in; expected one, such as "
                "DebugSession(model, optimizer, run=run)"
            )
        with self._side.stopwatch:
            self._trace = StepTrace(steps, max_mb, self._keep)

    def begin(self) -> None:
        """Says that a step begins."""
        if self._left and self._times is not None and self._side.enabled:
            with self._side.stopwatch, self._side.isolation.guard("timing layers"):
                self._times.attach()

    def end_step(self, step: int) -> None:
        """Says that a step has ended."""
        if self._times is not None and self._left:
            with self._side.stopwatch, self._side.isolation.guard("timing layers"):
                self._times.end_step(counts=self._warm)
                self._left -= self._warm
                self._warm = True
                if not self._left:
                    self._times.detach()
        if self._trace is not None:
            with self._side.stopwatch, self._side.isolation.guard("tracing steps"):
                self._end_trace(partial(self._trace.end_step, step), step)

    def pause(self) -> None:
        """Takes the hooks off, until the next step begins."""
        if self._times is not None:
            self._times.detach()

    def drain(self) -> None:
        """Takes what is on its way; waits for the device."""
        if self._times is not None:
            with self._side.isolation.guard("timing layers"):
                self._times.drain()

    def close(self, step: int) -> None:
        """Removes every hook, and keeps the trace as far as it has come; waits for the device."""
        self._left = 0
        self.pause()
        self.drain()
        if self._trace is not None:
            with self._side.isolation.guard("tracing steps"):
                self._end_trace(partial(self._trace.close, step), step)

    def _end_trace(self, end: Callable[[], bool], step: int) -> None:
        try:
            if end():
                self._trace = None
        except ProfilerError as error:
            self._trace = None
            if self._side.emitter is not None:
                self._side.emitter.alert("trace_left_out", str(error), step=step, level="info", told=True)
            say(str(error))
        except BaseException:
            self._trace = None
            raise

    def _keep(self, path: Path, step: int) -> None:
        if self._side.emitter is not None:
            self._side.emitter.file(path, media_type=MEDIA_TYPE, step=step, name=TRACE_NAME)
        if self._side.output_dir is not None:
            folder = Path(self._side.output_dir)
            folder.mkdir(parents=True, exist_ok=True)
            shutil.copyfile(path, folder / path.name)

    def _take_step(self, found: dict[int, ModuleStep]) -> None:
        assert self._times is not None
        for place, step in found.items():
            entry = self._times.modules[place]
            parameters = sum(one.numel() for one in entry.module.parameters(recurse=False))
            self._take(entry.name, type(entry.module).__name__, parameters, step)
