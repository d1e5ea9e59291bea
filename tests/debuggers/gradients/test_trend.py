"""Slopes are exact on lines, and a quarter of outliers does not bend them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from debuggers.gradients.trend import Trend, log_norms, robust_slopes, trend_of


@given(slope=st.floats(-1, 1), offset=st.floats(-10, 10), points=st.integers(10, 200))
def test_a_line_has_its_slope(slope, offset, points):
    steps = np.arange(points) * 3
    assert robust_slopes(steps, (offset + slope * steps)[:, np.newaxis])[0] == pytest.approx(slope, abs=1e-9)


def test_a_quarter_of_outliers_hardly_matters():
    steps = np.arange(200)
    values = 0.01 * steps + np.random.default_rng(0).normal(0, 0.01, 200)
    values[::4] = 300.0
    assert robust_slopes(steps, values[:, np.newaxis])[0] == pytest.approx(0.01, rel=0.05)


def test_missing_points_do_not_count_and_too_few_have_no_slope():
    steps = np.arange(20)
    values = np.column_stack([0.1 * steps, 0.1 * steps])
    values[3, 0] = np.nan
    values[4:, 1] = np.nan
    slopes = robust_slopes(steps, values)
    assert slopes[0] == pytest.approx(0.1)
    assert np.isnan(slopes[1])
    assert np.isnan(robust_slopes([], np.empty((0, 1)))[0])


def test_norms_without_a_logarithm_are_missing():
    assert np.isnan(log_norms(np.array([0.0, np.inf, np.nan, 100.0]))).tolist() == [True, True, True, False]


@pytest.mark.parametrize(
    "decades, trend",
    [(0.51, Trend.RISING), (0.5, Trend.STEADY), (-0.5, Trend.STEADY), (-2, Trend.FALLING), (np.nan, Trend.UNKNOWN)],
)
def test_half_a_decade_is_steady(decades, trend):
    assert trend_of(decades) is trend
