"""The rows of one scalar as columns: those that are read by name, chosen by step, by number, or sampled."""

import math
import shutil
import sqlite3

import numpy as np
import pytest
from tracker_adapters.errors import ArtifactError
from tracker_adapters.store.layout import rank_folder, segments
from tracker_adapters.store.reading.record import RowsWanted

import stepscope


@pytest.fixture(params=[2, 60], ids=["few series", "many series"])
def resumed(tmp_path, request):
    """Two attempts, of which the second records steps again, in a store with few or many series."""
    folder = tmp_path / "run"
    names = [f"s{number}" for number in range(request.param)]
    for attempt, first in enumerate((0, 30)):
        with stepscope.open_run(folder, sinks=[], resume=attempt > 0) as run:
            for step in range(first, first + 50):
                values = [number + step + attempt / 10 for number in range(len(names))]
                values[0] = {7: math.nan, 9: math.inf, 11: -math.inf}.get(step, values[0])
                run.scalars(names, values, step=step)
    return folder


def test_the_latest_of_them_are_what_scalars_returns(resumed):
    with stepscope.read_run(resumed) as record:
        for name in ("s0", "s1"):
            rows, alone = record.scalar_rows(name), record.scalars(name)
            assert len(rows) == 100
            order = rows.latest()
            np.testing.assert_array_equal(rows.steps[order], alone.steps)
            np.testing.assert_array_equal(rows.times_ns[order], alone.times_ns)
            np.testing.assert_array_equal(rows.values[order], alone.values)


def test_chosen_steps_come_and_no_others(resumed):
    with stepscope.read_run(resumed) as record:
        rows = record.scalar_rows("s1", wanted=RowsWanted(first_step=20, last_step=35))
        assert rows.steps.tolist() == [*range(20, 36), *range(30, 36)]
        assert rows.steps[rows.latest()].tolist() == list(range(20, 36))


def test_what_came_behind_a_number_comes_and_nothing_else(resumed):
    with stepscope.read_run(resumed) as record:
        before = record.scalar_rows("s0")
        assert len(record.scalar_rows("s0", wanted=RowsWanted(after=before.last_seq))) == 0
    with stepscope.open_run(resumed, sinks=[], resume=True) as run:
        run.scalar("s0", 5.5, step=100)
        run.scalar("other", 1.0, step=100)
    with stepscope.read_run(resumed) as record:
        rows = record.scalar_rows("s0", wanted=RowsWanted(after=before.last_seq))
        assert (rows.steps.tolist(), rows.values.tolist()) == ([100], [5.5])
        assert rows.last_seq == before.last_seq + 2


def test_a_sample_has_every_value_that_is_not_finite(resumed):
    with stepscope.read_run(resumed) as record:
        rows = record.scalar_rows("s0", wanted=RowsWanted(sample=10**6))
        assert rows.steps.tolist() == [7, 9, 11]
        assert np.isnan(rows.values[0])
        assert rows.values[1:].tolist() == [math.inf, -math.inf]
        sampled = record.scalar_rows("s1", wanted=RowsWanted(sample=7))
        assert 0 < len(sampled) < 100
        assert (sampled.seqs % 7 == 0).all()


def test_a_name_that_is_not_there_is_named(resumed):
    with stepscope.read_run(resumed) as record, pytest.raises(ArtifactError, match=r"'s'.*did you mean"):
        record.scalar_rows("s")


def test_damaged_rows_are_left_out_and_counted(resumed, tmp_path):
    copy = tmp_path / "copy"
    shutil.copytree(resumed, copy)
    with sqlite3.connect(segments(rank_folder(copy, 0))[0]) as connection:
        connection.execute("UPDATE scalar SET value = 'no number' WHERE step = 3")
        connection.execute("UPDATE scalar SET time_ns = -5 WHERE step = 4")
    connection.close()
    with stepscope.read_run(copy) as record:
        rows = record.scalar_rows("s1", wanted=RowsWanted(last_step=9))
        assert rows.steps.tolist() == [0, 1, 2, 5, 6, 7, 8, 9]
        assert record.damaged == 2


def test_compacted_rows_are_told(tmp_path):
    folder = tmp_path / "run"
    with stepscope.open_run(folder, sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)
    with stepscope.read_run(folder) as record:
        assert not record.scalar_rows("loss").compacted.any()
