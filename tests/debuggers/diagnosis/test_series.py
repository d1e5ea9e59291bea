import numpy as np
import pytest

from debuggers.diagnosis.series import EMPTY, FIRST_KEPT, MOST_LATER, Series, SeriesLog, thinned


def test_the_first_points_and_the_last_one_are_kept_and_the_others_are_thinned_evenly():
    log = SeriesLog()
    steps = 100_000
    for step in range(steps):
        log.add(step, "loss", 1 / (step + 1))
    series = log.series()["loss"]
    assert series.steps[:FIRST_KEPT].tolist() == list(range(FIRST_KEPT))
    assert series.steps[-1] == steps - 1
    later = np.diff(series.steps[FIRST_KEPT:-1])
    assert len(series) <= FIRST_KEPT + MOST_LATER + 1
    assert len(set(later.tolist())) == 1
    assert np.array_equal(series.values, 1 / (series.steps + 1))


def test_a_step_that_is_not_after_the_last_is_left_out_and_nan_is_a_value():
    log = SeriesLog()
    for step, value in ((3, 1.0), (3, 2.0), (1, 5.0), (4, float("nan"))):
        log.add(step, "loss", value)
    series = log.series()["loss"]
    assert series.steps.tolist() == [3, 4]
    assert series.values[0] == 1.0
    assert np.isnan(series.values[1])
    assert len(series.finite) == 1
    assert series.until(3).values.tolist() == [1.0]
    assert series.since(4).steps.tolist() == [4]


def test_what_is_said_of_a_series_in_one_number():
    series = Series(np.arange(7), np.array([9.0, 1.0, 2.0, 3.0, 4.0, 5.0, 8.0]))
    assert (series.first, series.last, series.median(-1.0)) == (9.0, 8.0, 4.0)
    assert (series.late().steps.tolist(), series.late(5).median()) == ([5, 6], 4.0)
    assert series.late(8).steps.tolist() == series.steps.tolist()
    assert np.isnan([EMPTY.first, EMPTY.last, EMPTY.median(), EMPTY.late(3).median()]).all()
    assert EMPTY.median(1.0) == 1.0


@pytest.mark.parametrize("points", [1, FIRST_KEPT, FIRST_KEPT + 1, FIRST_KEPT + MOST_LATER + 1, 7_000, 20_001])
def test_a_stored_series_is_thinned_as_a_running_one(points):
    steps = np.sort(np.random.default_rng(points).integers(0, 3 * points, points))
    log = SeriesLog()
    for step in steps.tolist():
        log.add(step, "loss", -float(step))
    expected, found = log.series()["loss"], thinned(steps, -steps.astype(np.float64))
    assert found.steps.tolist() == expected.steps.tolist()
    assert np.array_equal(found.values, expected.values)
