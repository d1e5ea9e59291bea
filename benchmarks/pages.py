"""Saves and reads pages, beside what users do today: ``joblib.dump`` of the tensors, and ``joblib.load`` of every page.

Run: ``python benchmarks/pages.py``; it takes up to 4 GB in the folder for temporary files. Each side runs in processes of
its own, so that none warms up memory for another, and the sides take turns: absolute times drift between machines and
minutes. Both wait until their files are on the disk.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch
from watched.machine import machine

from debuggers.page_index import write_index
from debuggers.pages import PageReader, write_page
from debuggers.wrappers.sequential_debugger import SequentialDebugger

MB = 1 << 20
WARM_UP = 2
SIZES_MB = (1, 10)
"""Sizes of the tensors that fill a page."""
WRITE_GOAL, HELD_GOAL, READ_GOAL_MS, READ_GOAL_MB, PEAK_GOAL_PAGES = 1.3, 1.0, 50, 40, 3
Measures = dict[str, list[float]]


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5, help="processes a side")
    parser.add_argument("--repeats", type=int, default=8, help="pages that a process writes")
    parser.add_argument("--page-mb", type=int, default=100, help="size of the pages that are written")
    parser.add_argument("--saved-mb", type=int, default=2000, help="outputs of the run whose peak memory is measured")
    parser.add_argument("--pages", type=int, default=50, help="pages of the epoch that is read")
    parser.add_argument("--read-mb", type=int, default=20, help="size of the pages that are read")
    parser.add_argument("--folder", type=Path, help="where files are written; by default that for temporary files")
    parser.add_argument("--threads", type=int, default=0, help="torch's threads; by default torch's own choice")
    parser.add_argument("--tiny", action="store_true", help="tiny pages, to try the command")
    parser.add_argument("--child", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.tiny:
        arguments.turns, arguments.repeats, arguments.page_mb, arguments.saved_mb = 1, 2, 10, 40
        arguments.pages, arguments.read_mb = 3, 2
    return arguments


def random_tensors(total_mb: int, each_mb: int) -> list[torch.Tensor]:
    return [torch.randn(each_mb * MB // 4) for _ in range(total_mb // each_mb)]


def layer_outputs(total_mb: int) -> Iterator[torch.Tensor]:
    """Makes outputs of 4 MB by a network, and a few more before the first one."""
    layer = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU())
    inputs = torch.randn(1024, 64)
    with torch.no_grad():
        for _ in range(20):
            layer(inputs)
        for _ in range(total_mb // 4):
            yield layer(inputs)


def debugger_of(page_mb: float) -> SequentialDebugger:
    return SequentialDebugger([], torch.nn.Identity(), page_size_mb=page_mb)


def dump(tensors: list[torch.Tensor], path: Path) -> None:
    joblib.dump({idx: {"d": {"feature_map": tensor}} for idx, tensor in enumerate(tensors)}, path)
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def repeated(action: Callable[[], float], folder: Path, repeats: int) -> list[float]:
    """Repeats what writes files and returns milliseconds; the first times do not count."""
    found = []
    for _ in range(WARM_UP + repeats):
        found.append(action())
        for path in folder.iterdir():
            path.unlink()
        os.sync()  # what one time leaves to the disk is not for the next to wait for
    return found[WARM_UP:]


def dump_pages(folder: Path, page_mb: int, each_mb: int, repeats: int) -> Measures:
    tensors = random_tensors(page_mb, each_mb)
    return {"ms": repeated(lambda: 1e3 * timed(lambda: dump(tensors, folder / "page.pkl")), folder, repeats)}


def save_pages(folder: Path, page_mb: int, each_mb: int, repeats: int) -> Measures:
    """Also says how long the caller is held up by copying, before it waits for the disk."""
    tensors = random_tensors(page_mb, each_mb)
    debugger = debugger_of(2 * page_mb)
    held: list[float] = []

    def add() -> None:
        for idx, tensor in enumerate(tensors):
            debugger.add_to_buffer({"d": {"feature_map": tensor}}, {"meta_info": {"idx": idx}})

    def save() -> float:
        debugger.begin_epoch(folder)
        held.append(1e3 * timed(add))
        return held[-1] + 1e3 * timed(debugger.save_all)

    return {"ms": repeated(save, folder, repeats), "held ms": held[WARM_UP:]}


def clone_pages(folder: Path, page_mb: int, each_mb: int, repeats: int) -> Measures:
    tensors = random_tensors(page_mb, each_mb)
    return {
        "ms": repeated(lambda: 1e3 * timed(lambda: [tensor.clone() for tensor in tensors]), folder, repeats),
    }


def read_one(folder: Path, pages: int, page_mb: int) -> Measures:
    return _growth(lambda: PageReader(folder)[pages * page_mb // 2]["d"]["map"].sum())


def read_all(folder: Path, pages: int, page_mb: int) -> Measures:
    def read() -> Any:
        loaded = {}
        for path in folder.glob("page_*.pkl"):
            loaded.update(joblib.load(path))
        return loaded[pages * page_mb // 2]["d"]["map"].sum()

    return _growth(read)


def save_much(folder: Path, saved_mb: int, page_mb: int) -> Measures:
    debugger = debugger_of(page_mb)
    debugger.begin_epoch(folder)
    outputs = enumerate(layer_outputs(saved_mb))

    def save() -> None:
        for idx, output in outputs:
            debugger.add_to_buffer({"d": {"map": output}}, {"meta_info": {"idx": idx}})
        debugger.save_all()

    return _growth(save)


def dump_much(folder: Path, saved_mb: int, page_mb: int) -> Measures:
    """Does the same by hand: gathers copies, and dumps them when they make a page."""
    gathered: list[torch.Tensor] = []
    outputs = enumerate(layer_outputs(saved_mb))

    def save() -> None:
        for idx, output in outputs:
            gathered.append(output.detach().clone())
            if 4 * len(gathered) >= page_mb:
                dump(gathered, folder / f"page_{idx}.pkl")
                gathered.clear()

    return _growth(save)


def _growth(action: Callable[[], object]) -> Measures:
    """Milliseconds, and by how many MB the peak of the memory grows, file-backed memory included."""
    torch.ones(1 << 16).sum()  # starts torch's threads
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak so far is that of the imports
    before = _memory_mb("VmRSS")
    spent = 1e3 * timed(action)
    return {"ms": [spent], "new MB": [_memory_mb("VmHWM") - before]}


def _memory_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024


CHILDREN: dict[str, Callable[..., Measures]] = {
    function.__name__: function
    for function in (dump_pages, save_pages, clone_pages, read_one, read_all, save_much, dump_much)
}


def in_child(function: Callable[..., Measures], *arguments: object, threads: int) -> Measures:
    """Returns what a function measures in a process of its own."""
    task = json.dumps([function.__name__, threads, *map(str, arguments)])
    done = subprocess.run([sys.executable, __file__, "--child", task], capture_output=True, text=True, check=False)
    if done.returncode:
        raise RuntimeError(done.stderr)
    found: Measures = json.loads(done.stdout)
    return found


def child(task: str) -> None:
    name, threads, folder, *numbers = json.loads(task)
    if threads:
        torch.set_num_threads(threads)
    print(json.dumps(CHILDREN[name](Path(folder), *map(int, numbers))))
