"""What can be asked of a histogram: percentiles and edges; and how it is kept."""

import math
from typing import Any

import numpy as np
import pytest
from histogram_values import FLOAT32_MAX, LISTS, finite, of
from hypothesis import example, given
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.columns import AT_ONCE, HistogramColumns

SMALLEST_NORMAL = 2.0**-126


# Percentiles.

NORMAL = st.floats(SMALLEST_NORMAL, FLOAT32_MAX, width=32)


@given(st.lists(st.one_of(NORMAL, NORMAL.map(lambda value: -value), st.just(0.0)), min_size=1, max_size=60), st.data())
def test_percentiles_are_within_a_sixteenth_of_the_element(values, data):
    q = data.draw(st.lists(st.floats(0, 100), min_size=1, max_size=5))
    found = of(values).percentile(q)
    wanted = np.percentile(np.array(values), q, method="lower")
    wanted = np.where(np.array(q) == 100, max(values), wanted)
    assert (np.abs(found - wanted) <= 0.0625 * np.abs(wanted) + 2.0**-129).all()
    assert (found >= min(values)).all()
    assert (found <= max(values)).all()


@pytest.mark.parametrize("q", [-1, 101, math.nan, [50, 200]])
def test_percentiles_beyond_0_to_100_are_refused(q):
    with pytest.raises(ArtifactError, match="beyond 0 to 100"):
        of([1.0]).percentile(q)


@pytest.mark.parametrize("q", [99.9999999999999, 100])
def test_percentiles_of_more_elements_than_a_float64_counts_one_by_one(q):
    histogram = Histogram(name="h", step=0, time_ns=1, bins=[1016], counts=[2**60], count=2**60, min=1.0, max=1.1)  # type: ignore[arg-type]
    np.testing.assert_allclose(histogram.percentile(q), 1.05, rtol=0.0625)
    [(_, _, found)] = HistogramColumns.of([histogram]).shapes_and_percentiles(1, [99.9999999999999])
    assert found.tolist() == [1.05]


# Edges.


@given(LISTS, st.one_of(st.none(), st.integers(1, 50)))
@example([0.0, -0.0], None)
@example([5e-324], 1)
@example([-1.7976931348623157e308], None)
@example([2.0**128 * (1 - 2**-26), 1e38], None)
@example([1.7e308, -1.7e308, 0.0], 2)
def test_edges_ascend_and_their_counts_are_all_finite_elements(values, max_bins):
    histogram = of(values)
    edges, counts = histogram.edges(max_bins)
    kept = finite(values)
    assert counts.sum() == len(kept)
    if not kept:
        return
    assert edges.size == counts.size + 1
    assert max_bins is None or counts.size <= max_bins
    assert np.isfinite(edges).all()
    assert (np.diff(edges) > 0).all()
    assert edges[0] <= min(kept)
    assert edges[-1] >= max(kept)
    np.testing.assert_allclose([edges[0], edges[-1]], [min(kept), max(kept)], rtol=1e-7, atol=1e-45)


@given(st.lists(st.floats(2.0**-128, FLOAT32_MAX, width=32), min_size=1, max_size=40), st.sampled_from([1, -1]))
def test_edges_enclose_what_they_count(values, sign):
    edges, counts = of(np.array(values) * sign).edges()
    if sign < 0:  # bins of negative values are closed on the right
        edges, counts = -edges[::-1], counts[::-1]
    assert np.histogram(values, edges)[0].tolist() == counts.tolist()


