"""Thinning rows: what stays of scalars and histograms, however the rows are cut and how often it is done."""

import math
from functools import reduce

import numpy as np
import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.store.segments.histogram_codec import decode, encode
from tracker_adapters.store.segments.thin_rows import EveryNth, HistogramThinner, ScalarThinner

values = st.one_of(st.floats(-10, 10), st.sampled_from([math.nan, math.inf, -math.inf]))
series_of = st.lists(st.tuples(st.integers(1, 3), values), max_size=150)


def scalar_rows(picks):
    return [
        (seq, series, 1, 10 * seq, 1000 + seq, None if math.isnan(value) else value)
        for seq, (series, value) in enumerate(picks, 1)
    ]


def thinned(rows, thinner, at_once):
    found = []
    for start in range(0, len(rows), at_once):
        found += thinner.push(rows[start : start + at_once])
    return sorted([*found, *thinner.finish()])


def of_series(rows, series):
    return [(*row[:5], math.nan if row[5] is None else row[5]) for row in rows if row[1] == series]


@settings(max_examples=examples(80), deadline=None)
@given(series_of, st.integers(1, 3), st.integers(1, 40))
def test_the_ends_the_extremes_and_each_kind_of_non_finite_value_stay(picks, halvings, at_once):
    rows = scalar_rows(picks)
    left = thinned(rows, ScalarThinner(halvings), at_once)
    left = thinned(left, ScalarThinner(1), at_once)
    assert {row[:5] for row in left} <= {row[:5] for row in rows}
    for series in {row[1] for row in rows}:
        before, after = of_series(rows, series), of_series(left, series)
        assert (before[0][:5], before[-1][:5]) == (after[0][:5], after[-1][:5])
        finite_before = [row[5] for row in before if math.isfinite(row[5])]
        finite_after = [row[5] for row in after if math.isfinite(row[5])]
        assert (min(finite_before, default=0), max(finite_before, default=0)) == (
            min(finite_after, default=0),
            max(finite_after, default=0),
        )
        assert {str(row[5]) for row in before if not math.isfinite(row[5])} == {
            str(row[5]) for row in after if not math.isfinite(row[5])
        }


@pytest.mark.parametrize("every", [1, 5, 10, 64])
def test_ranks_keep_steps_in_common_wherever_their_segments_begin(every):
    kept = []
    generator = np.random.default_rng(0)
    for begin in range(8):
        rows = [(1 + place, 1, 1, every * (begin + place), 0, generator.normal()) for place in range(1024)]
        for _ in range(3):
            before, rows = rows, thinned(rows, ScalarThinner(1), 200)
            assert len(rows) < 0.66 * len(before)
        kept.append({row[3] for row in rows})
    common = set.intersection(*kept)
    assert common >= {every * place for place in range(64, 1024, 64)}


@settings(max_examples=examples(40), deadline=None)
@given(series_of, st.integers(1, 40))
def test_how_the_rows_are_cut_does_not_matter(picks, at_once):
    rows = scalar_rows(picks)
    assert str(thinned(rows, ScalarThinner(1), at_once)) == str(thinned(rows, ScalarThinner(1), 1000))


@pytest.mark.parametrize(("halvings", "left"), [(0, 4096), (1, 2048), (3, 512)])
def test_a_long_series_is_halved_as_often_as_wanted(halvings, left):
    draw = np.random.default_rng(0).normal(size=4096)
    rows = scalar_rows([(1, value) for value in draw.tolist()])
    found = thinned(rows, ScalarThinner(halvings), 1000)
    assert 0.75 * left <= len(found) <= left


def test_of_a_series_that_stays_nan_the_ends_of_each_bucket_stay():
    found = thinned(scalar_rows([(1, math.nan)] * 16), ScalarThinner(1), 100)
    assert [row[0] for row in found] == [1, 8, 9, 16]


def test_four_points_or_fewer_stay_as_they_are():
    rows = scalar_rows([(series, 1.0) for series in (1, 2, 3) for _ in range(series + 1)])
    assert [row[:5] for row in thinned(rows, ScalarThinner(5), 100)] == [row[:5] for row in rows]


@settings(max_examples=examples(40), deadline=None)
@given(st.lists(st.integers(1, 3), min_size=1, max_size=40), st.integers(1, 3), st.integers(1, 20))
def test_histograms_are_merged_with_their_neighbours(picks, halvings, at_once):
    made = [Histogram.from_values("h", np.arange(step) / 7, step=step, time_ns=step) for step in range(len(picks))]
    blobs = encode(HistogramColumns.of(made))
    rows = [
        (seq, series, 1, seq - 1, seq - 1, blob) for seq, (series, blob) in enumerate(zip(picks, blobs, strict=True), 1)
    ]
    left = thinned(rows, HistogramThinner(halvings), at_once)
    size = 2**halvings
    for series in set(picks):
        mine = [made[row[0] - 1] for row in rows if row[1] == series]
        groups = [mine[start : start + size] for start in range(0, len(mine), size)]
        found = [row for row in left if row[1] == series]
        columns = decode([row[5] for row in found])
        read = [columns.histogram(place, "h", step=row[3], time_ns=row[4]) for place, row in enumerate(found)]
        assert read == [reduce(Histogram.merge, group) for group in groups]


def test_histograms_of_two_attempts_are_not_merged():
    (blob,) = encode(HistogramColumns.of([Histogram.from_values("h", [1.0], step=0)]))
    rows = [(1, 1, 1, 0, 0, blob), (2, 1, 2, 0, 0, blob), (3, 1, 2, 1, 0, blob)]
    assert [row[:4] for row in thinned(rows, HistogramThinner(1), 10)] == [(1, 1, 1, 0), (3, 1, 2, 1)]


def test_of_other_artifacts_every_second_or_fourth_stays():
    for halvings, expected in ((0, [0, 1, 2, 3, 4, 5]), (1, [0, 2, 4]), (2, [0, 4])):
        every = EveryNth(halvings)
        assert [place for place in range(6) if every.keeps("a")] == expected
        assert every.keeps("b")
