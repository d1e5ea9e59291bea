"""The histogram against an exact reference: counts, moments and merging."""

import math
import struct
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
import torch
from histogram_values import LISTS, finite, of
from hypothesis import given
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms import histogram as histogram_module

COUNTS = ("nan", "pos_inf", "neg_inf", "zero", "pos_overflow", "neg_overflow", "pos_underflow", "neg_underflow")


def counts_of(histogram):
    bins = zip(histogram.bins.tolist(), histogram.counts.tolist(), strict=True)
    return {**dict(bins), **{key: getattr(histogram, key) for key in COUNTS if getattr(histogram, key)}}


def reference(values):
    """Counts each value on its own, by packing it into four bytes."""
    return dict(Counter(map(place, values)))


def place(value):
    if math.isnan(value):
        return "nan"
    sign = "neg" if math.copysign(1, value) < 0 else "pos"
    if math.isinf(value):
        return f"{sign}_inf"
    if value == 0:
        return "zero"
    try:
        (bits,) = struct.unpack("<I", struct.pack("<f", value))
    except OverflowError:
        return f"{sign}_overflow"
    return f"{sign}_underflow" if bits & 0x7FFFFFFF == 0 else bits >> 20


# Counts.


@given(LISTS)
def test_every_element_is_counted_where_it_belongs(values):
    histogram = of(values)
    assert counts_of(histogram) == reference(values)
    assert histogram.count == len(values)
    assert histogram.finite_count == len(finite(values))
    if kept := finite(values):
        assert (histogram.min, histogram.max) == (min(kept), max(kept))


def test_the_bins_are_eighths_of_powers_of_two():
    histogram = of([1.0, 1.1249, 1.125, 2.0, -2.0])
    assert dict(zip(histogram.bins.tolist(), histogram.counts.tolist(), strict=True)) == {
        127 * 8: 2,
        127 * 8 + 1: 1,
        128 * 8: 1,
        2048 + 128 * 8: 1,
    }


@pytest.mark.parametrize(
    "values",
    [
        np.arange(-5, 6, dtype=np.int8),
        np.array([True, False, True]),
        np.array([[1, 2], [3, 4]], dtype=np.uint64),
        np.linspace(-1, 1, 7, dtype=np.float16),
        torch.linspace(-1, 1, 7, dtype=torch.bfloat16),
        torch.linspace(-1, 1, 7).to(torch.float8_e4m3fn),
        torch.ones(3, requires_grad=True),
        [[0.5], [1.5]],
        3.0,
    ],
    ids=str,
)
def test_any_real_dtype_and_shape_counts_by_value(values):
    as_floats = values.detach().to(torch.float64).numpy() if isinstance(values, torch.Tensor) else np.array(values)
    flat = as_floats.astype(np.float64).reshape(-1).tolist()
    assert counts_of(of(values)) == reference(flat)


@pytest.mark.parametrize("values", [[], [math.nan] * 3, [math.inf, -math.inf]])
def test_without_finite_elements_there_are_no_extremes(values):
    histogram = of(values)
    assert histogram.bins.size == histogram.finite_count == 0
    assert all(math.isnan(value) for value in (histogram.min, histogram.max, histogram.mean, histogram.std))
    assert np.isnan(histogram.percentile([0, 50, 100])).all()
    assert [part.size for part in histogram.edges()] == [0, 0]


@pytest.mark.filterwarnings("error")
def test_long_doubles_beyond_float64_count_as_infinite():
    with np.errstate(over="ignore"):  # where long doubles are no longer than doubles
        values = np.array([1, -1], dtype=np.longdouble) * np.exp2(np.longdouble(2000))
    assert counts_of(of(values)) == {"pos_inf": 1, "neg_inf": 1}


# Moments.


def exact_moments(values):
    exact = [Fraction(value) for value in values]
    mean = sum(exact, Fraction()) / len(exact)
    return mean, sum(((value - mean) ** 2 for value in exact), Fraction())


