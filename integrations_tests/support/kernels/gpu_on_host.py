"""The kernels for GPUs on the host, where they find the same bits: gcc compiles them, a block's threads take turns."""

import ctypes
import re
import shutil
import subprocess
import tempfile
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
_FOLDER = tempfile.TemporaryDirectory(prefix="stepscope-gpu-")
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
        f'#include "{Path(__file__).with_suffix(".h")}"',
        f'#include "{SOURCES / f"{name}.cu"}"',
        f"static struct {{ {arguments.replace(',', ';')}; }} given;",
        f"static void call(void) {{ {name}_blocks({', '.join(f'given.{one}' for one in names)}); }}",
        f"void run(unsigned blocks, {arguments}) {{",
        *(f"  given.{one} = {one};" for one in names),
        "  body = call;",
        "  for (blockIdx.x = 0; blockIdx.x < blocks; blockIdx.x++) run_block();",
        "}",
    ])  # fmt: skip
    stem = Path(_FOLDER.name) / "_".join([name, *(str(value) for _, value in constants)])
    stem.with_suffix(".c").write_text(program, encoding="utf-8")
    defined = [f"-D{key}={value}" for key, value in (*constants, ("THREADS", THREADS))]
    files = ["-o", stem.with_suffix(".so"), stem.with_suffix(".c"), "-lm"]
    subprocess.run(["gcc", *_OPTIONS, *defined, *files], check=True)
    return ctypes.CDLL(str(stem.with_suffix(".so"))).run


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
