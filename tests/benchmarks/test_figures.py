"""What the benchmark of a watched step makes of its times."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from watched.figures import figures
from watched.table import rows_of

TIMES = st.floats(min_value=1.0, max_value=1e4)


def side(plain_ms, watched_ms):
    return {"plain_ms": plain_ms, "watched_ms": watched_ms, "quiet_ms": plain_ms, "tensors": 4, "values": 2_000_000}


def test_the_median_overhead_is_taken_pair_by_pair():
    # The machine slows down by four: each pair still says 10, 20 or 30 %.
    found = figures([10.0, 20.0, 40.0], [11.0, 24.0, 52.0], [10.0])
    assert found.median.value == pytest.approx(0.2)
    assert found.mean.value == pytest.approx(87 / 70 - 1)
    assert found.added_ms.value == pytest.approx(4.0)
    assert (found.plain_ms, found.watched_ms) == (20.0, 24.0)


def test_a_side_that_leaves_steps_out_adds_its_mean():
    plain, watched = [10.0] * 10, [15.0] + [10.0] * 9
    assert figures(plain, watched, plain, sampling=True).added_ms.value == pytest.approx(0.5)
    assert figures(plain, watched, plain).added_ms.value == 0.0


def test_what_slows_down_both_copies_shows_against_the_steps_before():
    found = figures([12.0, 12.0], [12.0, 12.0], [10.0, 10.0])
    assert found.median.value == 0.0
    assert found.plain_slowed == pytest.approx(0.2)


@given(st.lists(TIMES, min_size=1, max_size=30), st.floats(min_value=0.5, max_value=2.0))
def test_the_interval_holds_a_constant_ratio_exactly(plain, ratio):
    found = figures(plain, [time * ratio for time in plain], plain)
    for estimate in (found.median, found.mean):
        expected = pytest.approx(ratio - 1, abs=1e-9)
        assert (expected, expected, expected) == (estimate.low, estimate.value, estimate.high)


@given(st.lists(st.tuples(TIMES, TIMES), min_size=5, max_size=30))
def test_the_interval_holds_the_median(pairs):
    found = figures([plain for plain, _ in pairs], [watched for _, watched in pairs], [1.0])
    assert found.median.low <= found.median.value <= found.median.high


def test_ratios_compare_what_is_added_to_a_step():
    rows = rows_of(
        {
            "floor": side([10.0], [10.5]),
            "wandb_gradients": side([20.0], [30.0]),
            "gradients": side([10.0], [11.0]),
            "wandb_all": {"error": "not installed"},
        }
    )
    assert rows["gradients"]["wandb_ratio"] == pytest.approx(0.1)
    assert rows["gradients"]["floor_ratio"] == pytest.approx(2.0)
    assert rows["gradients"]["us_a_tensor"] == pytest.approx(250.0)
    assert rows["gradients"]["ms_a_million_values"] == pytest.approx(0.5)
    assert [pair["ratio"] for pair in rows["gradients"]["pairs"]] == [pytest.approx(1.1)]
    assert rows["wandb_all"] == {"error": "not installed"}


def test_without_the_other_sides_there_are_no_ratios():
    row = rows_of({"gradients": side([10.0], [11.0])})["gradients"]
    assert (row["wandb_ratio"], row["floor_ratio"]) == (None, None)