def assert_moments(histogram, values):
    """Mean within 1e-12 of the largest value; m2 within 1e-9 of itself and what that error of the mean costs."""
    mean, m2 = (float(value) for value in exact_moments(values))
    largest = max(map(abs, values))
    assert histogram.mean == pytest.approx(mean, rel=0, abs=1e-12 * largest + 1e-300)
    slack = 1e-12 * largest * math.sqrt(m2 * len(values)) + len(values) * (1e-12 * largest) ** 2 + 1e-300
    assert histogram.m2 == pytest.approx(m2, rel=1e-9, abs=slack)


@given(st.lists(st.floats(-1e100, 1e100), min_size=1, max_size=40))
def test_mean_and_m2_are_those_of_exact_arithmetic(values):
    assert_moments(of(values), values)


@pytest.mark.parametrize("dtype", [np.float64, np.float32])
def test_a_small_spread_far_from_zero_survives_any_split(dtype):
    """Mean 1e6 and standard deviation 1e-3: a sum of squares would lose everything."""
    values = (1e6 + np.random.default_rng(0).normal(scale=1e-3, size=30_000)).astype(dtype)
    exact = values.astype(np.float64)
    whole = of(values)
    parts = [of(part) for part in np.array_split(values, [1, 2, 7, 10_000, 10_001])]
    merged = parts[0]
    for part in parts[1:]:
        merged = merged.merge(part)
    for histogram in (whole, merged):
        assert histogram.mean == pytest.approx(1e6 + (exact - 1e6).mean(), rel=1e-14)
        assert histogram.std == pytest.approx((exact - 1e6).std(), rel=1e-6)


@given(st.lists(st.sampled_from([1.7e308, -1.7e308, 1.0]), min_size=2, max_size=6), st.data())
def test_the_mean_of_values_at_the_ends_of_float64_stays_finite(values, data):
    mean, _ = exact_moments(values)
    cut = data.draw(st.integers(1, len(values) - 1))
    for histogram in (of(values), of(values[:cut]).merge(of(values[cut:]))):
        assert histogram.mean == pytest.approx(float(mean), rel=1e-9, abs=1e297)
        assert histogram.m2 >= 0


# Merging.


@given(st.lists(LISTS, min_size=1, max_size=6), st.randoms())
def test_merging_in_any_order_gives_the_counts_of_the_whole(parts, random):
    whole = [value for part in parts for value in part]
    heap = [of(part) for part in parts]
    while len(heap) > 1:
        random.shuffle(heap)
        heap.append(heap.pop().merge(heap.pop()))
    merged, direct = heap[0], of(whole)
    assert counts_of(merged) == counts_of(direct)
    assert merged.count == direct.count
    np.testing.assert_equal((merged.min, merged.max), (direct.min, direct.max))
    kept = finite(whole)
    if kept and max(map(abs, kept)) < 1e100:
        assert_moments(merged, kept)


def test_an_array_of_several_chunks_is_one_histogram(monkeypatch):
    values = np.random.default_rng(1).normal(size=1000)
    whole = of(values)
    monkeypatch.setattr(histogram_module, "_CHUNK", 64)
    chunked = of(values)
    assert counts_of(chunked) == counts_of(whole)
    assert (chunked.mean, chunked.m2) == pytest.approx((whole.mean, whole.m2), rel=1e-12)


def test_a_merged_histogram_stands_at_the_later_step_and_time():
    early = Histogram.from_values("h", [1.0], step=3, time_ns=30)
    late = Histogram.from_values("h", [2.0], step=5, time_ns=20)
    assert (early.merge(late).step, late.merge(early).time_ns) == (5, 30)


def test_histograms_of_different_things_do_not_merge():
    with pytest.raises(ArtifactError, match="histogram 'a': cannot merge with 'b'; expected the same name"):
        of([1.0], "a").merge(of([1.0], "b"))
