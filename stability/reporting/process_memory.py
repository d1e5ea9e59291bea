"""What this process takes of the machine's and the CUDA devices' memory."""

from functools import cache

import psutil

from debuggers.torch_import import torch
from stability.results.debugging import CpuMemory, CudaMemory, MemoryInfo

BYTES_PER_MB = 2**20


def memory_info() -> MemoryInfo:
    """Returns what the process takes on the machine and, once it uses CUDA, on its devices."""
    info = MemoryInfo(cpu_memory=process_memory())
    devices = cuda_memory()
    if devices:
        each = list(devices.values())
        info["cuda_memory"] = CudaMemory(
            allocated=sum(memory["allocated"] for memory in each),
            cached=sum(memory["cached"] for memory in each),
            max_allocated=sum(memory["max_allocated"] for memory in each),
        )
    if len(devices) > 1:
        info["cuda_devices"] = devices
    return info


def process_memory() -> CpuMemory:
    """Returns resident and virtual memory in MB of 2**20 bytes, and the resident share of the machine in percent."""
    memory = psutil.Process().memory_info()
    return CpuMemory(
        rss=memory.rss / BYTES_PER_MB,
        vms=memory.vms / BYTES_PER_MB,
        percent=100.0 * memory.rss / _machine_bytes(),
    )


def cuda_memory() -> dict[str, CudaMemory]:
    """Returns an entry for each CUDA device on which torch has reserved memory; reading them waits for no device."""
    if not torch.cuda.is_initialized():  # type: ignore[no-untyped-call]
        return {}
    return {
        f"cuda:{index}": CudaMemory(
            allocated=torch.cuda.memory_allocated(index) / BYTES_PER_MB,
            cached=torch.cuda.memory_reserved(index) / BYTES_PER_MB,
            max_allocated=torch.cuda.max_memory_allocated(index) / BYTES_PER_MB,
        )
        for index in range(torch.cuda.device_count())
        if torch.cuda.max_memory_reserved(index)
    }


@cache
def _machine_bytes() -> int:
    return int(psutil.virtual_memory().total)
