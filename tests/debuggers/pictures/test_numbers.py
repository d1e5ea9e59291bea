"""Numbers for pictures: nothing is lost on the way, and nothing overflows."""

import numpy as np
import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from debuggers.pictures.numbers import (
    binned,
    even_ticks,
    fits_logarithm,
    non_finite_words,
    number_text,
    pooled,
    summary_words,
    thinned,
)

VALUES = arrays(np.float64, st.integers(1, 200), elements=st.floats(allow_nan=True, allow_infinity=True))


@settings(max_examples=examples(40))
@given(VALUES, st.integers(1, 30))
def test_each_finite_value_is_in_one_bin(values, bins):
    edges, counts = binned(values, bins)

    assert counts.sum() == np.isfinite(values).sum()
    assert (np.diff(edges) >= 0).all() and np.isfinite(edges).all()


@settings(max_examples=examples(40))
@given(VALUES, st.integers(8, 60))
def test_a_thinned_line_keeps_its_ends_its_extremes_and_its_gaps(values, most):
    places = np.arange(len(values), dtype=float)

    x, y = thinned(places, values, most)

    assert len(y) <= max(most, 8) and len(x) == len(y)
    assert np.array_equal(values[x.astype(int)], y, equal_nan=True)
    finite, kept = values[np.isfinite(values)], y[np.isfinite(y)]
    if finite.size:
        assert (kept.min(), kept.max()) == (finite.min(), finite.max())
    assert np.isfinite(values).all() == np.isfinite(y).all()


def test_joined_columns_keep_the_largest_value_and_what_is_not_finite():
    table = np.array([[1.0, 5.0, np.nan, 9.0, np.inf, np.nan], [1.0, 2.0, 3.0, 4.0, 5.0, -np.inf]])

    assert np.array_equal(pooled(table, 3), [[5, np.nan, np.inf], [2, 4, -np.inf]], equal_nan=True)
    assert pooled(table, 6) is table


def test_words_count_what_is_not_finite():
    assert non_finite_words(np.array([1.0, np.nan, np.nan, -np.inf])) == "2 NaN, 1 -inf"
    assert non_finite_words(np.ones(3)) == ""
    assert summary_words(np.array([1e308, 1e308])) == "2 values, mean 1e+308, std 0"
    assert summary_words(np.empty(0)) == "0 values"


def test_a_logarithm_needs_positive_values_of_many_sizes():
    assert fits_logarithm(np.array([1e-3, 10.0, np.nan]))
    assert not fits_logarithm(np.array([1e-3, 1.0]))
    assert not fits_logarithm(np.array([0.0, 1e9]))
    assert not fits_logarithm(np.array([np.nan]))


@pytest.mark.parametrize(
    ("low", "high", "expected"),
    [
        (0.0713, 2.32, [0.5, 1.0, 1.5, 2.0]),
        (-1.0, 1.0, [-1.0, -0.5, 0.0, 0.5, 1.0]),
        (0.0, 4096.0, [0.0, 1000.0, 2000.0, 3000.0, 4000.0]),
        (3.0, 3.0, [3.0]),
        (1e300, 1.7e308, [5e307, 1e308, 1.5e308]),
        (5e-324, 1e-323, [5e-324, 1e-323]),
    ],
)
def test_ticks_are_round_numbers_between_the_ends(low, high, expected):
    assert even_ticks(low, high, most=4).tolist() == pytest.approx(expected)


def test_ticks_of_a_logarithmic_scale_are_powers_of_ten_or_its_ends():
    assert even_ticks(0.5, 2e3, log=True, most=4).tolist() == [1.0, 10.0, 100.0, 1000.0]
    assert len(even_ticks(1e-30, 1e30, log=True, most=4)) <= 6
    assert even_ticks(2.0, 8.0, log=True).tolist() == [2.0, 8.0]


@pytest.mark.parametrize(
    ("value", "text"), [(4096.0, "4,096"), (999.4, "999"), (999.6, "1,000"), (999_999.4, "999,999"), (1e6, "1e+06"),
                        (-12345.6, "-12,346"), (float("nan"), "nan"), (float("inf"), "inf")],
)  # fmt: skip
def test_numbers_below_a_million_are_written_out(value, text):
    assert number_text(value) == text and len(text) <= 10
