"""Reading a run's scalars out: export and query beside TensorBoard's reader with a CSV writer, in one process."""

import csv
import shutil
import statistics
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np

import stepscope
from stepscope.export import export_runs
from stepscope.importing import import_runs
from stepscope.query import query_runs

NAMES = 20
MEAN = "select name, avg(value) from scalars group by name"


def sides(folder: Path, *, rounds: int = 3, rows: int = 1_000_000, native_rows: int = 100_000) -> dict[str, float]:
    """Times each side once a round, in turn.

    Args:
        folder: Where all of them write; empty.
        rounds: How often.
        rows: Scalars of the run that is exported and queried.
        native_rows: Scalars of the event files, which are read more slowly.

    Returns:
        Rows a second by side, the median of the rounds; processor time would be the same, since all of them compute.
    """
    actions = prepare(folder, rows, native_rows)
    seconds: dict[str, list[float]] = {name: [] for name in actions}
    for _ in range(rounds):
        for name, (_, action) in actions.items():
            start = time.perf_counter()
            action()
            seconds[name].append(time.perf_counter() - start)
    return {name: actions[name][0] / statistics.median(times) for name, times in seconds.items()}


def prepare(folder: Path, rows: int, native_rows: int) -> dict[str, tuple[int, Callable[[], object]]]:
    """Writes the runs; returns the rows and the action of each side."""
    for place, count in (("run", rows), ("small", native_rows)):
        write_run(folder / place, count, sinks=["tensorboard"] if place == "small" else [])
    events = folder / "small" / "tensorboard"

    def export(file_format: str) -> Callable[[], object]:
        return lambda: export_runs([folder / "run"], folder / "out", format=file_format, overwrite=True)  # type: ignore[arg-type]

    return {
        "export, CSV": (rows, export("csv")),
        "export, JSON lines": (rows, export("jsonl")),
        "export, Parquet": (rows, export("parquet")),
        "query, mean by name": (rows, lambda: query(folder / "run")),
        "TensorBoard's reader and csv": (native_rows, lambda: tensorboard_to_csv(events, folder / "native.csv")),
        "import of event files": (native_rows, lambda: import_again(events, folder / "imported")),
    }


def write_run(folder: Path, rows: int, sinks: list[str]) -> None:
    names, generator = [f"grad/{number}/norm" for number in range(NAMES)], np.random.default_rng(0)
    with stepscope.open_run(folder, sinks=sinks) as run:
        for step in range(rows // NAMES):
            run.scalars(names, generator.normal(size=NAMES), step=step)
            if step % 10_000 == 0:
                run.flush_store()


def query(run: Path) -> list[tuple[object, ...]]:
    with query_runs([run], MEAN) as result:
        return list(result)


def tensorboard_to_csv(events: Path, target: Path) -> None:
    from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

    accumulator = EventAccumulator(str(events), size_guidance={"scalars": 0})
    accumulator.Reload()
    with target.open("w", newline="", encoding="utf-8") as stream:
        writer = csv.writer(stream)
        for name in accumulator.Tags()["scalars"]:
            writer.writerows((name, event.step, event.wall_time, event.value) for event in accumulator.Scalars(name))


def import_again(events: Path, target: Path) -> None:
    shutil.rmtree(target, ignore_errors=True)
    import_runs(events, target)
