"""What NVIDIA devices use, as their driver tells it: through nvidia-ml-py, without CUDA and without a device's help."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any


def nvidia_devices() -> NvidiaDevices | None:
    """Returns the devices of this machine; None without the package, the driver or a device."""
    try:
        import pynvml
    except ImportError:
        return None
    try:
        pynvml.nvmlInit()
        count = pynvml.nvmlDeviceGetCount()
    except pynvml.NVMLError:
        return None
    return NvidiaDevices(pynvml, count) if count else None


class NvidiaDevices:
    """The devices by the driver's numbers, which ``CUDA_VISIBLE_DEVICES`` does not change."""

    def __init__(self, nvml: ModuleType, count: int) -> None:
        self._error: type[Exception] = nvml.NVMLError
        self._handles = [nvml.nvmlDeviceGetHandleByIndex(index) for index in range(count)]
        self._questions: dict[str, Callable[[Any], float]] = {
            "utilization_percent": lambda handle: nvml.nvmlDeviceGetUtilizationRates(handle).gpu,
            "memory_bytes": lambda handle: nvml.nvmlDeviceGetMemoryInfo(handle).used,
            "temperature_celsius": lambda handle: nvml.nvmlDeviceGetTemperature(handle, nvml.NVML_TEMPERATURE_GPU),
            "power_watts": lambda handle: nvml.nvmlDeviceGetPowerUsage(handle) / 1000,
        }

    def sample(self, seconds: float) -> Iterator[tuple[str, float]]:
        """Yields share of time in use, memory, temperature and power; without what a device does not tell."""
        for index, handle in enumerate(self._handles):
            for name, ask in self._questions.items():
                try:
                    yield f"gpu/{index}/{name}", float(ask(handle))
                except self._error:
                    continue
