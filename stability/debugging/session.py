"""One debug session: its tools, its limits, what it keeps, its summary and its files."""

import math
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tracker_adapters.emitter import Emitter
from tracker_adapters.fork_safe import OwnerProcess

from debuggers.torch_import import torch
from stability.debugging.config import PyTorchDebuggingConfig
from stability.debugging.cuda import save_cuda_snapshot
from stability.debugging.emission import DebugEmission
from stability.debugging.log import DebugLog
from stability.debugging.tool import StepSeen
from stability.debugging.tools import DebugTools
from stability.errors import StabilityError
from stability.gradients.measure import Gradients
from stability.monitoring.history import HISTORY_LENGTH
from stability.reporting.files import BYTES_PER_MB, save_debug_files
from stability.results.step import Anomaly, DebugInfo, DebugSummary, GradientStats, ToolsEnded


@dataclass(slots=True)
class SessionRecord:
    """What is known of a session, or of the steps before the first one."""

    name: str = ""
    started: float = field(default_factory=time.monotonic)
    stopped: float | None = None
    iterations: int = 0
    collected: int = 0
    tools_ended: ToolsEnded | None = None
    kinds: Counter[str] = field(default_factory=Counter)
    anomalies: deque[Anomaly] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    history: deque[DebugInfo] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    files: list[Path] = field(default_factory=list)

    def count(self, anomalies: list[Anomaly]) -> None:
        """Takes what was found wrong."""
        self.kinds.update(anomaly["kind"] for anomaly in anomalies)
        self.anomalies.extend(anomalies)

    def duration(self) -> float:
        """Returns the seconds from its start to its end or to now."""
        return (time.monotonic() if self.stopped is None else self.stopped) - self.started

    def info(self, config: PyTorchDebuggingConfig | None, anomalies: list[Anomaly], *, enabled: bool) -> DebugInfo:
        """Returns what is known of a step in any case."""
        return DebugInfo(
            debug_enabled=enabled,
            iteration=self.iterations,
            session_duration=self.duration(),
            anomaly_detector=bool(config and config.enable_autograd_anomaly),
            grad_check=bool(config and config.enable_grad_check),
            memory_debug=bool(config and config.enable_memory_debugging),
            anomalies_detected=bool(anomalies),
            anomaly_details=list(anomalies),
        )

    def summary(self, notes: list[str]) -> DebugSummary:
        """Returns the sums, without those of tools."""
        return DebugSummary(
            session=self.name,
            active=bool(self.name) and self.stopped is None,
            total_iterations=self.iterations,
            collected_iterations=self.collected,
            tools_ended=self.tools_ended,
            anomalies_detected=self.kinds.total(),
            anomalies_by_kind=dict(self.kinds),
            last_anomaly=self.anomalies[-1] if self.anomalies else None,
            session_duration=self.duration(),
            peak_rss=None,
            files=[str(path) for path in self.files],
            notes=notes,
            gradient_checks=None,
            memory_leaks=[],
            memory_leaks_ended=[],
            memory_profile=None,
            step_times=None,
            operators=[],
        )

    def contents(self) -> dict[str, list[Any]]:
        """Returns what is saved, by the name of its file."""
        return {
            "history": list(self.history),
            "anomalies": list(self.anomalies),
            "gradients": [
                {"iteration": info["iteration"], **info["gradient_stats"]}
                for info in self.history
                if "gradient_stats" in info
            ],
            "memory": [
                {"iteration": info["iteration"], **info["memory_info"]}
                for info in self.history
                if "memory_info" in info
            ],
        }


