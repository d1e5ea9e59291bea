"""Writes the large run's scalars into the stores of other viewers, by the quickest way that each has."""

import os
import sqlite3
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from viewed.large_run import Size, names_of, values_of

EXPERIMENT, RUN = "bench", "large"
START_MS = 1_700_000_000_000
_TRACKIO = """
import sys
from trackio.sqlite_storage import SQLiteStorage
from viewed.large_run import Size, names_of, values_of
size = Size(*map(int, sys.argv[1:]))
names, rows = names_of(size), []
for step, values in enumerate(values_of(size)):
    rows.append(dict(zip(names, values.tolist(), strict=True)))
    if len(rows) == 100 or step == size.steps - 1:
        SQLiteStorage.bulk_log("bench", "large", rows, list(range(step + 1 - len(rows), step + 1)))
        rows = []
"""


def tensorboard_data(folder: Path, size: Size) -> None:
    """Event files, as TensorBoard's own writer makes them."""
    from tensorboard.compat.proto.event_pb2 import Event
    from tensorboard.compat.proto.summary_pb2 import Summary
    from tensorboard.summary.writer.event_file_writer import EventFileWriter

    writer = EventFileWriter(str(folder / RUN))
    names = names_of(size)
    for step, values in enumerate(values_of(size)):
        summary = Summary()
        for name, value in zip(names, values.tolist(), strict=True):
            summary.value.add(tag=name, simple_value=value)
        writer.add_event(Event(step=step, wall_time=START_MS / 1000 + step, summary=summary))
    writer.close()


def mlflow_data(folder: Path, size: Size) -> None:
    """A tracking store in SQLite: rows as its client writes them, without the client."""
    import mlflow

    database = folder / "mlflow.db"
    mlflow.set_tracking_uri(f"sqlite:///{database}")
    mlflow.set_experiment(EXPERIMENT)
    with mlflow.start_run(run_name=RUN) as run:
        key = run.info.run_id
    names = names_of(size)
    with sqlite3.connect(database) as connection:
        connection.execute("PRAGMA synchronous=OFF")
        insert = "INSERT INTO metrics (key, value, timestamp, run_uuid, step, is_nan) VALUES (?, ?, ?, ?, ?, ?)"
        connection.executemany(insert, _mlflow_rows(names, key, size))
        rows = [(name, 1.0, START_MS, size.steps - 1, False, key) for name in names]
        connection.executemany(
            "INSERT INTO latest_metrics (key, value, timestamp, step, is_nan, run_uuid) VALUES (?, ?, ?, ?, ?, ?)", rows
        )
    connection.close()


def _mlflow_rows(names: list[str], key: str, size: Size) -> Iterator[tuple[object, ...]]:
    for step, values in enumerate(values_of(size)):
        shown = np.clip(np.nan_to_num(values, posinf=1e308), -1e308, 1e308)
        for name, value, is_nan in zip(names, shown.tolist(), np.isnan(values).tolist(), strict=True):
            yield name, value, START_MS + step * 1000, key, step, is_nan


def trackio_data(folder: Path, size: Size) -> None:
    """A database of trackio's, through its storage; in another process, since it reads its folder when imported."""
    environment = os.environ | {
        "TRACKIO_DIR": str(folder),
        "PYTHONPATH": os.pathsep.join([str(Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]),
    }
    arguments = [str(size.points), str(size.names), str(size.page_bytes)]
    subprocess.run([sys.executable, "-c", _TRACKIO, *arguments], env=environment, check=True, capture_output=True)
