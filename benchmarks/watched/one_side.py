"""Measures one side in a process of its own, ``python -m watched.one_side ARGUMENTS``, and writes a JSON file.

A process of its own keeps one side's threads, imports, memory and children out of the figures of the next.
"""

import json
import sys
import tempfile
from pathlib import Path

import torch

from watched.cases import cases
from watched.our_sides import OURS
from watched.pairs import measure_side
from watched.sides import THEIRS


def main(*, result: str, case: str, side: str, pairs: int, seconds: float, threads: int | None, tiny: bool) -> None:
    if threads is not None:
        torch.set_num_threads(threads)
    with tempfile.TemporaryDirectory() as folder:
        found = measure_side(cases(tiny=tiny)[case], {**THEIRS, **OURS}[side], Path(folder), pairs, seconds)
    Path(result).write_text(json.dumps({**found, "threads": torch.get_num_threads()}), encoding="utf-8")


if __name__ == "__main__":
    main(**json.loads(sys.argv[1]))
