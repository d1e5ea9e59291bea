"""Memory in each step's ``debug_info``, and leaks: series of it that keep growing."""

from debuggers.torch_import import torch
from stability.debugging.leak_watch import LeakWatch
from stability.debugging.log import DebugLog
from stability.debugging.tool import StepSeen
from stability.reporting.process_memory import memory_info
from stability.results.debugging import MemoryLeak
from stability.results.step import Anomaly, DebugInfo


class MemoryDebugging:
    """Notes the process's memory at each step, and watches ``rss`` and the CUDA devices' memory for leaks."""

    def __init__(self, leak_mb: float, log: DebugLog) -> None:
        self._leak_mb, self._log = leak_mb, log
        self._watches: dict[str, LeakWatch] = {}
        self.peak_rss = 0.0

    @property
    def leaks(self) -> list[MemoryLeak]:
        """What seems to leak now."""
        return [watch.leak for watch in self._watches.values() if watch.leak is not None]

    @property
    def ended(self) -> list[MemoryLeak]:
        """What seemed to and was taken back."""
        return [leak for watch in self._watches.values() for leak in watch.ended]

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Nothing is attached."""

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Adds ``memory_info``, and returns the leaks that begin to show; one that ends is told as an event."""
        memory = info["memory_info"] = memory_info()
        self.peak_rss = max(self.peak_rss, memory["cpu_memory"]["rss"])
        series = {"rss": memory["cpu_memory"]["rss"]}
        if "cuda_memory" in memory:
            series["cuda"] = memory["cuda_memory"]["allocated"]
        return [anomaly for name, value in series.items() for anomaly in self._look(name, seen.number, value)]

    def close(self) -> None:
        """Nothing is left behind."""

    def _look(self, name: str, step: int, value: float) -> list[Anomaly]:
        watch = self._watches.setdefault(name, LeakWatch(name, self._leak_mb))
        change = watch.look(step, value)
        what = "resident" if name == "rss" else "CUDA"
        if change == "ended":
            ended = watch.ended[-1]
            self._log.event(
                "memory_leak_ended",
                f"{what} memory stopped growing: {ended['growth_mb']:.0f} MB since step {ended['steps'][0]}, stable "
                f"or released by step {step}. The reported leak was a cache or buffer that filled up",
                "info",
            )
        if change != "begun" or watch.leak is None:
            return []
        first, last = watch.leak["steps"]
        message = (
            f"{what} memory keeps growing: by {watch.leak['growth_mb']:.0f} MB from step {first} to {last}. A cache or "
            "buffer that fills looks the same; if the growth ends, this is withdrawn"
        )
        return [Anomaly(kind="memory_leak", message=message, step=step)]
