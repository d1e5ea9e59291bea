"""Many scalars read at once are those that are read one by one."""

import math

import numpy as np
import pytest

import stepscope


@pytest.fixture
def resumed(tmp_path):
    folder = tmp_path / "run"
    for attempt, first in enumerate((0, 30)):  # the second one records some steps again
        with stepscope.open_run(folder, sinks=[], resume=attempt > 0) as run:
            for step in range(first, first + 50):
                run.scalars(["a", "b"], [step + attempt / 10, math.nan if step % 7 == 0 else -step], step=step)
            run.scalar("once" if attempt else "first", 1.0, step=first)
            run.text("note", "no scalar", step=first)
    return folder


def test_they_are_the_same_as_one_by_one_also_where_steps_were_recorded_again(resumed):
    with stepscope.read_run(resumed) as record:
        names = ["once", "b", "a", "first", "unknown", "note"]
        found = record.many_scalars(names)
        assert sorted(found) == ["a", "b", "first", "once"]
        for name, series in found.items():
            alone = record.scalars(name)
            for column in ("steps", "times_ns", "values"):
                np.testing.assert_array_equal(getattr(series, column), getattr(alone, column))
        assert found["a"].values[40] == 40.1


def test_a_rank_that_is_not_there_and_no_name_have_none(resumed):
    with stepscope.read_run(resumed) as record:
        assert record.many_scalars(["a"], rank=3) == record.many_scalars([]) == {}
