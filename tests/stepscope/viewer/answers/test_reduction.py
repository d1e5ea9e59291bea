"""A reduced series has every extreme, NaN and infinity of the whole one."""

import math

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from stepscope.viewer.answers.reduction import reduced, shift_for

VALUES = st.sampled_from([math.nan, math.inf, -math.inf, 0.0, -1e308, 1e308, 5e-324]) | st.floats()
POINTS = st.lists(st.tuples(st.integers(0, 3) | st.integers(0, 10**6), VALUES), min_size=1, max_size=200)


@given(POINTS, st.integers(1, 50))
def test_nothing_that_matters_is_lost(points, width):
    steps = np.cumsum([gap for gap, _ in points])
    values = np.array([value for _, value in points])
    found = reduced(steps, steps * 2.0, values, width)
    assert 1 <= len(found["step"]) <= width
    assert all(column.shape == found["step"].shape and column.dtype == np.float64 for column in found.values())
    assert found["count"].sum() == len(points)
    assert found["nan"].sum() == np.isnan(values).sum()
    assert found["pinf"].sum() == (values == np.inf).sum()
    assert found["ninf"].sum() == (values == -np.inf).sum()
    for place, (first, last) in enumerate(zip(found["step"], found["last_step"], strict=True)):
        inside = values[(steps >= first) & (steps <= last)]
        finite = inside[np.isfinite(inside)]
        shown = [found[name][place] for name in ("min", "max", "first", "last")]
        if finite.size:
            assert shown == [finite.min(), finite.max(), finite[0], finite[-1]]
        else:
            assert np.isnan(shown).all()
        assert found["time_ms"][place] == first * 2


def test_means_are_of_the_finite_values():
    found = reduced(np.arange(4), np.arange(4.0), np.array([1.0, math.nan, 3.0, math.inf]), 1)
    assert found["mean"].tolist() == [2.0]


def test_ranges_are_aligned_so_that_a_panned_chart_keeps_them():
    steps, values = np.arange(1000), np.random.default_rng(0).normal(size=1000)
    whole, panned = (reduced(steps[at:], steps[at:] * 1.0, values[at:], 64) for at in (0, 100))
    inner = np.isin(whole["step"], panned["step"])
    assert inner.sum() > 50
    np.testing.assert_array_equal(whole["max"][inner][1:], panned["max"][-inner.sum() :][1:])


def test_a_span_is_the_smallest_that_leaves_so_many_ranges():
    assert shift_for(0, 9, 10) == 0
    assert shift_for(0, 10, 10) == 1
    assert shift_for(7, 8, 1) == 4
