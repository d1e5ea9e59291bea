"""What a step's histograms cost once they are measured: emitting, storing and delivering them to TensorBoard.

``run.histograms`` and ``run.scalars`` of 53 tensors, beside ``SummaryWriter.add_histogram_raw`` and ``add_scalar`` of
the same, at the pace of a training loop of 13 steps a second.
"""

import argparse
import json
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import TypeAlias

import numpy as np
import psutil
from torch.utils.tensorboard import SummaryWriter
from tracker_adapters.artifacts import Histogram
from tracker_adapters.histograms.columns import HistogramColumns

import stepscope

TENSORS = 53
STEP_S = 0.075
Measures: TypeAlias = dict[str, float]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tensors", type=int, default=TENSORS)
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    names = [f"blocks.{number}.attention.weight" for number in range(arguments.tensors)]
    histograms = measured(arguments.tensors)
    norms = np.linspace(0, 1, arguments.tensors)
    with tempfile.TemporaryDirectory() as folder:
        ours = time_run(Path(folder, "run"), names, HistogramColumns.of(histograms), norms, arguments.steps)
        theirs = time_summary_writer(f"{folder}/board", names, histograms, norms, arguments.steps)
    report(ours | theirs, arguments.tensors, arguments.steps)


def time_run(folder: Path, names: list[str], columns: HistogramColumns, norms: np.ndarray, steps: int) -> Measures:
    durations = []
    with stepscope.open_run(folder, sinks=["tensorboard"]) as run:
        run.scalar("first", 0.0, step=0)
        run.flush()
        child = psutil.Process().children()[0]
        child_before, others_before = cpu_seconds(child), other_threads_seconds()
        for step in range(steps):
            start = time.perf_counter()
            run.histograms(names, columns, step=step)
            run.scalars(names, norms, step=step)
            durations.append(time.perf_counter() - start)
            time.sleep(STEP_S)
        run.flush_store()
        others = other_threads_seconds() - others_before
        run.flush()
        child_seconds = cpu_seconds(child) - child_before
    stored = sum(path.stat().st_size for path in (folder / "store").rglob("segment_*"))
    return {
        "run.histograms + run.scalars: caller, us a step": 1e6 * statistics.median(durations),
        "  the store's writer thread, us CPU a step": 1e6 * others / steps,
        "  the delivery process, us CPU a tensor and step": 1e6 * child_seconds / (steps * len(names)),
        "  the run store, bytes a tensor and step": stored / (steps * len(names)),
    }


def time_summary_writer(
    folder: str, names: list[str], histograms: list[Histogram], norms: np.ndarray, steps: int
) -> Measures:
    edges = [[column.tolist() for column in histogram.edges()] for histogram in histograms]
    durations = []
    with SummaryWriter(folder) as board:
        others_before = other_threads_seconds()
        for step in range(steps):
            start = time.perf_counter()
            for name, histogram, (limits, counts), norm in zip(names, histograms, edges, norms.tolist(), strict=True):
                n, mean = histogram.finite_count, histogram.mean
                board.add_histogram_raw(
                    name,
                    min=histogram.min,
                    max=histogram.max,
                    num=n,
                    sum=mean * n,
                    sum_squares=histogram.m2 + mean**2 * n,
                    bucket_limits=limits[1:],
                    bucket_counts=counts,
                    global_step=step,
                )
                board.add_scalar(f"{name}/norm", norm, step)
            durations.append(time.perf_counter() - start)
            time.sleep(STEP_S)
        board.flush()
        others = other_threads_seconds() - others_before
    return {
        "SummaryWriter.add_histogram_raw + add_scalar: caller, us a step": 1e6 * statistics.median(durations),
        "  its writer thread, us CPU a step": 1e6 * others / steps,
    }


def cpu_seconds(process: psutil.Process) -> float:
    times = process.cpu_times()
    return times.user + times.system


def other_threads_seconds() -> float:
    return time.process_time() - time.thread_time()


def measured(tensors: int) -> list[Histogram]:
    draw = np.random.default_rng(0)
    values = (draw.normal(0, 1e-3, 70_000).astype(np.float32) for _ in range(tensors))
    return [Histogram.from_values("h", array, step=0) for array in values]


def report(measures: Measures, tensors: int, steps: int) -> None:
    print(f"{tensors} histograms and as many scalars a step, {steps} steps, {os.cpu_count()} cores")
    for name, value in measures.items():
        print(f"{name:66}{value:12.1f}")
    print(json.dumps({name.strip(): value for name, value in measures.items()}))


if __name__ == "__main__":
    main()
