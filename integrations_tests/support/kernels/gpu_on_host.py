"""The kernels for GPUs on the host, where they find the same bits: gcc compiles them, a block's threads take turns."""

import ctypes
import hashlib
import os
import re
import shutil
import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import torch

from debuggers.measurement.kernels.gpu import compiling, loading
from debuggers.measurement.kernels.gpu.compiling import SOURCES, THREADS, Start

_OPTIONS = [
    "-std=gnu11", "-O2", "-ffp-contract=off", "-fno-strict-aliasing", "-fPIC", "-shared",
    "-Wall", "-Werror", "-Wno-unused-function", "-Wno-unknown-pragmas",
    "-U_FORTIFY_SOURCE",  # its longjmp takes another thread's stack for one that was left
]  # fmt: skip
_HEADER = Path(__file__).with_suffix(".h")
_KEPT = Path(__file__).parents[3] / "build" / "gpu_on_host"
"""What was compiled, by a digest of what it was compiled from: every process of tests needs it, and the next run."""
has_compiler = shutil.which("gcc") is not None


def compile_for_host(name: str, constants: Mapping[str, int], device: torch.device) -> Start:
    """Like ``compiling.compile_kernel``, for the memory of the host."""
    run = _compiled(name, tuple(constants.items()))

    def start(blocks: int, *given: int) -> None:
        run(ctypes.c_uint(blocks), *map(ctypes.c_int64, given))

    return start


@cache
def _compiled(name: str, constants: tuple[tuple[str, int], ...]) -> Any:
    text = (SOURCES / f"{name}.cu").read_text(encoding="utf-8")
    arguments = re.search(rf"{name}_blocks\((.*?)\)", text, re.DOTALL).group(1)
    names = [argument.split()[-1].lstrip("*") for argument in arguments.split(",")]
    program = "\n".join([
        f'#include "{_HEADER}"',
        f'#include "{SOURCES / f"{name}.cu"}"',
        f"static struct {{ {arguments.replace(',', ';')}; }} given;",
        f"static void call(void) {{ {name}_blocks({', '.join(f'given.{one}' for one in names)}); }}",
        f"void run(unsigned blocks, {arguments}) {{",
        *(f"  given.{one} = {one};" for one in names),
        "  body = call;",
        "  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) run_block();",
        "}",
    ])  # fmt: skip
    options = [*_OPTIONS, *(f"-D{key}={value}" for key, value in (*constants, ("THREADS", THREADS)))]
    library = _KEPT / f"{_digest(program, *options)}.so"
    if not library.exists():
        _KEPT.mkdir(parents=True, exist_ok=True)
        own = library.with_suffix(f".{os.getpid()}")
        command = ["gcc", *options, "-x", "c", "-o", own, "-", "-lm"]
        subprocess.run(command, input=program, encoding="utf-8", check=True)
        own.replace(library)
    return ctypes.CDLL(str(library)).run


@cache
def _sources() -> bytes:
    compiler = subprocess.run(["gcc", "--version"], capture_output=True, check=True).stdout
    return b"".join([compiler, *(path.read_bytes() for path in (_HEADER, *sorted(SOURCES.glob("*.cu"))))])


def _digest(*compiled: str) -> str:
    return hashlib.sha256("\0".join(compiled).encode() + _sources()).hexdigest()


@contextmanager
def kernels_on_host() -> Iterator[None]:
    """Within the block, kernels are compiled for the host."""
    replaced = compiling.compile_kernel, loading.library
    compiling.compile_kernel, loading.library = compile_for_host, lambda: None
    loading.load.cache_clear()
    try:
        yield
    finally:
        compiling.compile_kernel, loading.library = replaced
        loading.load.cache_clear()
