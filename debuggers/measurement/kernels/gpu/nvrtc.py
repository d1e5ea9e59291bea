"""Compiles sources for a GPU with NVRTC, the library of CUDA's compiler, which torch's packages for CUDA install."""

import ctypes
import importlib.util
from collections.abc import Iterator, Sequence
from pathlib import Path

from debuggers.torch_import import torch


class CompilationError(Exception):
    """NVRTC is not there or refuses a source; the message holds its log."""


def library() -> ctypes.CDLL:
    """The library that fits torch's version of CUDA.

    Raises:
        CompilationError: If torch is not for CUDA, or comes without NVRTC.
    """
    if torch.version.cuda is None:
        raise CompilationError("this torch is not built for CUDA")
    name = f"libnvrtc.so.{torch.version.cuda.split('.')[0]}"
    for candidate in (name, *_beside_torch(name)):  # the first one, where torch has loaded it already
        try:
            return load(candidate)
        except OSError:
            continue
    raise CompilationError(f"{name} cannot be loaded; torch's packages for CUDA install it")


def load(path: str) -> ctypes.CDLL:
    """Loads NVRTC by its name or path.

    Raises:
        OSError: If it cannot be loaded.
    """
    if "/" in path:  # older ones do not find their other half beside them, but take one that is loaded
        for half in sorted(Path(path).parent.glob("libnvrtc-builtins.so.*")):
            ctypes.CDLL(str(half))
    return ctypes.CDLL(path)


def _beside_torch(name: str) -> Iterator[str]:
    spec = importlib.util.find_spec("nvidia")
    folders = [Path(folder) for folder in (spec.submodule_search_locations or ())] if spec else []
    for folder in folders:
        yield from map(str, sorted(folder.glob(f"*/lib/{name}")))


def compile_source(source: str, options: Sequence[str]) -> bytes:
    """Returns the machine code that NVRTC makes of a source.

    Raises:
        CompilationError: If NVRTC is not there, or refuses the source or an option.
    """
    nvrtc, program = library(), ctypes.c_void_p()
    _check(nvrtc, nvrtc.nvrtcCreateProgram(ctypes.byref(program), source.encode(), b"stepscope.cu", 0, None, None))
    try:
        arguments = (ctypes.c_char_p * len(options))(*(option.encode() for option in options))
        if nvrtc.nvrtcCompileProgram(program, len(options), arguments):
            log = _read(nvrtc, program, "ProgramLog").rstrip(b"\0").decode(errors="replace")
            raise CompilationError(f"NVRTC refused a kernel: {log.strip()}")
        return _read(nvrtc, program, "CUBIN")
    finally:
        nvrtc.nvrtcDestroyProgram(ctypes.byref(program))


def _read(nvrtc: ctypes.CDLL, program: ctypes.c_void_p, what: str) -> bytes:
    size = ctypes.c_size_t()
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}Size")(program, ctypes.byref(size)))
    text = ctypes.create_string_buffer(size.value)
    _check(nvrtc, getattr(nvrtc, f"nvrtcGet{what}")(program, text))
    return text.raw


def _check(nvrtc: ctypes.CDLL, code: int) -> None:
    if code:
        nvrtc.nvrtcGetErrorString.restype = ctypes.c_char_p
        raise CompilationError(f"NVRTC failed: {nvrtc.nvrtcGetErrorString(code).decode()}")
