"""One series, histogram or text of each rank, with no store left open."""

import math
from pathlib import Path

import numpy as np
import pytest
from tracker_adapters.store.reading.rank_values import RankValues, read_histogram, read_rank_text, read_rank_texts
from tracker_adapters.store.segments.histogram_codec import decode
from tracker_adapters.store.upkeep.retention import retain

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


@pytest.mark.parametrize("is_live", [False, True])
def test_what_one_attempt_recorded_is_read_alone(folder, is_live):
    run = stepscope.open_run(folder, sinks=[], rank=0, resume=True)
    run.scalar("loss", 9.0, step=1)
    run.histogram("h", np.full(7, 3.0), step=4)
    run.text("note", "again", step=0)
    assert run.flush_store()
    if not is_live:
        run.close()
    with stepscope.read_run(folder) as record:
        values = RankValues(record)
        read = {attempts: values.read(0, "loss", attempts) for attempts in ((1,), (2,), (1, 2), (3,))}
        assert [steps.tolist() for steps, _ in read.values()] == [[0, 1, 2], [1], [0, 1, 2], []]
        assert [found.tolist()[1:2] for _, found in read.values()] == [
            pytest.approx([math.nan], nan_ok=True),
            [],
            [9.0],
            [],
        ]
        assert values.read(0, "lost", (2,))[0].tolist() == []
        counts = {of: read_histogram(record, 0, "h", 4, of) for of in (None, (1,), (2,), (3,))}
        assert [one and decode([one[1]]).tallies[0, 0] for one in counts.values()] == [7, 1, 7, None]
        assert read_rank_texts(record, 0, "note") == {1: "last", 2: "again"}
        assert read_rank_text(record, 0, "note") == "again"
    run.close()


def test_a_later_attempt_that_was_compacted_takes_the_place_of_all_between_its_ends(folder):
    for steps in ([21], [*range(21), *range(22, 200)]):
        with stepscope.open_run(folder, sinks=[], rank=0, resume=True) as run:
            for step in steps:
                run.histogram("h", np.full(5, 3.0), step=step)
            for step in range(3000):
                run.scalar("much", 0.0, step=step)
    assert retain(folder, 64 * 1024).made
    with stepscope.read_run(folder) as record:
        steps = [one.step for one in record.histograms("h")]
        assert 21 not in steps
        assert [step for step in range(200) if read_histogram(record, 0, "h", step) is not None] == steps
        assert read_histogram(record, 0, "h", 21, (2,)) is not None


def test_of_many_ranks_each_is_read_in_all_ways_and_few_files_are_open(tmp_path):
    ranks = 70
    for rank in range(ranks):
        with stepscope.open_run(tmp_path / "run", sinks=[], rank=rank, resume=rank > 0, system_metrics=False) as run:
            run.scalar("loss", float(rank), step=0)
    with stepscope.read_run(tmp_path / "run") as record:
        for rank in range(ranks):
            assert record.scalar_rows("loss", rank).values.tolist() == [rank]
            assert record.scalar_ranges("loss", rank).max.tolist() == [rank]
            assert [one.attempt for one in record.attempts(rank)] == [1]
        opened = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
        assert len([path for path in opened if tmp_path in path.parents]) < 10


def test_no_file_stays_open(folder, record):
    RankValues(record).read(0, "loss")
    read_histogram(record, 1, "h", 4)
    opened = [link.resolve() for link in Path("/proc/self/fd").iterdir()]
    assert not [path for path in opened if folder in path.parents]
