"""Compiles the kernels for GPUs of several generations, which needs none of them: ``python compiled_for_gpus.py``.

Prints a table: the instructions of each kernel for one of 32 threads that run in step, the registers of a thread, and
how many bytes of those did not find room and lie in memory.
"""

import re
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import triton
from triton.backends.compiler import GPUTarget
from triton.compiler import ASTSource

from debuggers.measurement.kernels.gpu.blocks import measure_blocks
from debuggers.measurement.kernels.gpu.join import join_blocks
from debuggers.measurement.kernels.gpu.segments import DTYPES

GENERATIONS = {75: "Turing", 80: "Ampere", 89: "Ada", 90: "Hopper"}
WORK = {
    "tensor": {"SUBTRACT": False, "SCALE": False},
    "difference": {"SUBTRACT": True, "SCALE": False},
    "product": {"SUBTRACT": False, "SCALE": True},
}
TYPES = {"table": "*i64", "owners": "*i64", "rows": "*i32", "partials": "*fp64", "first": "i32"}
_TOOLS = Path(triton.__file__).parent / "backends" / "nvidia" / "bin"


def compiled(kernel: Any, constants: dict[str, Any], generation: int) -> tuple[int, int, int]:
    """Returns instructions, registers and bytes of spilled registers."""
    names = [name for name in kernel.arg_names if name not in constants]
    types = {name: TYPES.get(name, "constexpr") for name in kernel.arg_names}
    aligned = {(place,): [["tt.divisibility", 16]] for place, name in enumerate(names) if TYPES[name][0] == "*"}
    source = ASTSource(kernel, types, constants, aligned)
    options = {"num_warps": 8, "enable_fp_fusion": False}
    binary = triton.compile(source, target=GPUTarget("cuda", generation, 32), options=options).asm["cubin"]
    with tempfile.NamedTemporaryFile(suffix=".cubin") as file:
        file.write(binary)
        file.flush()
        usage = _told("cuobjdump", "-res-usage", file.name)
        code = _told("nvdisasm", "-c", file.name)
    registers, spilled = map(int, re.search(r"REG:(\d+) STACK:(\d+)", usage).groups())
    return len(re.findall(r"^\s+/\*[0-9a-f]{4,}\*/ ", code, re.MULTILINE)), registers, spilled


def _told(tool: str, *arguments: str) -> str:
    return subprocess.run([_TOOLS / tool, *arguments], capture_output=True, text=True, check=True).stdout


def main() -> int:
    cases = [
        (f"{dtype}, {called}", measure_blocks, {"KIND": kind, **extra})
        for kind, dtype in enumerate(DTYPES)
        for called, extra in WORK.items()
    ]
    spills = 0
    for name, kernel, constants in [*cases, ("joining", join_blocks, {})]:
        for generation, called in GENERATIONS.items():
            instructions, registers, spilled = compiled(kernel, constants, generation)
            print(f"{called:8} {name:28} {instructions:6} instructions, {registers:4} registers, {spilled} spilled")
            spills += spilled
    return 1 if spills else 0


if __name__ == "__main__":
    sys.exit(main())
