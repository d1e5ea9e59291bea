"""A week of training in fast motion and to scale: does the run stay within its limit, with every name readable?

Run: ``python benchmarks/simulated_week.py --scale 100``. At full scale a week has 13 steps a second with 53 histograms
and 57 scalars each, and a limit of 10 GB. ``--scale 100`` divides the steps and the limit by 100, and the segments with
it; the time between two steps is multiplied by it. What is written goes through the store's own writer,
and each time that a segment is sealed the run is compacted as its own process would do it.
"""

import argparse
import json
import tempfile
import time
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from tracker_adapters.artifacts import Histogram, RunInfo
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.recording import HistogramBlock, ScalarBlock
from tracker_adapters.store.layout import rank_folder, segment_name, segments
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.segments.segment import SEGMENT_BYTES, SegmentWriter
from tracker_adapters.store.upkeep.compaction_process import CompactionProcess
from tracker_adapters.store.upkeep.retention import retain, run_bytes

WEEK_S = 7 * 24 * 3600
STEPS_A_SECOND = 13
LIMIT_BYTES = 10 * 10**9
HISTOGRAMS = tuple(f"grad/layers.{number}" for number in range(53))
SCALARS = ("loss", "lr", "accuracy", "norm", *(f"norm/layers.{number}" for number in range(53)))
STEPS_A_COMMIT = 8
VARIANTS = 16
NON_FINITE_EVERY = 97


@dataclass(frozen=True, slots=True)
class Week:
    """What came of it, in bytes, steps and seconds; ``max_gap`` is the largest distance between two histograms."""

    steps: int
    limit_bytes: int
    segment_bytes: int
    written_bytes: int
    peak_bytes: int
    final_bytes: int
    compactions: int
    max_level: int
    fewest_histograms: int
    fewest_scalars: int
    max_gap: int
    counts_exact: bool
    extremes_exact: bool
    write_s: float
    compact_s: float


def simulate(
    run_folder: Path, scale: float, *, limit_bytes: int = LIMIT_BYTES, values_a_histogram: int = 100_000
) -> Week:
    """Writes and compacts a week; the folder must not exist.

    Args:
        run_folder: Where the run is made.
        scale: What steps and limit are divided by.
        limit_bytes: The limit at full scale.
        values_a_histogram: How many normally distributed values each histogram counts.
    """
    steps, limit = int(WEEK_S * STEPS_A_SECOND / scale), int(limit_bytes / scale)
    run_folder.mkdir(parents=True)
    Manifest(RunInfo(id="week", name="week")).save(run_folder)
    folder = rank_folder(run_folder, 0)
    folder.mkdir(parents=True)
    process = CompactionProcess(run_folder, limit, SEGMENT_BYTES)
    writer = SegmentWriter(folder, lambda _: "", segment_bytes=process.segment_bytes)
    variants = _variants(values_a_histogram)
    start_ns, step_ns = time.time_ns(), int(1e9 * scale / STEPS_A_SECOND)
    sealed = compactions = peak = written = 0
    write_s = compact_s = 0.0
    for start in range(0, steps, STEPS_A_COMMIT):
        items: list[HistogramBlock | ScalarBlock] = []
        for step in range(start, min(start + STEPS_A_COMMIT, steps)):
            now = start_ns + step * step_ns
            items.append(HistogramBlock(HISTOGRAMS, step, now, variants[step % VARIANTS]))
            items.append(ScalarBlock(SCALARS, step, now, scalars(step)))
        begun = time.perf_counter()
        writer.commit(items)
        write_s += time.perf_counter() - begun
        if writer.sealed > sealed:
            peak = max(peak, run_bytes(run_folder))
            begun = time.perf_counter()
            done = retain(run_folder, process.goal_bytes, whole=False)
            compact_s += time.perf_counter() - begun
            written += process.segment_bytes * (writer.sealed - sealed)
            sealed, compactions = writer.sealed, compactions + done.made
        peak = max(peak, run_bytes(run_folder))
    writer.close()
    levels = [segment_name(path).level for path in segments(folder)]
    return Week(
        steps=steps, limit_bytes=limit, segment_bytes=process.segment_bytes, written_bytes=written, peak_bytes=peak,
        final_bytes=run_bytes(run_folder), compactions=compactions, max_level=max(levels), write_s=write_s,
        compact_s=compact_s, **_readable(run_folder, steps, values_a_histogram),
    )  # fmt: skip


def scalars(step: int) -> np.ndarray:
    """What is recorded at a step; some values are NaN, so that roll-ups have something to count."""
    found = np.sin(step / 500 + np.arange(len(SCALARS))) * (1 + step % 1009)
    if step % NON_FINITE_EVERY == 0:
        found[0] = np.nan
    return found


def _readable(run_folder: Path, steps: int, values: int) -> dict[str, int | bool]:
    """Reads every name back over its whole range."""
    fewest_histograms, fewest_scalars, max_gap, exact, extremes = steps, steps, 0, True, True
    with RunRecord(run_folder) as record:
        counts = {(info.kind, info.name): (info.count, info.last_step) for info in record.names()}
        exact &= all(counts["histogram", name] == (steps, steps - 1) for name in HISTOGRAMS)
        exact &= all(counts["scalar", name] == (steps, steps - 1) for name in SCALARS)
        for name in HISTOGRAMS:
            found = record.histograms(name)
            at = np.array([-1, *(one.step for one in found), steps - 1])
            max_gap = max(max_gap, int(np.diff(at).max()))
            fewest_histograms = min(fewest_histograms, len(found))
            exact &= sum(one.count for one in found) == steps * values
        expected = np.stack([scalars(step) for step in range(steps)])
        for place, name in enumerate(SCALARS):
            series, ranges = record.scalars(name), record.scalar_ranges(name)
            fewest_scalars = min(fewest_scalars, len(series))
            low, high = np.nanmin(expected[:, place]), np.nanmax(expected[:, place])
            exact &= int(ranges.counts.sum()) == steps
            exact &= int(ranges.non_finite.sum()) == int(np.isnan(expected[:, place]).sum())
            extremes &= (ranges.min.min(), ranges.max.max()) == (low, high)
            extremes &= (np.nanmin(series.values), np.nanmax(series.values)) == (low, high)
            extremes &= (series.steps[0], series.steps[-1]) == (0, steps - 1)
    return {
        "fewest_histograms": fewest_histograms, "fewest_scalars": fewest_scalars, "max_gap": max_gap,
        "counts_exact": exact, "extremes_exact": bool(extremes),
    }  # fmt: skip


def _variants(values: int) -> list[HistogramColumns]:
    draw = np.random.default_rng(0)
    made = []
    for _ in range(VARIANTS):
        few = [Histogram.from_values("h", draw.normal(0, draw.uniform(1e-4, 1e-2), values), step=0) for _ in range(8)]
        made.append(HistogramColumns.of([few[number % len(few)] for number in range(len(HISTOGRAMS))]))
    return made


def main() -> None:
    parser = argparse.ArgumentParser(description="A simulated week within its limit.")
    parser.add_argument("--scale", type=float, default=200.0)
    scale = parser.parse_args().scale
    with tempfile.TemporaryDirectory() as folder:
        week = simulate(Path(folder) / "run", scale)
    for key, value in asdict(week).items():
        print(f"{key:20}{value}")
    print(json.dumps({"scale": scale, **asdict(week)}))


if __name__ == "__main__":
    main()
