"""torch.profiler: a handler of its traces, which keeps them in a run; see docs/frameworks/torch_profiler.md."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.terminal_text import say
from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.errors import ProfilerError
from debuggers.instrumentation.isolation import Isolation, failure_alerts
from debuggers.profiling.step_trace import MEDIA_TYPE, TRACE_NAME, export_trace
from debuggers.torch_import import torch
from stepscope.errors import ConfigError, SessionError

OPERATORS_NAME = "profiler_operators"
COLUMNS = ("operator", "calls", "own_cpu_ms", "own_device_ms")


def trace_handler(
    run: Emitter, *, max_mb: float = 50.0, operators: int = 100, first_step: int = 0
) -> Callable[[torch.profiler.profile], None]:
    """Returns an ``on_trace_ready`` of ``torch.profiler.profile`` that keeps each trace, and its operators, in a run.

    The trace is the file ``profiler_trace``, gzipped JSON, which Chrome and Perfetto open. The table
    ``profiler_operators`` has the operators that took the most time: how often each was called, and the time in
    milliseconds of its own, without that of operators that it called, on the processor and on the device. Both stand
    under the last step that ``profile.step`` has ended, counted from ``first_step``. With ``acc_events=True`` the table
    covers all recordings so far, else the last one.

    Nothing that fails here reaches the training: it is logged, and an alert of the run.

    Args:
        run: The run, open while the profiler runs.
        max_mb: A larger file, in units of 2**20 bytes, is left out, with an alert; the table is kept.
        operators: Rows of the table.
        first_step: The number of the step in which the profiler starts, as after a checkpoint.

    Raises:
        SessionError: When ``run`` is no run.
        ConfigError: For another argument that is wrong.
    """
    if not isinstance(run, Emitter):
        raise SessionError(f"run is {type(run).__name__} {run!r}; expected an open run, as of stepscope.open_run")
    if isinstance(max_mb, bool) or not isinstance(max_mb, int | float) or not max_mb > 0:
        raise ConfigError(f"max_mb is {max_mb!r}; expected a number above 0")
    check_value("operators", operators, at_least(1), ConfigError)
    check_value("first_step", first_step, at_least(0), ConfigError)
    step = first_step
    isolation = Isolation("isolate", failure_alerts(run, lambda: step, name="trace_failed", level="warning"))

    def take(profile: torch.profiler.profile) -> None:
        nonlocal step
        step = first_step + max(0, profile.step_num - 1)
        with isolation.guard("reading a trace's operators"):
            run.table(OPERATORS_NAME, COLUMNS, _operators(profile)[:operators], step=step)
        with isolation.guard("keeping a trace"):
            try:
                export_trace(
                    profile,
                    step,
                    max_mb,
                    lambda path, at: run.file(path, media_type=MEDIA_TYPE, step=at, name=TRACE_NAME),
                )
            except ProfilerError as error:
                run.alert("trace_left_out", str(error), step=step, level="info", told=True)
                say(str(error))

    return take


def _operators(profile: torch.profiler.profile) -> list[tuple[Any, ...]]:
    """Rows of ``COLUMNS``, those that took most time first."""
    rows = [
        (one.key, one.count, one.self_cpu_time_total / 1000, one.self_device_time_total / 1000)
        for one in profile.key_averages()
    ]
    return sorted(rows, key=lambda row: max(row[2:]), reverse=True)
