"""Compares what the measuring code finds on arm64, where its vectors are NEON's, with what it finds here, bit for bit.

It is compiled for both processors with ``kernel_results.c`` as its main program; arm64 is emulated by QEMU.
"""

import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
from kernel_fuzzing import SOURCES, values

MAIN = Path(__file__).with_name("kernel_results.c")
TOOLS = ("gcc", "aarch64-linux-gnu-gcc", "qemu-aarch64")
FLAGS = [
    "-std=c11",
    "-O3",
    "-Wall",
    "-Wextra",
    "-Werror",
    "-ffp-contract=off",
    "-fno-math-errno",
    "-static",
    f"-I{SOURCES}",
]
MOST_SHARES = 4


def missing() -> list[str]:
    """Returns which of the tools are not on this machine."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def write_tensors(file: Path, number: int, seed: int) -> None:
    """Writes random tensors as ``kernel_results.c`` reads them, a third with values before, some unaligned."""
    random = np.random.default_rng(seed)
    with file.open("wb") as output:
        for _ in range(number):
            after = values(random)
            before = random.permutation(after) if random.random() < 0.3 else after[:0]
            is_pair = before.size > 0 and random.random() < 0.5
            kind = int(after.dtype == np.float64) + 2 * is_pair
            output.write(struct.pack("<4q", kind, after.size, before.size > 0, random.integers(2)))
            output.write(after.tobytes() + before.tobytes())


def compare(folder: Path, number: int, seed: int = 0) -> int:
    """Compares that many tensors, cut in one to four shares; returns how many bytes of results were equal.

    Raises AssertionError where a byte differs.
    """
    compared, tensors = 0, folder / "tensors.bin"
    commands = {"gcc": [str(folder / "here")], "aarch64-linux-gnu-gcc": ["qemu-aarch64", str(folder / "arm64")]}
    sources = [str(path) for path in sorted(SOURCES.glob("*.c")) if not path.name.startswith("module")]
    for compiler, command in commands.items():
        subprocess.run([compiler, *FLAGS, "-o", command[-1], str(MAIN), *sources], check=True)
    write_tensors(tensors, number, seed)
    for shares in range(1, MOST_SHARES + 1):
        here, there = (
            subprocess.run([*command, str(tensors), str(shares)], capture_output=True, check=True).stdout
            for command in commands.values()
        )
        assert here and here == there, f"arm64 differs with {shares} shares"
        compared += len(here)
    return compared


def main(number: int) -> int:
    """Compares, and prints how much was; returns the exit status."""
    if absent := missing():
        print(f"skipped: no {', '.join(absent)} on this machine; apt-get install qemu-user gcc-aarch64-linux-gnu")
        return 0
    with tempfile.TemporaryDirectory(prefix="kernels-on-arm64-") as name:
        compared = compare(Path(name), number)
    print(f"{number} tensors in 1 to {MOST_SHARES} shares: {compared:,} bytes of results, all equal on arm64")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
