"""A run's folder for the tests of the store."""

import pytest
from tracker_adapters.artifacts import RunInfo
from tracker_adapters.store.layout import rank_folder, segments
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.segments.segment import SegmentWriter


@pytest.fixture
def run_folder(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    Manifest(RunInfo(id="id", name="run")).save(folder)
    return folder


@pytest.fixture
def three_segments(folder):
    """Three segments of 2,000 scalars ``loss`` each, whose values are their steps."""
    writer = SegmentWriter(folder, lambda _: "", segment_bytes=60_000)
    for first in range(0, 6000, 2000):
        writer.commit([("loss", step, step, float(step)) for step in range(first, first + 2000)])
    writer.close()
    found = segments(folder)
    assert len(found) == 3
    return found


@pytest.fixture
def folder(run_folder):
    """The folder of rank 0 in a run, empty."""
    made = rank_folder(run_folder, 0)
    made.mkdir(parents=True)
    return made
