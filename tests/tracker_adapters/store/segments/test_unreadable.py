"""Artifacts whose content is gone or damaged: readers leave them out and count them, and read on."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import numpy as np
import pytest
from tracker_adapters.store.reading.tail import StoreReader
from tracker_adapters.store.segments.codec import MAX_INLINE_BYTES
from tracker_adapters.testing import MemorySink

import stepscope
from stepscope.export.exporter import export_runs
from stepscope.sync import sync_runs

WAYS: dict[str, Callable[[Path], object]] = {
    "gone": Path.unlink,
    "empty": lambda path: path.write_bytes(b""),
    "damaged": lambda path: path.write_bytes(b"no picture"),
    "a link": lambda path: path.symlink_to(path.rename(path.with_name("elsewhere"))),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_others_are_read_and_delivered(tmp_path, way):
    pixels = np.random.default_rng(0).integers(0, 256, (3, 320, 320, 3), np.uint8)
    assert pixels[0].nbytes > MAX_INLINE_BYTES
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step, picture in enumerate(pixels):
            run.scalar("loss", float(step), step=step)
            run.image("picture", picture, layout="HWC", step=step)
    damaged, *_ = [path for path in (tmp_path / "run" / "blobs").rglob("*") if path.is_file()]
    WAYS[way](damaged)

    batch = StoreReader(tmp_path / "run").read(0)
    assert batch is not None
    assert (len(batch.scalars), len(batch.images), batch.unreadable, batch.absent) == (3, 2, 1, 0)

    sink = MemorySink()
    with stepscope.open_run(tmp_path / "run", sinks=[sink], resume=True) as run:
        run.scalar("loss", 3.0, step=3)
    assert run.stats.sinks["MemorySink"].failed == {"unreadable": 1}
    assert run.stats.sinks["MemorySink"].delivered == len(sink.artifacts) == 6
    assert run.stats.sinks["MemorySink"].pending == 0


def test_a_folder_that_is_away_is_not_taken_for_damage(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.text("notes", "x" * (MAX_INLINE_BYTES + 1), step=0)
    reader = StoreReader(tmp_path / "run")
    assert reader.last_seq() == 1
    (tmp_path / "run").rename(tmp_path / "away")
    assert reader.read(0) is None


def test_rows_that_are_gone_from_what_was_never_compacted_are_not_called_compacted(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        for step in range(20):
            run.histogram("weights", [1.0], step=step)
            run.scalar("loss", float(step), step=step)
    (segment,) = (tmp_path / "run" / "store").rglob("segment_*.db")
    with closing(sqlite3.connect(segment)) as connection, connection:
        connection.execute("DELETE FROM histogram WHERE step >= 15")
    (result,) = sync_runs(tmp_path / "run", to=[f"local:{tmp_path / 'out'}"])
    assert (result.delivered, result.failed, result.pending) == (35, {"unreadable": 5}, 0)


@pytest.mark.parametrize("kind", ["file", "image"])
def test_a_sparse_file_in_the_place_of_another_is_not_read(tmp_path, kind):
    (tmp_path / "notes.txt").write_text("notes")
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
        if kind == "file":
            run.file(tmp_path / "notes.txt", step=0)
        else:
            pixels = np.random.default_rng(0).integers(0, 256, (320, 320, 3), np.uint8)
            run.image("picture", pixels, layout="HWC", step=0)
    (blob,) = [path for path in (tmp_path / "run" / "blobs").rglob("*") if path.is_file()]
    blob.chmod(0o644)
    os.truncate(blob, 8 * 1024**4)  # which would take an hour to read
    done = export_runs([tmp_path / "run"], tmp_path / "export")
    assert (done.damaged, done.missing) == (1, 0)
    (result,) = sync_runs(tmp_path / "run", to=[f"local:{tmp_path / 'out'}"])
    assert (result.delivered, result.failed) == (1, {"unreadable": 1})
