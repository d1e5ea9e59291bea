"""Finds the threads of torch's own operations, for compiled code to run in.

Those threads spin for a while after each operation, to begin the next one at once: other threads would have to share
the processor's cores with them.
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from tracker_adapters.own_process import Maker

from debuggers.torch_import import torch

_loader = Maker()


def team_size() -> int:
    """How many threads ``openmp()`` should start: as many as torch, so that they are the same ones.

    One where there is nothing to start them with, and in forked processes: the threads stayed behind, and OpenMP would
    wait for them.
    """
    return torch.get_num_threads() if _loader.is_here and openmp() else 1


@contextmanager
def not_waiting() -> Iterator[None]:
    """Lets torch's operations in a forked process run alone, where they would wait for threads that stayed behind.

    A training in that process may itself only do what is too small for threads.
    """
    threads = 1 if _loader.is_here else torch.get_num_threads()
    if threads == 1:
        yield
        return
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


@cache
def openmp() -> int:
    """The address of ``GOMP_parallel`` in the OpenMP that torch uses: GNU's own; LLVM's and Intel's have it, too.

    0 where torch is built without, and on systems other than Linux.
    """
    library = Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"
    function = getattr(ctypes.CDLL(str(library)), "GOMP_parallel", None) if library.exists() else None
    return ctypes.cast(function, ctypes.c_void_p).value or 0 if function else 0
