"""What this process takes of the machine's memory."""

from __future__ import annotations

from functools import cache

import psutil

from stability.results import CpuMemory

BYTES_PER_MB = 2**20


def process_memory() -> CpuMemory:
    """Returns resident and virtual memory in MB of 2**20 bytes, and the resident share of the machine in percent."""
    memory = psutil.Process().memory_info()
    return CpuMemory(
        rss=memory.rss / BYTES_PER_MB,
        vms=memory.vms / BYTES_PER_MB,
        percent=100.0 * memory.rss / _machine_bytes(),
    )


@cache
def _machine_bytes() -> int:
    return int(psutil.virtual_memory().total)
