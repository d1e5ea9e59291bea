"""Finds the threads of torch's own operations, for compiled code to run in.

Those threads spin for a while after each operation, to begin the next one at once: other threads would have to share
the processor's cores with them.
"""

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tracker_adapters.fork_safe import OwnerProcess

from debuggers.torch_import import torch

_loader = OwnerProcess()


def team() -> tuple[int, int]:
    """Returns what starts a team of threads, the address of ``GOMP_parallel``, and how many: torch's own ones.

    0 and 1 where there is nothing to start them with, and in forked processes: the threads stayed behind, and OpenMP
    would wait for them.
    """
    threads = torch.get_num_threads() if _loader.is_current else 1
    return (start, threads) if threads > 1 and (start := _openmp()) else (0, 1)


@contextmanager
def not_waiting() -> Iterator[None]:
    """Lets torch's operations in a forked process run alone, where they would wait for threads that stayed behind.

    A training in that process may itself only do what is too small for threads.
    """
    threads = 1 if _loader.is_current else torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def _openmp() -> int:
    """The address of ``GOMP_parallel`` in the OpenMP that torch uses: GNU's own; LLVM's and Intel's have it, too.

    0 where torch is built without, and on systems other than Linux.
    """
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    function = getattr(ctypes.CDLL(str(library)), "GOMP_parallel", None) if library.exists() else None
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0
