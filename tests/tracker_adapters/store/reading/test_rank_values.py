"""One series, histogram or text of each rank, with no store left open."""

import math
from pathlib import Path

import numpy as np
import pytest
from tracker_adapters.store.reading.rank_values import RankValues, read_histogram, read_rank_text
from tracker_adapters.store.segments.histogram_codec import decode

import stepscope


@pytest.fixture
def folder(tmp_path):
    for rank in range(2):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank, resume=rank > 0) as run:
            for step, value in enumerate([1.0, math.nan, math.inf]):
                run.scalar("loss", value + rank, step=step)
            run.scalar("back", 1.0, step=5)
            run.scalar("back", 2.0, step=3)
            run.histogram("h", np.full(rank + 1, 3.0), step=4)
            run.text("note", "first", step=0)
            run.text("note", "last", step=0)
    return tmp_path / "run"


@pytest.fixture
def record(folder):
    with stepscope.read_run(folder) as record:
        yield record


def test_series_are_those_of_scalars_also_where_steps_go_back(record):
    values = RankValues(record)
    for rank in range(2):
        for name in ("loss", "back"):
            steps, found = values.read(rank, name)
            expected = record.scalars(name, rank)
            np.testing.assert_array_equal(steps, expected.steps)
            np.testing.assert_array_equal(found, expected.values)


def test_what_a_rank_has_not_is_empty(record):
    steps, found = RankValues(record).read(0, "lost")
    assert len(steps) == len(found) == 0
    assert read_histogram(record, 0, "h", 5) is None
    assert read_histogram(record, 0, "lost", 4) is None
    assert read_rank_text(record, 0, "lost") is None


def test_histograms_and_the_last_text(record):
    found = [read_histogram(record, rank, "h", 4) for rank in range(2)]
    assert decode([blob for _, blob in found]).tallies[:, 0].tolist() == [1, 2]
    assert found[0][0] == record.histograms("h")[0].time_ns
    assert read_rank_text(record, 1, "note") == "last"


def test_a_later_attempt_takes_the_place_of_an_earlier_one(folder, record):
    with stepscope.open_run(folder, sinks=[], rank=0, resume=True) as run:
        run.scalar("loss", 9.0, step=1)
    steps, found = RankValues(record).read(0, "loss")
    assert (steps.tolist(), found.tolist()) == ([0, 1, 2], [1.0, 9.0, math.inf])


def test_no_file_stays_open(folder, record):
    RankValues(record).read(0, "loss")
    read_histogram(record, 1, "h", 4)
    opened = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert not [path for path in opened if folder in path.parents]
