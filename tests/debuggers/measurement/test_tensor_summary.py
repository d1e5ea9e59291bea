"""Summaries merge to that of all elements, and bound what a narrower format would lose."""

import math

import ml_dtypes
import numpy as np
import pytest
import torch
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.errors import ArtifactError

from debuggers.measurement.measure import summarize

FLOATS = st.one_of(st.sampled_from([0.0, -0.0, math.nan, math.inf, 65504.0, 65520.0, 2.0**-25]), st.floats(width=32))
FORMATS = {
    "fp16": np.float16,
    "bf16": ml_dtypes.bfloat16,
    "fp8-e4m3": ml_dtypes.float8_e4m3fn,
    "fp8-e5m2": ml_dtypes.float8_e5m2,
}
EXACT = (
    "count", "nan", "pos_inf", "neg_inf", "zero", "negative", "positive", "pos_overflow", "neg_overflow",
    "pos_underflow", "neg_underflow", "min", "max", "bins", "counts",
)  # fmt: skip


def summary_of(values, dtype=torch.float32):
    return summarize([torch.as_tensor(values, dtype=dtype)])[0]


def assert_same(expected, ours):
    for key in EXACT:
        np.testing.assert_array_equal(getattr(expected, key), getattr(ours, key), err_msg=key)


@settings(max_examples=examples(150), deadline=None)
@given(parts=st.lists(st.lists(FLOATS, max_size=12), min_size=1, max_size=5), order=st.randoms(use_true_random=False))
def test_any_split_merges_to_the_whole_in_any_order(parts, order):
    whole = summary_of([value for part in parts for value in part])
    order.shuffle(parts)
    merged = summary_of(parts[0])
    for part in parts[1:]:
        merged = merged.merge(summary_of(part))
    assert_same(whole, merged)
    largest = max(abs(whole.min), abs(whole.max))
    np.testing.assert_allclose(merged.mean, whole.mean, rtol=0, atol=1e-12 * largest if whole.finite_count else 0)
    np.testing.assert_allclose(merged.m2, whole.m2, rtol=1e-9, atol=1e-24 * largest**2 if whole.finite_count else 0)
    assert merged.l1 == pytest.approx(whole.l1, rel=1e-12)


def test_a_large_offset_survives_merging():
    values = 1e6 + 1e-3 * torch.randn(10_000, dtype=torch.float64)
    merged = summary_of(values[:10], torch.float64)
    for part in values[10:].split(333):
        merged = merged.merge(summary_of(part, torch.float64))
    assert merged.std == pytest.approx(float(values.std(correction=0)), rel=1e-6)


def test_means_at_the_two_ends_of_float64_merge():
    merged = summary_of([1.7e308], torch.float64).merge(summary_of([-1.7e308], torch.float64))
    assert (merged.mean, merged.m2) == (0, math.inf)


@pytest.mark.parametrize("number_format", FORMATS)
@settings(max_examples=examples(150), deadline=None)
@given(values=st.lists(FLOATS, max_size=30))
def test_the_bounds_hold_what_a_cast_flushes_and_saturates(number_format, values):
    array = np.array(values, dtype=np.float32)
    finite = array[np.isfinite(array)]
    summary = summary_of(array)
    if not finite.size:
        assert np.isnan([*summary.flush_fraction(number_format), *summary.saturate_fraction(number_format)]).all()
        return
    with np.errstate(over="ignore"):
        cast = finite.astype(FORMATS[number_format]).astype(np.float32)
    low, high = summary.flush_fraction(number_format)
    assert low <= np.mean((cast == 0) & (finite != 0)) <= high
    low, high = summary.saturate_fraction(number_format)
    assert low <= np.mean(~np.isfinite(cast)) <= high


def test_a_bin_that_straddles_the_limit_is_in_the_upper_bound_only():
    assert summary_of([1.0, 65504.0]).saturate_fraction("fp16") == (0, 0.5)
    assert summary_of([1.0, 65520.0]).saturate_fraction("fp16") == (0, 0.5)
    assert summary_of([1.0, 65536.0]).saturate_fraction("fp16") == (0.5, 0.5)
    assert summary_of([1.0, 2.0**-26]).flush_fraction("fp16") == (0.5, 0.5)
    assert summary_of([0.0, 2.0**-24]).flush_fraction("fp16") == (0, 0)


def test_values_beyond_float32_flush_and_saturate_in_every_format():
    summary = summary_of([1e300, -1e300, 1e-300, 1.0], torch.float64)
    for number_format in FORMATS:
        assert summary.saturate_fraction(number_format) == (0.5, 0.5)
        assert summary.flush_fraction(number_format) == (0.25, 0.25)
    assert summary.near_zero_fraction(1e-30) == (0.25, 0.25)


@settings(max_examples=examples(150), deadline=None)
@given(values=st.lists(FLOATS, min_size=1, max_size=30), threshold=st.floats(0, 2.0**127))
def test_near_zero_bounds_hold_the_share(values, threshold):
    array = np.array(values, dtype=np.float32)
    # float64: NumPy would round the threshold to float32 before it compares.
    finite = array[np.isfinite(array)].astype(np.float64)
    low, high = summary_of(array).near_zero_fraction(threshold)
    if finite.size:
        assert low <= np.mean(np.abs(finite) <= threshold) <= high
    else:
        assert math.isnan(low)


@pytest.mark.parametrize("threshold", [-1.0, math.nan, math.inf])
def test_a_wrong_threshold_is_named(threshold):
    with pytest.raises(ArtifactError, match=f"threshold is {threshold}; expected"):
        summary_of([1.0]).near_zero_fraction(threshold)


def test_an_unknown_format_is_named():
    with pytest.raises(ArtifactError, match=r"'fp4' is unknown; expected one of fp16, bf16, fp8-e4m3, fp8-e5m2"):
        summary_of([1.0]).flush_fraction("fp4")


def test_percentiles_are_those_of_the_histogram():
    values = torch.linspace(-3, 8, 10_001)
    expected = np.percentile(values.numpy(), [0, 10, 50, 99, 100], method="lower")
    np.testing.assert_allclose(summary_of(values).percentile([0, 10, 50, 99, 100]), expected, rtol=0.0625)
