"""The tools of a debug session, as its configuration asks for them."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path

from debuggers.instrumentation.isolation import Isolation
from debuggers.torch_import import torch
from stability.debugging.anomaly_mode import AutogradAnomaly
from stability.debugging.check_pace import CheckPace
from stability.debugging.config import PyTorchDebuggingConfig
from stability.debugging.cuda import CudaDebugging
from stability.debugging.emission import DebugEmission
from stability.debugging.gradient_check_rotation import GradientCheckRotation
from stability.debugging.log import DebugLog
from stability.debugging.memory import MemoryDebugging
from stability.debugging.memory_profile import MemoryProfiler
from stability.debugging.profiling import StepProfiling
from stability.debugging.timing import StepTiming
from stability.debugging.tool import DebugTool, StepSeen
from stability.results.step import Anomaly, DebugInfo, DebugSummary


class DebugTools:
    """All tools of a session. What a tool raises is logged once and noted; the run and the other tools go on.

    Attributes:
        open: Whether they are on.
        names: What they are called in messages.
    """

    def __init__(self, config: PyTorchDebuggingConfig, log: DebugLog, emission: DebugEmission) -> None:
        """Switches on what the configuration asks for, until ``close``."""
        self._isolation = Isolation("isolate", log.failure)
        self._emission = emission
        self.open = True
        profiling = config.profile_autograd or config.profile_memory
        # The timing comes last: a wait for the device counts in the phase before the manager's step.
        makers: list[tuple[str, bool, Callable[[], DebugTool]]] = [
            ("CUDA debugging", config.enable_cuda_debugging, lambda: CudaDebugging(config, log)),
            (
                "anomaly mode",
                config.enable_autograd_anomaly,
                lambda: AutogradAnomaly(config.autograd_anomaly_mode, log),
            ),
            ("memory debugging", config.enable_memory_debugging, lambda: MemoryDebugging(config.memory_leak_mb, log)),
            (
                "memory profiling",
                config.memory_profiling,
                lambda: MemoryProfiler(CheckPace(config.memory_profile_every, config.check_max_share), self._isolation),
            ),
            ("gradient checking", config.enable_grad_check, lambda: GradientCheckRotation(config)),
            ("profiling", profiling, lambda: StepProfiling(config, emission.operators, log)),
            ("timing", config.enable_performance_debugging, StepTiming),
        ]
        self._tools: list[DebugTool] = []
        self.names: list[str] = []
        for name, wanted, make in makers:
            if wanted:
                with self._isolation.guard(name):
                    self._tools.append(make())
                    self.names.append(name)

    def begin(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """The manager's step begins."""
        for tool in self._tools:
            with self._guard(tool):
                tool.attach(model, optimizer)

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Lets each tool add to the step's information, emits that, and returns what the tools found wrong."""
        found: list[Anomaly] = []
        for tool in self._tools:
            with self._guard(tool):
                found += tool.observe(seen, info)
        with self._isolation.guard("the emission of debug information"):
            self._emission.step(info, seen.number)
        return found

    def close(self) -> None:
        """Switches all tools off, the last one first; a second call does nothing."""
        if self.open:
            self.open = False
            for tool in reversed(self._tools):
                with self._guard(tool):
                    tool.close()

    def files(self) -> list[Path]:
        """Returns the files that the tools wrote and that are still there."""
        traces = [path for tool in self._tools if isinstance(tool, StepProfiling) for path in tool.files]
        return [path for path in traces if path.exists()]

    def fill(self, summary: DebugSummary) -> None:
        """Adds what the tools found in the whole session."""
        for tool in self._tools:
            match tool:
                case MemoryDebugging():
                    summary["peak_rss"] = tool.peak_rss or None
                    summary["memory_leaks"], summary["memory_leaks_ended"] = tool.leaks, tool.ended
                case MemoryProfiler():
                    summary["memory_profile"] = tool.last
                case GradientCheckRotation():
                    summary["gradient_checks"] = tool.summary()
                case StepProfiling():
                    summary["operators"] = tool.operators
                case StepTiming():
                    summary["step_times"] = tool.mean()
                case _:
                    pass

    def _guard(self, tool: DebugTool) -> AbstractContextManager[None]:
        return self._isolation.guard(type(tool).__name__)