def test_neighbours_are_merged_evenly():
    """Each of the merged bins stands for as many of the bins as another one, or one more."""
    histogram = of(np.exp2(np.arange(100) / 8))
    whole, _ = histogram.edges()
    edges, counts = histogram.edges(30)
    held = np.diff(np.searchsorted(whole, edges))
    assert (counts.size, set(held.tolist())) == (30, {(whole.size - 1) // 30, (whole.size - 1) // 30 + 1})


def test_fewer_than_one_bin_is_refused():
    with pytest.raises(ArtifactError, match="max_bins is 0; expected at least 1"):
        of([1.0, 2.0]).edges(0)


# The object.


def test_the_histogram_keeps_nothing_of_the_callers_array():
    values = np.array([1.0, 2.0])
    bins, counts = np.array([1016]), np.array([2])
    made = of(values)
    built = Histogram(name="h", step=0, time_ns=1, bins=bins, counts=counts, count=2)  # type: ignore[arg-type]
    before = made.counts.tolist()
    values[:], bins[:], counts[:] = 9.0, 7, 7
    assert made.counts.tolist() == before
    assert (built.bins.tolist(), built.counts.tolist()) == ([1016], [2])


@pytest.mark.parametrize("field", ["bins", "counts"])
def test_its_arrays_are_read_only(field):
    with pytest.raises(ValueError, match="read-only"):
        getattr(of([1.0]), field)[0] = 5


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"bins": [1, 2]}, r"bins have shape \(2,\) and counts \(1,\)"),
        ({"bins": [4096]}, "below 4096"),
        ({"bins": [3, 3], "counts": [1, 1], "count": 2}, "ascending, distinct"),
        ({"counts": [0], "count": 0}, "at least 1, got 0"),
        ({"count": 5}, "hold 1 elements; expected count minus non-finite ones, 5"),
    ],
)
def test_parts_that_contradict_each_other_are_refused(change, message):
    parts: dict[str, Any] = {"bins": [1016], "counts": [1], "count": 1} | change
    with pytest.raises(ArtifactError, match=message):
        Histogram(name="h", step=0, **parts)


def test_equality_compares_values_and_takes_nan_as_equal():
    assert of([math.nan, 1.0]) == of([math.nan, 1.0])
    assert of([]) == of([])
    assert of([1.0]) != of([1.1])
    assert of([1.0]) != of([1.0], step=1)
    assert of([1.0]) != "h"


def test_time_zero_is_a_time():
    assert Histogram.from_values("h", [1.0], step=0, time_ns=0).time_ns == 0


@given(st.lists(LISTS, max_size=5))
def test_intervals_of_many_are_the_edges_of_each(arrays):
    histograms = [of(values) for values in arrays]
    ends, rights, counts = HistogramColumns.of(histograms).intervals()
    starts = [0, *ends.tolist()]
    for row, histogram in enumerate(histograms):
        edges, sizes = histogram.edges()
        assert rights[starts[row] : starts[row + 1]].tolist() == edges[1:].tolist()
        assert counts[starts[row] : starts[row + 1]].tolist() == sizes.tolist()


@given(st.lists(LISTS, max_size=5), st.sampled_from([None, 1, 3, 100]))
def test_many_have_the_shapes_and_percentiles_of_each(arrays, max_bins):
    histograms = [of(values) for values in arrays]
    columns = HistogramColumns.of(histograms)
    expected = [histogram.edges(max_bins) for histogram in histograms]
    found = list(columns.shapes(max_bins))
    assert [(edges.tolist(), counts.tolist()) for edges, counts in found] == [
        (edges.tolist(), counts.tolist()) for edges, counts in expected
    ]
    both = list(columns.shapes_and_percentiles(max_bins or 10**6, [1, 50, 99]))
    assert [(edges.tolist(), counts.tolist()) for edges, counts, _ in both] == [
        (edges.tolist(), counts.tolist()) for edges, counts in expected
    ]
    percentiles = [histogram.percentile([1, 50, 99]) for histogram in histograms]
    np.testing.assert_array_equal(np.array([row for *_, row in both]), np.array(percentiles))


def test_more_than_are_worked_on_at_once_come_in_their_order():
    rng = np.random.default_rng(0)
    sizes = [0 if row % 7 == 3 else row + 1 for row in range(2 * AT_ONCE + 1)]
    histograms = [of(rng.normal(size=size)) for size in sizes]
    columns = HistogramColumns.of(histograms)
    for (edges, counts), histogram in zip(columns.shapes(9), histograms, strict=True):
        wanted_edges, wanted_counts = histogram.edges(9)
        assert (edges.tolist(), counts.tolist()) == (wanted_edges.tolist(), wanted_counts.tolist())
    percentiles = np.array([histogram.percentile([1, 50]) for histogram in histograms])
    found = np.array([row for *_, row in columns.shapes_and_percentiles(1, [1, 50])])
    np.testing.assert_array_equal(found, percentiles)
