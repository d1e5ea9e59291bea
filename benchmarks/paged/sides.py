"""What a process does and measures: writing a page again and again, saving many, or reading one datapoint."""

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import torch

from debuggers.page_files.index import write_index
from debuggers.pages import PageReader, write_page
from debuggers.wrappers.sequential_debugger import SequentialDebugger

MB = 1 << 20
WARM_UP = 2
OUTPUT_MB = 4
Measures = dict[str, list[float]]


def dump_page(folder: Path, page_mb: int, each_mb: int, repeats: int) -> Measures:
    """Dumps tensors with joblib."""
    tensors = _tensors(page_mb, each_mb)

    return {"ms": _repeated(lambda: timed_ms(lambda: dump(tensors, folder / "page.pkl")), folder, repeats)}


def save_page(folder: Path, page_mb: int, each_mb: int, repeats: int) -> Measures:
    """Saves the same as a page; says also how long copying holds the caller up, before it waits for the disk."""
    tensors = _tensors(page_mb, each_mb)
    debugger = _debugger(2 * page_mb)
    held: list[float] = []

    def add() -> None:
        for idx, tensor in enumerate(tensors):
            debugger.add_to_buffer({"d": {"feature_map": tensor}}, {"meta_info": {"idx": idx}})

    def save() -> float:
        debugger.begin_epoch(folder)
        held.append(timed_ms(add))
        return held[-1] + timed_ms(debugger.save_all)

    return {"ms": _repeated(save, folder, repeats), "held ms": held[WARM_UP:]}


def clone_page(folder: Path, page_mb: int, each_mb: int, repeats: int) -> Measures:
    """Only copies the tensors."""
    tensors = _tensors(page_mb, each_mb)
    clones: list[torch.Tensor] = []

    def clone() -> float:
        clones.clear()
        return timed_ms(lambda: clones.extend(tensor.detach().clone() for tensor in tensors))

    return {"ms": _repeated(clone, folder, repeats)}


def read_one(folder: Path, pages: int, page_mb: int) -> Measures:
    """Reads one datapoint of an epoch."""

    def read() -> Any:
        return PageReader(folder)[pages * page_mb // 2]["d"]["map"].sum()

    return _growth(read)


def load_all(folder: Path, pages: int, page_mb: int) -> Measures:
    """Reads the same datapoint after loading every page with joblib."""

    def read() -> Any:
        loaded: dict[int, Any] = {}
        for path in folder.glob("page_*.pkl"):
            loaded.update(joblib.load(path))
        return loaded[pages * page_mb // 2]["d"]["map"].sum()

    return _growth(read)


def save_much(folder: Path, saved_mb: int, page_mb: int) -> Measures:
    """Saves a layer's outputs in pages, as they are made."""
    debugger, outputs = _debugger(page_mb), _layer_outputs(saved_mb)
    debugger.begin_epoch(folder)

    def save() -> None:
        for idx, output in enumerate(outputs):
            debugger.add_to_buffer({"d": {"map": output}}, {"meta_info": {"idx": idx}})
        debugger.save_all()

    return _growth(save)


def dump_much(folder: Path, saved_mb: int, page_mb: int) -> Measures:
    """Does the same by hand: gathers copies, and dumps them with joblib when they make a page."""
    gathered: list[torch.Tensor] = []
    outputs = _layer_outputs(saved_mb)

    def save() -> None:
        for idx, output in enumerate(outputs):
            gathered.append(output.detach().clone())
            if OUTPUT_MB * len(gathered) >= page_mb:
                dump(gathered, folder / f"page_{idx}.pkl")
                gathered.clear()

    return _growth(save)


SIDES: dict[str, Callable[..., Measures]] = {
    side.__name__: side for side in (dump_page, save_page, clone_page, read_one, load_all, save_much, dump_much)
}


def make_epoch(folder: Path, pages: int, page_mb: int) -> None:
    """Writes an epoch whose datapoints of 1 MB are numbered through."""
    draw = np.random.default_rng(0)
    records = []
    for number in range(pages):
        indices = range(number * page_mb, (number + 1) * page_mb)
        maps = {idx: {"d": {"map": draw.random(MB // 4, np.float32)}} for idx in indices}
        records.append(write_page(folder, number, maps))
    write_index(folder, records)


def dump(tensors: list[torch.Tensor], path: Path) -> None:
    """Dumps tensors with joblib and waits until they are on the disk."""
    joblib.dump({idx: {"d": {"feature_map": tensor}} for idx, tensor in enumerate(tensors)}, path)
    with path.open("rb") as stream:
        os.fsync(stream.fileno())


def timed_ms(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return 1e3 * (time.perf_counter() - start)


def _tensors(total_mb: int, each_mb: int) -> list[torch.Tensor]:
    return [torch.randn(each_mb * MB // 4) for _ in range(total_mb // each_mb)]


def _layer_outputs(total_mb: int) -> Iterator[torch.Tensor]:
    """A layer's outputs of 4 MB, one after the other; some were made and dropped before the first."""
    layer = torch.nn.Sequential(torch.nn.Linear(64, 1024), torch.nn.ReLU()).requires_grad_(requires_grad=False)
    inputs = torch.randn(OUTPUT_MB * MB // 4 // 1024, 64)
    for _ in range(20):
        layer(inputs)
    return (layer(inputs) for _ in range(total_mb // OUTPUT_MB))


def _debugger(page_mb: float) -> SequentialDebugger:
    return SequentialDebugger([], torch.nn.Identity(), page_size_mb=page_mb)


def _repeated(action: Callable[[], float], folder: Path, repeats: int) -> list[float]:
    """Repeats what writes files; the first times do not count."""
    found = []
    for _ in range(WARM_UP + repeats):
        found.append(action())
        for path in folder.iterdir():
            path.unlink()
        os.sync()  # what one time leaves to the disk is not for the next to wait for
    return found[WARM_UP:]


def _growth(action: Callable[[], object]) -> Measures:
    """Milliseconds, and by how many MB the peak of the memory grows, file-backed memory included."""
    Path("/proc/self/clear_refs").write_text("5", encoding="ascii")  # the peak so far is that of the imports
    before = _memory_mb("VmRSS")
    spent = timed_ms(action)
    return {"ms": [spent], "new MB": [_memory_mb("VmHWM") - before]}


def _memory_mb(field: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith(f"{field}:")) / 1024
