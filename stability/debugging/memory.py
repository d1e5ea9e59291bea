"""Memory in each step's ``debug_info``, and leaks: series of it that grow without end."""

from __future__ import annotations

from debuggers.torch_import import torch
from stability.debugging.memory_trend import MemoryTrend
from stability.debugging.process_memory import memory_info
from stability.debugging.results import MemoryLeak
from stability.debugging.tool import StepSeen
from stability.results import Anomaly, DebugInfo


class MemoryDebugging:
    """Notes the process's memory at each step. A leak is told once for each series: ``rss`` and each CUDA device."""

    def __init__(self, leak_mb: float) -> None:
        self._leak_mb = leak_mb
        self._trends: dict[str, MemoryTrend] = {}
        self.leaks: dict[str, MemoryLeak] = {}
        self.peak_rss = 0.0

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Nothing is attached."""

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Adds ``memory_info``, and returns the leaks that show for the first time."""
        memory = info["memory_info"] = memory_info()
        self.peak_rss = max(self.peak_rss, memory["cpu_memory"]["rss"])
        series = {"rss": memory["cpu_memory"]["rss"]}
        if "cuda_memory" in memory:
            series["cuda"] = memory["cuda_memory"]["allocated"]
        return [anomaly for name, value in series.items() for anomaly in self._look(name, seen.number, value)]

    def close(self) -> None:
        """Nothing is left behind."""

    def _look(self, name: str, step: int, value: float) -> list[Anomaly]:
        trend = self._trends.setdefault(name, MemoryTrend(self._leak_mb))
        found = trend.find() if trend.add(step, value) and name not in self.leaks else None
        if found is None:
            return []
        self.leaks[name] = MemoryLeak(
            series=name,
            steps=(found.first_step, found.last_step),
            growth_mb=found.growth,
            p_value=found.p_value,
        )
        message = (
            f"{'resident' if name == 'rss' else 'CUDA'} memory grows without end: by {found.growth:.0f} MB from step "
            f"{found.first_step} to {found.last_step}"
        )
        return [Anomaly(kind="memory_leak", message=message, step=step)]
