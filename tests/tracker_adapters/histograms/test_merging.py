"""Columns merge to the same bits compiled and by sorting, and as their histograms do one by one."""

from functools import reduce

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracker_adapters.histograms import merging
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.histogram import Histogram
from tracker_adapters.native.extension import kernels, why_not

ARRAYS = st.lists(st.tuples(st.integers(-2, 2), st.lists(st.floats(), max_size=12)), max_size=12)
SETTINGS = settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@pytest.fixture(params=["compiled", pytest.param("sorted", marks=pytest.mark.slow)], autouse=True)
def way(request, monkeypatch):
    if request.param == "sorted":
        monkeypatch.setattr(merging, "kernels", lambda: None)
    elif kernels() is None:
        pytest.skip(why_not())


def assert_same(ours, expected):
    for key in ("tallies", "moments", "ends", "bins", "counts"):
        np.testing.assert_array_equal(getattr(ours, key), getattr(expected, key), err_msg=key)
        assert getattr(ours, key).dtype == getattr(expected, key).dtype, key


@SETTINGS
@given(grouped=ARRAYS)
def test_groups_merge_as_their_histograms_do(grouped):
    histograms = [Histogram.from_values("h", values, step=0, time_ns=0) for _, values in grouped]
    groups = np.array([group for group, _ in grouped], np.int64)
    expected = [
        reduce(Histogram.merge, (one for one, group in zip(histograms, groups, strict=True) if group == wanted))
        for wanted in sorted(set(groups.tolist()))
    ]
    assert_same(HistogramColumns.of(histograms).merged(groups), HistogramColumns.of(expected))


@SETTINGS
@given(grouped=ARRAYS, cut=st.integers(0, 12))
def test_merging_some_first_and_the_rest_later_gives_the_same_bits(grouped, cut):
    columns = HistogramColumns.of([Histogram.from_values("h", values, step=0, time_ns=0) for _, values in grouped])
    groups = np.array([group for group, _ in grouped], np.int64)
    cut = min(cut, len(grouped))
    first = columns.rows(0, cut).merged(groups[:cut])
    later = HistogramColumns.joined([first, columns.rows(cut, len(columns))])
    assert_same(later.merged(np.concatenate([np.unique(groups[:cut]), groups[cut:]])), columns.merged(groups))


def test_columns_that_cannot_be_written_are_merged():
    columns = HistogramColumns.of([Histogram.from_values("h", [1.0, 2.0], step=0, time_ns=0)] * 2)
    for key in ("ends", "bins", "counts"):
        getattr(columns, key).flags.writeable = False
    assert columns.merged(np.zeros(2, np.int64)).counts.tolist() == [2, 2]
