"""Histograms of several steps on one grid hold each element once, in a bin between whose edges it lies."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays
from tracker_adapters.artifacts import Histogram
from tracker_adapters.histograms.columns import HistogramColumns

from stepscope.viewer.answers.histogram_grid import on_one_grid


def columns_of(*values):
    return HistogramColumns.of([Histogram.from_values("h", one, step=0) for one in values])


@given(
    st.lists(
        arrays(np.float64, st.integers(0, 30), elements=st.floats(width=32, allow_subnormal=False)),
        min_size=1,
        max_size=3,
    ),
    st.sampled_from([16, 64, 4096]),
)
def test_counts_are_exact_and_edges_enclose_the_elements(values, most):
    grid = on_one_grid(columns_of(*values), most)
    assert grid.counts.shape == (len(values), len(grid.edges) - 1 if len(grid.edges) else 0)
    assert grid.counts.shape[1] <= most
    assert (np.diff(grid.edges) >= 0).all()
    for row, one in enumerate(values):
        finite = one[np.isfinite(one)]
        assert grid.counts[row].sum() == finite.size
        if not finite.size or grid.zero_bin >= 0:
            continue
        assert np.array_equal(np.histogram(finite, grid.edges)[0], grid.counts[row])


def test_what_float32_cannot_hold_lies_in_the_outermost_bins_and_around_zero():
    grid = on_one_grid(columns_of([-1e300, -1.0, 1e-300, 0.0, 1.0, 1e300]))
    assert grid.counts[0, 0] == grid.counts[0, -1] == 1
    assert grid.counts[0, grid.zero_bin] == 2
    assert grid.edges[grid.zero_bin] == -1.0 and grid.edges[grid.zero_bin + 1] == 1.0


@pytest.mark.parametrize(
    ("values", "zero_bin", "edges"), [([0.0], 0, 2), ([], -1, 0), ([0.0, 2.0], 0, 3), ([-2.0, 0.0], 1, 3)]
)
def test_zeros_have_a_bin_of_their_own(values, zero_bin, edges):
    grid = on_one_grid(columns_of(values))
    assert (grid.zero_bin, len(grid.edges)) == (zero_bin, edges)
