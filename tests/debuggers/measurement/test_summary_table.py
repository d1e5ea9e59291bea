"""A table says of many tensors what their summaries say of each, and merges, scales and selects without loss."""

import math

import numpy as np
import pytest
import torch
from drawn_examples import examples
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tracker_adapters.histograms import merging
from tracker_adapters.histograms.faults import fault_in
from tracker_adapters.histograms.layout import MOMENTS, TALLIES
from tracker_adapters.native.extension import kernels, why_not

from debuggers.measurement.measure import SummaryTable, measure, summarize

FLOATS = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf, 1.0, -1.0, 1e-45, 3.4e38, 1e-300, -1e300]), st.floats()
)
TENSORS = st.lists(st.lists(FLOATS, max_size=12), min_size=1, max_size=6)
# The fixture below is the same for all examples.
SETTINGS = settings(
    max_examples=examples(80), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
COLUMNS = ("tallies", "ends", "bins", "counts")


@pytest.fixture(params=["compiled", pytest.param("sorted", marks=pytest.mark.slow)], autouse=True)
def way(request, monkeypatch):
    """Merging gives the same with and without compiled code."""
    if request.param == "sorted":
        monkeypatch.setattr(merging, "kernels", lambda: None)
    elif kernels() is None:
        pytest.skip(why_not())


def table_of(tensors, dtype=torch.float64):
    return measure([torch.tensor(values, dtype=dtype) for values in tensors]).resolve()


def assert_counts_equal(expected, ours):
    for key in COLUMNS:
        np.testing.assert_array_equal(getattr(expected.columns, key), getattr(ours.columns, key), err_msg=key)
        assert getattr(expected.columns, key).dtype == getattr(ours.columns, key).dtype, key
    np.testing.assert_array_equal(expected.negative, ours.negative)
    np.testing.assert_array_equal(expected.positive, ours.positive)


def assert_same(expected, ours):
    assert_counts_equal(expected, ours)
    np.testing.assert_array_equal(expected.columns.moments, ours.columns.moments)
    np.testing.assert_array_equal(expected.l1, ours.l1)
    np.testing.assert_array_equal(expected.local_shard, ours.local_shard)


@SETTINGS
@given(tensors=TENSORS)
def test_a_table_and_its_summaries_are_the_same(tensors):
    table = table_of(tensors)
    assert_same(table, SummaryTable.of(table))
    assert_same(table, SummaryTable.of(summarize([torch.tensor(values, dtype=torch.float64) for values in tensors])))


@SETTINGS
@given(tensors=TENSORS, data=st.data())
def test_any_split_merges_to_the_whole(tensors, data):
    cuts = [data.draw(st.integers(0, len(values))) for values in tensors]
    first = table_of([values[:cut] for values, cut in zip(tensors, cuts, strict=True)])
    second = table_of([values[cut:] for values, cut in zip(tensors, cuts, strict=True)])
    whole = table_of(tensors)
    for merged in (first.merge(second), second.merge(first)):
        assert_counts_equal(whole, merged)
        for name in ("min", "max"):
            np.testing.assert_array_equal(whole.moment(name), merged.moment(name))


@SETTINGS
@given(tensors=TENSORS, others=TENSORS)
def test_tables_merge_as_their_summaries_do(tensors, others):
    others = (others * len(tensors))[: len(tensors)]
    first, second = table_of(tensors), table_of(others)
    expected = SummaryTable.of(a.merge(b) for a, b in zip(first, second, strict=True))
    ours = first.merge(second)
    assert_counts_equal(expected, ours)
    np.testing.assert_allclose(ours.columns.moments, expected.columns.moments, rtol=1e-15, equal_nan=True)
    np.testing.assert_array_equal(expected.l1, ours.l1)


def test_tables_of_different_lengths_do_not_merge():
    with pytest.raises(ValueError, match="a table of 1 tensors was given to merge; expected 2"):
        table_of([[1.0], [2.0]]).merge(table_of([[1.0]]))


@SETTINGS
@given(tensors=TENSORS, data=st.data())
def test_rows_are_selected_in_any_order(tensors, data):
    rows = data.draw(st.lists(st.integers(0, len(tensors) - 1), max_size=8))
    table = table_of(tensors)
    assert_same(SummaryTable.of(table[row] for row in rows), table.select(rows))


@SETTINGS
@given(tensors=TENSORS, others=TENSORS)
def test_tables_are_put_end_to_end(tensors, others):
    first, second = table_of(tensors), table_of(others)
    assert_same(SummaryTable.of([*first, *second]), SummaryTable.concatenate([first, second]))
    assert len(SummaryTable.concatenate([])) == 0


@SETTINGS
@given(tensors=TENSORS, data=st.data())
def test_rows_of_one_key_are_merged(tensors, data):
    keys = [data.draw(st.integers(-2, 2)) for _ in tensors]
    together = [
        [value for key, values in zip(keys, tensors, strict=True) if key == wanted for value in values]
        for wanted in sorted(set(keys))
    ]
    assert_counts_equal(table_of(together), table_of(tensors).grouped(keys))


NORMAL = st.one_of(
    st.sampled_from([0.0, -0.0, math.nan, math.inf, -math.inf]),
    st.builds(math.ldexp, st.floats(1, 2, exclude_max=True, width=32), st.integers(-100, 100)),
    st.builds(math.ldexp, st.floats(-2, -1, exclude_min=True, width=32), st.integers(-100, 100)),
)


@SETTINGS
@given(tensors=st.lists(st.lists(NORMAL, max_size=12), min_size=1, max_size=5), exponent=st.integers(-24, 200))
def test_scaling_by_a_power_of_two_is_exact(tensors, exponent):
    """Above the range of float32 too: what overflows is counted."""
    expected = table_of([[math.ldexp(value, exponent) for value in values] for values in tensors])
    ours = table_of(tensors).scaled(exponent)
    assert_counts_equal(expected, ours)
    np.testing.assert_allclose(ours.columns.moments, expected.columns.moments, rtol=1e-12)
    np.testing.assert_allclose(ours.l1, expected.l1, rtol=1e-12)


@SETTINGS
@given(tensors=st.lists(st.lists(NORMAL, max_size=12), min_size=1, max_size=5))
def test_scaling_there_and_back_changes_nothing(tensors):
    table = table_of(tensors)
    assert_same(table, table.scaled(-16).scaled(16))


@pytest.mark.parametrize("exponent", range(-60, -20))
def test_scaling_below_float32_counts_underflow(exponent):
    values = torch.randn(20_000, dtype=torch.float64).float().double() * 2.0**-100
    expected = measure([values * 2.0**exponent]).resolve()
    ours = measure([values]).resolve().scaled(exponent)
    np.testing.assert_array_equal(expected.columns.tallies, ours.columns.tallies)
    # An element may round up to the next subnormal bin.
    first, second = (np.zeros(4096, np.int64) for _ in range(2))
    first[expected.columns.bins], second[ours.columns.bins] = expected.columns.counts, ours.columns.counts
    assert np.abs(np.cumsum(first) - np.cumsum(second)).max() <= 2


def test_scaling_subnormal_values_keeps_every_element_somewhere():
    values = torch.tensor([1e-45, -1e-40, 3e-39, 1.0])
    table = measure([values]).resolve().scaled(40)
    assert int(table.columns.counts.sum()) == 4
    assert fault_in(table.columns) is None
    np.testing.assert_array_equal(table.moment("max"), [2.0**40])


def test_each_column_is_that_of_the_summaries():
    table = measure([torch.randn(100), torch.zeros(3), torch.empty(0), torch.tensor([math.nan, -4.0])]).resolve()
    for name in TALLIES:
        np.testing.assert_array_equal([getattr(one, name) for one in table], table.tally(name))
    for name in MOMENTS:
        np.testing.assert_array_equal([getattr(one, name) for one in table], table.moment(name))
    np.testing.assert_array_equal([one.std for one in table], table.std)
    np.testing.assert_allclose(table.l2, [one.l2 for one in table], rtol=1e-15)
    np.testing.assert_array_equal([one.finite_count for one in table], table.finite_count)
    np.testing.assert_array_equal([0, 0, 0, 1], table.non_finite)
    np.testing.assert_array_equal([0, 1, math.nan, 0], table.zero_fraction)
    np.testing.assert_array_equal([0, math.nan, 4], table.largest_magnitude[1:])
    np.testing.assert_array_equal([0, math.nan, 4], table.mean_magnitude[1:])
    assert [len(table[:2]), table[-1].nan] == [2, 1]