class ToolSession:
    """Runs the configured tools from its making to ``stop``, or until a limit of the configuration is reached."""

    def __init__(self, name: str, config: PyTorchDebuggingConfig, emitter: Emitter | None, step: int) -> None:
        """Starts the session.

        Args:
            name: Its name, for logs and the summary.
            config: What it does.
            emitter: Takes what it finds.
            step: The step that comes next.
        """
        self.record = SessionRecord(name)
        self.config = config
        self.owner_process = OwnerProcess()
        self._emission = DebugEmission(emitter, memory=config.memory_tracking)
        self._log = DebugLog(name, emitter, config.debug_level)
        self._log.step = step
        self._log.event("debug_session_started", f"the debug session {name!r} starts", "info")
        if config.save_debug_info:
            self._make_folder()
        self._tools = DebugTools(config, self._log, self._emission)

    @property
    def collects(self) -> bool:
        """Whether it runs and its limits are not reached."""
        return self._tools.open and self.record.duration() <= self.config.debug_timeout

    def begin(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """The manager's step begins."""
        if self.collects:
            self._tools.begin(model, optimizer)

    def observe(
        self,
        seen: StepSeen,
        gradients: Gradients,
        norms: list[float],
        total_norm: float,
    ) -> DebugInfo:
        """Takes a step and returns its ``debug_info``; beyond the limits it is only counted."""
        record, config = self.record, self.config
        if record.stopped is None:
            record.iterations += 1
            record.count(seen.anomalies)
        self._log.step = seen.number
        enabled = self.collects
        info = record.info(config, seen.anomalies, enabled=enabled)
        if not enabled:
            if record.stopped is None:
                self._end_tools(f"{config.debug_timeout:g} s (debug_timeout)")
            return info
        record.collected += 1
        info["gradient_stats"] = _gradient_stats(gradients, norms, total_norm)
        found = self._tools.observe(seen, info)
        record.count(found)
        info["anomaly_details"] += found
        info["anomalies_detected"] = bool(info["anomaly_details"])
        record.history.append(info)
        if config.verbose_logging:
            self._log.verbose(f"debug iteration {record.iterations}: gradient norm {total_norm:g}")
        if record.collected >= config.max_debug_iterations:
            self._end_tools(f"{config.max_debug_iterations:,} steps (max_debug_iterations)")
        return info

    @property
    def raises(self) -> bool:
        """Whether what is not finite is to be raised; limits end the tools, and this not."""
        return (
            self.record.stopped is None
            and self.config.enable_autograd_anomaly
            and self.config.autograd_anomaly_mode == "raise"
        )

    def tell_raised(self, anomaly: Anomaly) -> None:
        """Takes an anomaly that torch raised in a backward pass, so that no step came to tell it."""
        self._log.step = anomaly["step"]
        self.record.count([anomaly])
        self._log.event(anomaly["kind"], anomaly["message"], "error")

    def tell_error(self, error: BaseException) -> None:
        """Tells what ended the run, with the last step's state; with a CUDA snapshot when memory ran out."""
        last = self.record.history[-1] if self.record.history else None
        described = f"{type(error).__name__}: {error}"
        self._log.event("training_error", described, "error")
        self._emission.error(described, last, self._log.step)
        if isinstance(error, torch.OutOfMemoryError) and self.config.save_debug_info:
            try:
                self.record.files.append(self.save_snapshot())
            except (OSError, RuntimeError, StabilityError) as failure:
                self._log.note("no_snapshot", f"no CUDA memory snapshot was saved: {failure}")

    def save_snapshot(self) -> Path:
        """Saves a snapshot of the CUDA allocator; see ``save_cuda_snapshot``."""
        config = self.config
        return save_cuda_snapshot(Path(config.debug_output_dir), config.debug_file_prefix, config.max_debug_files)

    def stop(self) -> list[Path]:
        """Switches the tools off and returns the files it wrote; a second call does nothing."""
        if self.record.stopped is not None:
            return []
        self._tools.close()
        self.record.stopped = time.monotonic()
        self.record.files += self._tools.files()
        if self.config.save_debug_info:
            self._save()
        summary = self.summary()
        message = (
            f"the debug session {self.record.name!r} ends after {summary['total_iterations']} steps with "
            f"{summary['anomalies_detected']} anomalies"
        )
        self._log.event("debug_session_stopped", message, "info")
        self._emission.summary(summary, self._log.step)
        return self.record.files

    def summary(self) -> DebugSummary:
        """Returns its sums."""
        summary = self.record.summary(self._log.notes)
        self._tools.fill(summary)
        return summary

    def _end_tools(self, limit: str) -> None:
        """Switches the tools off at a limit, and says so once; later calls do nothing."""
        if not self._tools.open:
            return
        self._tools.close()
        self.record.tools_ended = ToolsEnded(tools=self._tools.names, step=self._log.step, reason=limit)
        raised = "; step() still raises, backward() does not" if self.raises else ""
        self._log.note(
            "debug_tools_ended",
            f"the debug session {self.record.name!r} stopped collecting after {limit}; its tools are off: "
            f"{', '.join(self._tools.names) or 'none'}. Anomalies are still detected and counted{raised}. "
            "For a longer session raise the limit in PyTorchDebuggingConfig",
        )

    def _make_folder(self) -> None:
        try:
            Path(self.config.debug_output_dir).mkdir(parents=True, exist_ok=True)
        except OSError as error:
            self._tell_unwritable(error)

    def _save(self) -> None:
        config = self.config
        try:
            self.record.files += save_debug_files(
                Path(config.debug_output_dir),
                config.debug_file_prefix,
                self.record.contents(),
                most_files=config.max_debug_files,
                most_bytes=config.max_debug_file_mb * BYTES_PER_MB,
            )
        except OSError as error:
            self._tell_unwritable(error)

    def _tell_unwritable(self, error: OSError) -> None:
        self._log.note("unwritable", f"nothing can be saved to {self.config.debug_output_dir}: {error}")


def _gradient_stats(gradients: Gradients, norms: list[float], total_norm: float) -> GradientStats:
    mean = sum(norms) / len(norms)
    variance = sum((norm - mean) * (norm - mean) for norm in norms) / len(norms)
    return GradientStats(
        total_parameters=len(gradients.all_parameters),
        parameters_with_grad=len(norms),
        mean_norm=mean,
        std_norm=math.sqrt(variance),
        total_norm=total_norm,
    )
