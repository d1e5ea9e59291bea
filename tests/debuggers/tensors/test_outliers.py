"""Tukey's fences and the numbers beyond them lie within the bounds that the histogram gives."""

import math

import numpy as np
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram

from debuggers.tensors.outliers import tukey_outliers

METHODS = ["lower", "higher", "linear", "nearest"]


def outliers_of(values):
    return tukey_outliers(Histogram.from_values("x", values, step=0))


def assert_within(bounds, value):
    low, high = bounds
    slack = 1e-12 * abs(value)
    assert low - slack <= value <= high + slack


@settings(deadline=None)
@given(values=st.lists(st.one_of(st.floats(-1e30, 1e30), st.floats(width=32, allow_nan=False)), min_size=1))
@example(values=[1.9999999999] * 3 + [2.0, 5.0])  # float32 puts the first ones into the bin of 2
@example(values=[0.0] * 10 + [1e-45, -1e-41, 3.0])
@example(values=[-1.7e308, 1.7e308, 0.0, 0.0])
def test_the_true_outliers_are_within_the_bounds(values):
    finite = np.array([value for value in values if math.isfinite(value)])
    found = outliers_of(np.array(values))
    assert found.finite_count == finite.size
    if not finite.size:
        return
    for method in METHODS:
        with np.errstate(over="ignore", invalid="ignore"):
            q1, q3 = np.percentile(finite, [25, 75], method=method)
            lower, upper = q1 - 1.5 * (q3 - q1), q3 + 1.5 * (q3 - q1)
        assert_within(found.lower_fence, lower)
        assert_within(found.upper_fence, upper)
        assert found.below[0] <= (finite < lower).sum() <= found.below[1]
        assert found.above[0] <= (finite > upper).sum() <= found.above[1]


def test_of_a_normal_distribution_the_bounds_are_close():
    values = np.random.default_rng(0).normal(size=100_000)
    q1, q3 = np.percentile(values, [25, 75])
    outside = (values < q1 - 1.5 * (q3 - q1)) | (values > q3 + 1.5 * (q3 - q1))
    found = outliers_of(values)
    low, high = found.fraction
    assert outside.mean() / 5 < low <= outside.mean() <= high < 5 * outside.mean()
    assert found.upper_fence == pytest.approx((2.7, 2.7), rel=0.2)


def test_one_far_element_among_many_is_found():
    values = np.concatenate([np.linspace(-1, 1, 1000), [50.0, -40.0]])
    assert (outliers_of(values).below, outliers_of(values).above) == ((1, 1), (1, 1))


def test_a_constant_has_no_outliers():
    found = outliers_of(np.full(100, 0.1))
    assert (found.below, found.above, found.fraction) == ((0, 0), (0, 0), (0, 0))


@pytest.mark.parametrize("values", [[], [math.nan, math.inf]])
def test_without_finite_elements_there_are_no_fences(values):
    found = outliers_of(np.array(values))
    assert (found.below, found.above) == ((0, 0), (0, 0))
    assert all(math.isnan(value) for value in (*found.lower_fence, *found.upper_fence, *found.fraction))
