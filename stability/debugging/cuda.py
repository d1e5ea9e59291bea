"""CUDA: waiting for devices, a limit to their memory, and snapshots of the allocator."""

from functools import cache
from pathlib import Path

from debuggers.torch_import import torch
from debuggers.torch_internals import cuda_memory
from stability.debugging.config import PyTorchDebuggingConfig
from stability.debugging.log import DebugLog
from stability.debugging.process_setting import ProcessSetting
from stability.debugging.tool import StepSeen
from stability.errors import StabilityError
from stability.reporting.files import new_debug_path, rotate
from stability.results.debugging import CudaInfo
from stability.results.step import Anomaly, DebugInfo

MOST_EVENTS = 100_000
NO_CUDA = "CUDA debugging is on, but torch finds no CUDA device: nothing is synchronised, limited or recorded"


class CudaDebugging:
    """Works on the devices that hold the model's parameters; they are known from the first step on.

    The memory fraction holds until ``close``, the smallest one of several sessions; after the last of them it is as it
    was. With ``memory_profiling`` the allocator keeps the stack traces of its last 100,000 events for a snapshot,
    unless it keeps a history already.
    """

    def __init__(self, config: PyTorchDebuggingConfig, log: DebugLog) -> None:
        self._synchronize = config.cuda_synchronize
        self._fraction = config.cuda_memory_fraction
        self._record = config.memory_profiling
        self._available = torch.cuda.is_available()
        self._limited: set[int] = set()
        self._devices: list[int] = []
        self._recording = False
        if not self._available:
            log.note("no_cuda", NO_CUDA)

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Limits new devices of the model, and waits for all of them if that is wanted."""
        if not self._available:
            return
        self._devices = sorted({parameter.device.index for parameter in model.parameters() if parameter.is_cuda})
        for device in self._devices:
            if self._fraction < 1.0 and device not in self._limited:
                _fraction_setting(device).hold(self, self._fraction)
                self._limited.add(device)
        if self._record and self._devices and not cuda_memory.is_recording():
            self._recording = True
            cuda_memory.record_history(max_entries=MOST_EVENTS)
        if self._synchronize:
            for device in self._devices:
                torch.cuda.synchronize(device)

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Adds ``cuda``."""
        info["cuda"] = CudaInfo(
            available=self._available,
            devices=[f"cuda:{device} {torch.cuda.get_device_name(device)}" for device in self._devices],
            synchronized=self._available and self._synchronize,
            memory_fraction=self._fraction,
            note="" if self._available else NO_CUDA,
        )
        return []

    def close(self) -> None:
        """Puts the memory fractions back and ends the recording."""
        while self._limited:
            _fraction_setting(self._limited.pop()).release(self)
        if self._recording:
            self._recording = False
            cuda_memory.record_history(enabled=None)


def save_cuda_snapshot(folder: Path, prefix: str, most_files: int) -> Path:
    """Writes a snapshot of the CUDA allocator for https://pytorch.org/memory_viz and returns its path.

    Raises:
        StabilityError: When this process does not use CUDA.
        OSError: When the folder cannot be made or written to.
    """
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        raise StabilityError("no CUDA memory snapshot: this process does not use CUDA")
    folder.mkdir(parents=True, exist_ok=True)
    path = new_debug_path(folder, prefix, "cuda_snapshot", ".pickle")
    cuda_memory.dump_snapshot(str(path))
    rotate(folder, prefix, "cuda_snapshot", most_files)
    return path


@cache
def _fraction_setting(device: int) -> ProcessSetting[float]:
    return ProcessSetting(
        lambda: torch.cuda.get_per_process_memory_fraction(device),
        lambda fraction: torch.cuda.set_per_process_memory_fraction(fraction, device),
        min,
    )
