"""The debug session: what it collects a step, its limits, its summary and its files."""

from __future__ import annotations

import logging
import math
import time
from collections import Counter, deque
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from stability.debug_files import save_debug_files
from stability.debugging_config import DebugLevel, PyTorchDebuggingConfig
from stability.errors import StabilityError
from stability.gradients import Gradients
from stability.history import HISTORY_LENGTH
from stability.memory import process_memory
from stability.results import Anomaly, DebugInfo, DebugSummary, GradientStats, MemoryInfo

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class _Session:
    """What is known of the running or the last session."""

    name: str = ""
    started: float = field(default_factory=time.monotonic)
    stopped: float | None = None
    iterations: int = 0
    kinds: Counter[str] = field(default_factory=Counter)
    anomalies: deque[Anomaly] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    history: deque[DebugInfo] = field(default_factory=lambda: deque(maxlen=HISTORY_LENGTH))
    peak_rss: float | None = None
    files: list[Path] = field(default_factory=list)

    def count(self, anomalies: list[Anomaly]) -> None:
        """Takes one step."""
        self.iterations += 1
        self.kinds.update(anomaly["kind"] for anomaly in anomalies)
        self.anomalies.extend(anomalies)

    def duration(self) -> float:
        """Returns the seconds from its start to its end or to now."""
        return (time.monotonic() if self.stopped is None else self.stopped) - self.started

    def contents(self) -> dict[str, Any]:
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


class PyTorchDebuggingManager:
    """Keeps the last 10,000 steps of a debug session. Anomalies are counted with and without a session.

    A session collects until ``stop``, ``max_debug_iterations`` steps or ``debug_timeout`` seconds; then
    ``debug_enabled`` is False, while steps and anomalies are counted until ``stop``.
    """

    def __init__(self, config: PyTorchDebuggingConfig | None = None) -> None:
        """Makes a manager.

        Args:
            config: What a session collects; without it none can be started.
        """
        self._config = config
        self._session = _Session()
        self._active = False

    def start(self, name: str) -> None:
        """Starts a session and forgets the one before.

        Raises:
            StabilityError: When one is running, or there is no debug configuration.
            OSError: When files are wanted and their folder cannot be made.
        """
        if self._config is None:
            raise StabilityError(f"no debug session {name!r} without a configuration; expected debug_config=…")
        if self._active:
            raise StabilityError(
                f"the debug session {self._session.name!r} is running; expected stop_debug_session() first"
            )
        if self._config.save_debug_info:
            Path(self._config.debug_output_dir).mkdir(parents=True, exist_ok=True)
        self._session = _Session(name)
        self._active = True

    def stop(self) -> list[Path]:
        """Ends the session and returns the files it wrote; without a session it does nothing.

        A file that cannot be written is logged and does not raise.
        """
        if not self._active:
            return []
        self._active = False
        session, config = self._session, self._config
        session.stopped = time.monotonic()
        if config is None or not config.save_debug_info:
            return []
        folder = Path(config.debug_output_dir)
        try:
            session.files = save_debug_files(folder, config.debug_file_prefix, session.contents())
        except OSError as error:
            _log.error("debug session %r: nothing saved to %s: %s", session.name, folder, error)
        return session.files

    def observe(
        self, anomalies: list[Anomaly], gradients: Gradients, norms: list[float], total_norm: float
    ) -> DebugInfo:
        """Takes one step and returns its ``debug_info``; after ``stop`` it is counted no more."""
        config, session = self._config, self._session
        if session.stopped is None:
            session.count(anomalies)
        collecting = self._collecting()
        info = DebugInfo(
            debug_enabled=collecting,
            iteration=session.iterations,
            session_duration=session.duration(),
            anomaly_detector=bool(config and config.enable_autograd_anomaly),
            grad_check=bool(config and config.enable_grad_check),
            memory_debug=bool(config and config.enable_memory_debugging),
            anomalies_detected=bool(anomalies),
            anomaly_details=list(anomalies),
        )
        if config is None or not collecting:
            return info
        info["gradient_stats"] = _gradient_stats(gradients, norms, total_norm)
        if config.enable_memory_debugging:
            memory = MemoryInfo(cpu_memory=process_memory())
            session.peak_rss = max(memory["cpu_memory"]["rss"], session.peak_rss or 0.0)
            info["memory_info"] = memory
        session.history.append(info)
        if config.verbose_logging:
            _log.info("debug iteration %d: gradient norm %g", session.iterations, total_norm)
        return info

    @property
    def log_level(self) -> DebugLevel:
        """The least severity of the anomalies that are logged."""
        return "info" if self._config is None else self._config.debug_level

    @property
    def tracks_memory(self) -> bool:
        """Whether ``memory_info`` is to be emitted."""
        return self._config is not None and self._config.memory_tracking

    def summary(self) -> DebugSummary:
        """Returns the sums of the running or the last session."""
        session = self._session
        return DebugSummary(
            session=session.name,
            active=self._active,
            total_iterations=session.iterations,
            anomalies_detected=session.kinds.total(),
            anomalies_by_kind=dict(session.kinds),
            last_anomaly=session.anomalies[-1] if session.anomalies else None,
            session_duration=session.duration(),
            peak_rss=session.peak_rss,
            files=[str(path) for path in session.files],
        )

    def _collecting(self) -> bool:
        if not self._active or self._config is None:
            return False
        session = self._session
        within_iterations = session.iterations <= self._config.max_debug_iterations
        return within_iterations and session.duration() <= self._config.debug_timeout


def _gradient_stats(gradients: Gradients, norms: list[float], total_norm: float) -> GradientStats:
    mean = sum(norms) / len(norms)
    variance = sum((norm - mean) * (norm - mean) for norm in norms) / len(norms)
    return GradientStats(
        total_parameters=gradients.total_parameters,
        parameters_with_grad=len(norms),
        mean_norm=mean,
        std_norm=math.sqrt(variance),
        total_norm=total_norm,
    )
