"""Compares what the compiled code finds on arm64, where its vectors are NEON's, with what it finds here, bit for bit.

All of it but what hands it to Python is compiled for both processors, with ``kernel_results.c`` or ``tree_results.c``
as the main program; arm64 is emulated by QEMU.
"""

import shutil
import struct
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import tree_fuzzing
from kernel_fuzzing import SOURCES, values

TOOLS = ("gcc", "aarch64-linux-gnu-gcc", "qemu-aarch64")
FLAGS = [
    "-std=c11",
    "-D_POSIX_C_SOURCE=200809L",
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
ROUND = 1000  # tensors in a file
TREES_OF_ROUND = 40


def missing() -> list[str]:
    """Returns which of the tools are not on this machine."""
    return [tool for tool in TOOLS if shutil.which(tool) is None]


def write_tensors(file: Path, number: int, random: np.random.Generator) -> None:
    """Writes random tensors as ``kernel_results.c`` reads them, a third with values before, some unaligned."""
    with file.open("wb") as output:
        for _ in range(number):
            after = values(random)
            before = random.permutation(after) if random.random() < 0.3 else after[:0]
            is_pair = before.size > 0 and random.random() < 0.5
            kind = int(after.dtype == np.float64) + 2 * is_pair
            output.write(struct.pack("<4q", kind, after.size, before.size > 0, random.integers(2)))
            output.write(after.tobytes() + before.tobytes())


def write_databases(folder: Path, number: int, random: np.random.Generator) -> list[str]:
    """Writes random databases, most of them damaged; returns the arguments of ``tree_results.c``."""
    arguments = []
    for turn in range(number):
        path = folder / f"{turn}.db"
        path.unlink(missing_ok=True)
        database, roots, wanted = tree_fuzzing.write_database(path, random)
        database.close()
        for _ in range(turn % 4):
            with path.open("r+b") as stream:
                tree_fuzzing.damage(stream, path.stat().st_size, random)
        for root in roots.values():
            arguments += [str(path), str(root), str(wanted)]
    return arguments


class BothProcessors:
    """Programs that are compiled for this processor and for arm64."""

    def __init__(self, folder: Path, main: str) -> None:
        self._here, self._there = folder / f"{main}_here", folder / f"{main}_on_arm64"
        sources = [str(path) for path in sorted(SOURCES.glob("*.c")) if not path.name.startswith("module")]
        for compiler, program in (("gcc", self._here), ("aarch64-linux-gnu-gcc", self._there)):
            source = str(Path(__file__).with_name(f"{main}.c"))
            subprocess.run([compiler, *FLAGS, "-o", str(program), source, *sources], check=True)

    def compare(self, *arguments: str) -> int:
        """Runs both; returns how many bytes they printed. Raises AssertionError where a byte differs."""
        here, there = (
            subprocess.run([*command, *arguments], capture_output=True, check=True).stdout
            for command in ([str(self._here)], ["qemu-aarch64", str(self._there)])
        )
        assert here and here == there, f"arm64 differs: {arguments}"
        return len(here)


def compare(folder: Path, number: int, seed: int = 0) -> dict[str, int]:
    """Compares that many tensors, cut in one to four shares, and trees of databases.

    Returns:
        How many tensors and trees, and how many bytes of results of each were equal.

    Raises:
        AssertionError: Where a byte differs.
    """
    random = np.random.default_rng(seed)
    of_tensors, of_trees = BothProcessors(folder, "kernel_results"), BothProcessors(folder, "tree_results")
    done = {"tensors": 0, "bytes of tensors": 0, "trees": 0, "bytes of trees": 0}
    while done["tensors"] < number:
        size, tensors = min(ROUND, number - done["tensors"]), folder / "tensors.bin"
        write_tensors(tensors, size, random)
        for shares in range(1, MOST_SHARES + 1):
            done["bytes of tensors"] += of_tensors.compare(str(tensors), str(shares))
        trees = write_databases(folder, TREES_OF_ROUND, random)
        done["bytes of trees"] += of_trees.compare(*trees)
        done["tensors"] += size
        done["trees"] += len(trees) // 3
    return done


def main(number: int) -> int:
    """Compares, and prints how much was; returns the exit status."""
    if absent := missing():
        print(f"skipped: no {', '.join(absent)} on this machine; apt-get install qemu-user gcc-aarch64-linux-gnu")
        return 0
    with tempfile.TemporaryDirectory(prefix="kernels-on-arm64-") as name:
        done = compare(Path(name), number)
    print(f"all equal on arm64, tensors in 1 to {MOST_SHARES} shares: {done}")
    return 0


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])))
