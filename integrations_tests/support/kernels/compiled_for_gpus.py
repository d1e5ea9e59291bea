"""Compiles the kernels for GPUs of several generations, which needs none of them: ``python compiled_for_gpus.py``.

With ``--ends``, for the oldest and the newest one only.

NVRTC has to be installed, as by ``pip install nvidia-cuda-nvrtc``. Prints the time of each compilation and the size of
the machine code.
"""

import ctypes
import importlib.util
import sys
import time
from pathlib import Path

from debuggers.measurement.kernels.gpu import nvrtc
from debuggers.measurement.kernels.gpu.compiling import SOURCES, options
from debuggers.measurement.kernels.gpu.segments import DTYPES

GENERATIONS = {(7, 5): "Turing", (8, 0): "Ampere", (8, 9): "Ada", (9, 0): "Hopper", (10, 0): "Blackwell"}
WORK = {
    "tensor": {"SUBTRACT": 0, "SCALE": 0},
    "difference": {"SUBTRACT": 1, "SCALE": 0},
    "product": {"SUBTRACT": 0, "SCALE": 1},
}


def installed() -> ctypes.CDLL:
    spec = importlib.util.find_spec("nvidia")
    folders = spec.submodule_search_locations if spec else ()
    (path,) = (path for folder in folders for path in Path(folder).glob("*/lib/libnvrtc.so.*"))
    return nvrtc.load(str(path))


def main() -> int:
    nvrtc.library = installed  # torch need not be for CUDA
    cases = [
        ("measure", f"{dtype}, {called}", {"KIND": kind, **extra})
        for kind, dtype in enumerate(DTYPES)
        for called, extra in WORK.items()
    ]
    generations = [min(GENERATIONS), max(GENERATIONS)] if "--ends" in sys.argv[1:] else GENERATIONS
    for name, called, constants in [*cases, ("join", "joining", {})]:
        source = (SOURCES / f"{name}.cu").read_text(encoding="utf-8")
        for generation in generations:
            begin = time.perf_counter()
            binary = nvrtc.compile_source(source, options(constants, generation))
            print(f"{GENERATIONS[generation]:9} {called:28} {time.perf_counter() - begin:5.2f} s {len(binary):7} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
