"""Compiles the kernels for a device when they are first needed there, and starts them through CUDA's driver."""

import ctypes
from collections.abc import Mapping
from pathlib import Path
from typing import Protocol

from debuggers.measurement.kernels.gpu.nvrtc import compile_source
from debuggers.torch_import import torch

THREADS = 128
"""Of a block; the kernels are compiled for this number."""
SOURCES = Path(__file__).parent


class Start(Protocol):
    """Enqueues a kernel on the current stream of its device."""

    def __call__(self, blocks: int, *arguments: int) -> None:
        """Arguments are addresses on the device and int64."""


class Compile(Protocol):
    """Makes a kernel for a device; ``compile_kernel``."""

    def __call__(self, name: str, constants: Mapping[str, int], device: torch.device, /) -> Start:
        """Returns what starts the kernel of ``<name>.cu``, compiled with constants."""


class DriverError(Exception):
    """CUDA's driver refuses to load or to start a kernel."""


def options(constants: Mapping[str, int], capability: tuple[int, int]) -> list[str]:
    """What NVRTC is told, for devices of a compute capability."""
    major, minor = capability
    # Without contraction all devices find the same bits.
    fixed = [f"--gpu-architecture=sm_{major}{minor}", "--fmad=false", "--std=c++17"]
    return fixed + [f"-D{key}={value}" for key, value in {**constants, "THREADS": THREADS}.items()]


def compile_kernel(name: str, constants: Mapping[str, int], device: torch.device) -> Start:
    """Compiles a kernel for the current device, in about half a second.

    Raises:
        CompilationError, DriverError: If it cannot be compiled or loaded.
    """
    source = (SOURCES / f"{name}.cu").read_text(encoding="utf-8")
    binary = compile_source(source, options(constants, torch.cuda.get_device_capability(device)))
    driver = ctypes.CDLL("libcuda.so.1")
    module, function = ctypes.c_void_p(), ctypes.c_void_p()
    _check(driver, driver.cuModuleLoadData(ctypes.byref(module), binary))
    _check(driver, driver.cuModuleGetFunction(ctypes.byref(function), module, f"{name}_blocks".encode()))

    def start(blocks: int, *arguments: int) -> None:
        values = (ctypes.c_int64 * len(arguments))(*arguments)
        first = ctypes.addressof(values)
        places = (ctypes.c_void_p * len(arguments))(*(first + 8 * index for index in range(len(arguments))))
        stream = ctypes.c_void_p(torch.cuda.current_stream(device).cuda_stream)
        sizes = (blocks, 1, 1, THREADS, 1, 1)
        _check(driver, driver.cuLaunchKernel(function, *sizes, 0, stream, places, None))

    return start


def _check(driver: ctypes.CDLL, code: int) -> None:
    if code:
        text = ctypes.c_char_p()
        driver.cuGetErrorString(code, ctypes.byref(text))
        raise DriverError(f"CUDA's driver failed: {(text.value or b'an unknown error').decode()}")
