"""The run store alone: bytes a scalar, rows a second, and reading one series out of ten million rows."""

import os
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.recording import ScalarBlock, Storable
from tracker_adapters.store.layout import rank_folder
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.segments.segment import SegmentWriter

from delivery.tensorboard_side import Rates

NAMES = 1000
STEP_NS = 77_000_123
ROWS_A_COMMIT = 8000


def sides(folder: Path, *, rounds: int = 3, rows: int = 10_000_000) -> Rates:
    """Writes a run of ``rows`` scalars under 1,000 names, and reads it.

    Args:
        folder: Where the runs are made; empty.
        rounds: How often each reading is done.
        rows: How many scalars the large run has.

    Returns:
        ``bytes a scalar`` for 1, 4 and 424 names a step, written one by one, with indices and roll-ups; ``rows/s, …``
        of the same, and of blocks of 1,000; and of the large run in milliseconds: ``one series, cold`` (after the
        operating system was asked to forget the files) and ``warm``, ``names``, and the ``overview`` of one series in
        at most 100 ranges.
    """
    found: Rates = {"bytes a scalar": []}
    for names in (1, 4, 424):
        rate, nbytes = written(folder / f"{names} names", names, 300_000 // names, in_blocks=False)
        found["bytes a scalar"].append(nbytes)
        found[f"rows/s, {names} a step"] = [rate]
    large = folder / "large"
    rate, nbytes = written(large, NAMES, rows // NAMES, in_blocks=True)
    found["bytes a scalar"].append(nbytes)
    found[f"rows/s, blocks of {NAMES}"] = [rate]
    found |= {"one series, cold": [], "one series, warm": [], "names": [], "overview": []}
    for number in range(rounds):
        name = name_of(NAMES // (number + 2))
        forget(large)
        for case in ("cold", "warm"):
            with RunRecord(large) as record:
                start = time.perf_counter()
                series = record.scalars(name)
                found[f"one series, {case}"].append((time.perf_counter() - start) * 1e3)
                assert len(series) == rows // NAMES
        with RunRecord(large) as record:
            start = time.perf_counter()
            assert len(record.names()) == NAMES
            found["names"].append((time.perf_counter() - start) * 1e3)
            start = time.perf_counter()
            assert len(record.scalar_ranges(name, max_ranges=100).counts) <= 100
            found["overview"].append((time.perf_counter() - start) * 1e3)
    return found


def written(run: Path, names: int, steps: int, *, in_blocks: bool) -> tuple[float, float]:
    """Writes a run; returns rows a second of the store's writer, and bytes a row on disk."""
    folder = rank_folder(run, 0)
    folder.mkdir(parents=True)
    Manifest(RunInfo(id="store", name="store")).save(run)
    writer = SegmentWriter(folder, lambda _: "")
    all_names = tuple(map(name_of, range(names)))
    draw, begun, spent = np.random.default_rng(0), time.time_ns(), 0.0
    at_once = max(1, ROWS_A_COMMIT // names)
    for start in range(0, steps, at_once):
        chunk: list[Storable] = []
        for step in range(start, min(start + at_once, steps)):
            chunk += _items(all_names, step, begun + step * STEP_NS, draw.normal(size=names), in_blocks)
        before = time.perf_counter()
        writer.commit(chunk)
        spent += time.perf_counter() - before
    writer.close()
    nbytes = sum(path.stat().st_size for path in folder.iterdir())
    return names * steps / spent, nbytes / (names * steps)


def name_of(number: int) -> str:
    return f"layers.{number}.weight/norm"


def forget(folder: Path) -> None:
    """Asks the operating system to drop the files from its cache."""
    for path in folder.rglob("*.db"):
        number = os.open(path, os.O_RDONLY)
        os.fsync(number)
        os.posix_fadvise(number, 0, 0, os.POSIX_FADV_DONTNEED)
        os.close(number)


def _items(names: tuple[str, ...], step: int, now: int, values: np.ndarray, in_blocks: bool) -> Sequence[Storable]:
    if in_blocks:
        return [ScalarBlock(names, step, now, values)]
    return [(name, step, now, value) for name, value in zip(names, values.tolist(), strict=True)]


def main() -> None:
    import tempfile

    with tempfile.TemporaryDirectory() as folder:
        for what, figures in sides(Path(folder)).items():
            print(f"{what:24}{', '.join(f'{figure:,.1f}' for figure in figures)}")


if __name__ == "__main__":
    main()
