"""``torch.profiler`` over a few steps: a trace file, and the operators that take most time."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_profiling
from stability.debugging.config import PyTorchDebuggingConfig
from stability.debugging.log import DebugLog
from stability.debugging.tool import StepSeen
from stability.reporting.files import new_debug_path, rotate
from stability.reporting.process_memory import BYTES_PER_MB
from stability.results.debugging import OperatorTime
from stability.results.step import Anomaly, DebugInfo

MOST_OPERATORS = 20
Emit = Callable[[list[OperatorTime], Path | None, int], None]


class StepProfiling:
    """Runs the profiler on the configuration's schedule; one of its steps ends with the manager's step.

    While it records, a step takes longer, and another profiler cannot be started. Where one runs already, nothing is
    profiled, which is noted.
    """

    def __init__(self, config: PyTorchDebuggingConfig, emit: Emit, log: DebugLog) -> None:
        """Starts the schedule.

        Args:
            config: The schedule, what is recorded, and where the trace file goes if files are saved.
            emit: Takes the operators, the trace file if there is one, and the step, after each recording.
            log: Takes what went wrong.
        """
        self._config = config
        self._emit = emit
        self._log = log
        self._step = 0
        self._left = config.profile_repeat
        self._profile: Any = None
        self._recording = False
        self.operators: list[OperatorTime] = []
        self.files: list[Path] = []
        activities = [torch.profiler.ProfilerActivity.CPU]
        if torch.cuda.is_available():
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        schedule = torch.profiler.schedule(
            wait=config.profile_wait,
            warmup=config.profile_warmup,
            active=config.profile_active,
            repeat=config.profile_repeat,
        )
        self._profile = torch.profiler.profile(
            activities=activities,
            schedule=schedule,
            on_trace_ready=self._take,
            profile_memory=config.profile_memory,
            acc_events=True,
        )
        self._guarded(self._profile.start)

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Nothing is attached."""

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Ends one of the profiler's steps."""
        self._step = seen.number
        if self._profile is not None:
            self._guarded(self._profile.step)
        if not self._left:
            self.close()
        return []

    def close(self) -> None:
        """Ends the profiler; what it has recorded so far is kept."""
        profile, self._profile = self._profile, None
        if profile is not None:
            self._guarded(profile.stop)

    def _guarded(self, action: Callable[[], None]) -> None:
        if is_profiling() and not self._recording:
            self._profile = None
            self._log.note("profiler_busy", "another profiler runs in this process: the steps are not profiled")
            return
        try:
            action()
            self._recording = is_profiling()
        except RuntimeError as error:
            self._profile = None
            self._log.note("profiler_failed", f"the steps are not profiled: {error}")

    def _take(self, profile: Any) -> None:
        self._left -= 1
        events = profile.key_averages()
        operators = [
            OperatorTime(
                operator=event.key,
                calls=event.count,
                cpu_ms=event.self_cpu_time_total / 1000,
                cuda_ms=getattr(event, "self_device_time_total", 0) / 1000,
                memory_mb=(event.self_cpu_memory_usage + getattr(event, "self_device_memory_usage", 0)) / BYTES_PER_MB,
            )
            for event in events
            if not event.key.startswith("ProfilerStep")
        ]
        operators.sort(key=lambda operator: -(operator["cuda_ms"] or operator["cpu_ms"]))
        self.operators = operators[:MOST_OPERATORS]
        self._emit(self.operators, self._saved(profile), self._step)

    def _saved(self, profile: Any) -> Path | None:
        config = self._config
        if not config.save_debug_info:
            return None
        folder = Path(config.debug_output_dir)
        path = new_debug_path(folder, config.debug_file_prefix, "trace", ".json.gz")
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _export(profile, path)
            rotate(folder, config.debug_file_prefix, "trace", config.max_debug_files)
        except (OSError, RuntimeError) as error:
            self._log.note("unwritable", f"nothing can be saved to {folder}: {error}")
            return None
        if not path.exists():
            return None
        self.files.append(path)
        return path


def _export(profile: Any, path: Path) -> None:
    try:
        profile.export_chrome_trace(str(path))
    except OSError:
        with suppress(OSError):
            path.unlink()  # a half of a file
        raise
