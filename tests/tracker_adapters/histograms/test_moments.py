"""Moments of parts join to those of the whole, wherever in float64 the values lie."""

import math
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.histograms.layout import M2, MAX, MEAN, MIN
from tracker_adapters.histograms.moments import fold_moments, join_moments

SCALES = (1e-150, 1e-30, 1.0, 1e30, 1e150)
SMALLEST = 5e-324
"""Squares of the first scale are multiples of it, with fewer digits than a double has elsewhere."""
PARTS = st.lists(st.lists(st.floats(-1, 1), max_size=6), min_size=1, max_size=8)


def moments_of(values):
    """Exact, but for the last rounding."""
    if not values:
        return [math.nan, math.nan, math.nan, 0.0]
    exact = [Fraction(value) for value in values]
    mean = sum(exact) / len(exact)
    return [min(values), max(values), float(mean), float(sum((value - mean) ** 2 for value in exact))]


@pytest.mark.parametrize("scale", SCALES)
@given(parts=PARTS)
def test_folded_parts_have_the_moments_of_all_values(scale, parts):
    scaled = [[value * scale for value in part] for part in parts]
    moments = np.array([moments_of(part) for part in scaled])
    [folded] = fold_moments(moments, np.array([len(part) for part in parts]), np.zeros(1, np.int64))
    expected = moments_of([value for part in scaled for value in part])
    np.testing.assert_array_equal(folded[[MIN, MAX]], [expected[MIN], expected[MAX]])
    np.testing.assert_allclose(folded[MEAN], expected[MEAN], rtol=0, atol=1e-14 * scale)
    np.testing.assert_allclose(folded[M2], expected[M2], rtol=1e-12, atol=max(1e-26 * scale * scale, 2 * SMALLEST))


def test_means_at_the_two_ends_of_float64_join_to_a_finite_mean():
    end = 2.0**1023
    low, high = ([value, value, value, 0.0] for value in (-end, end))
    np.testing.assert_array_equal(
        join_moments(np.array([1, 3]), np.array([low, low]), np.array([1, 1]), np.array([high, high])),
        [[-end, end, 0.0, math.inf], [-end, end, -end / 2, math.inf]],
    )


def test_numbers_of_elements_may_be_large():
    part = np.array([1.0, 2.0, 1.5, 7.0])
    other = np.array([2.0, 3.0, 2.5, 5.0])
    np.testing.assert_array_equal(join_moments(2**40, part, 2**40, other), [1.0, 3.0, 2.0, 12.0 + 2.0**39])


@pytest.mark.parametrize(("n_ours", "n_theirs"), [(0, 3), (3, 0), (0, 0)])
def test_a_part_without_elements_changes_no_bit(n_ours, n_theirs):
    filled, empty = np.array([0.1, 0.3, 0.2, 1e-320]), np.array([math.nan, math.nan, math.nan, 0.0])
    ours, theirs = (filled if number else empty for number in (n_ours, n_theirs))
    np.testing.assert_array_equal(join_moments(n_ours, ours, n_theirs, theirs), filled if n_ours or n_theirs else empty)
