"""Histogram thinning: how many a sink shows, that merging loses nothing, and that a crash changes nothing."""

from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram, Scalar
from tracker_adapters.batch import Batch, Column, HistogramRows
from tracker_adapters.delivery.thinning import Thinning
from tracker_adapters.errors import RunError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.faults import fault_in

VALUES = [[1.0, -2.0, 0.0], [float("nan"), 3e-3], [float("inf")], [1e300, -1e-300, 5.0], [], [7.5] * 40]


def histogram(name, step, values=None):
    found = VALUES[step % len(VALUES)] if values is None else values
    return Histogram.from_values(name, np.array(found, np.float64), step=step, time_ns=1000 + step)


def as_columns(batch):
    """The batch as the store's reader makes it."""
    column = batch.histograms
    rows = HistogramRows.of(column.artifacts)
    return Batch(
        first_seq=batch.first_seq, last_seq=batch.last_seq, attempt=batch.attempt, scalars=batch.scalars,
        histograms=Column(column.seqs, rows),
    )  # fmt: skip


def batches(artifacts, cuts):
    bounds = sorted({0, *(cut for cut in cuts if cut < len(artifacts)), len(artifacts)})
    return [as_columns(Batch.of(artifacts[start:stop], first_seq=start + 1)) for start, stop in pairwise(bounds)]


def shown(thinned):
    return [
        pair for batch in thinned for pair in zip(batch.histograms.seqs, list(batch.histograms.artifacts), strict=True)
    ]


def test_up_to_the_limit_the_very_same_batch_passes():
    thinning = Thinning(10)
    for start in (0, 5):
        batch = Batch.of([histogram(name, step) for step in range(start, start + 5) for name in "ab"])
        assert thinning.apply(batch) is batch
    assert thinning.remaining() == []


@pytest.mark.parametrize("limit", [None, 0])
def test_without_a_limit_everything_passes(limit):
    batch = Batch.of([histogram("a", step) for step in range(3000)])
    assert Thinning(limit).apply(batch) is batch


def test_beyond_the_limit_two_then_four_then_eight_become_one():
    made = [histogram("a", step) for step in range(32)]
    found = shown([Thinning(4).apply(Batch.of(made))])
    assert [seq for seq, _ in found] == [1, 2, 3, 4, 6, 8, 12, 16, 24, 32]
    assert [one.step for _, one in found] == [seq - 1 for seq, _ in found]
    assert [one.time_ns for _, one in found] == [999 + seq for seq, _ in found]
    assert found[-1][1] == reduce(Histogram.merge, made[24:32])


def test_a_million_steps_show_as_many_histograms_as_promised():
    """n = limit * 2**k shows limit * (1 + k / 2)."""
    thinning, few, step = Thinning(100), 0, 0
    columns = HistogramColumns.of([histogram("a", 0)] * 6400)
    for _ in range(16):
        rows = HistogramRows(["a"] * 6400, np.arange(step, step + 6400), np.zeros(6400, np.int64), columns)
        batch = Batch(first_seq=step + 1, last_seq=step + 6400, histograms=Column(range(step + 1, step + 6401), rows))
        few += len(thinning.apply(batch).histograms)
        step += 6400
    assert step == 100 * 2**10
    assert few == 100 * (1 + 10 // 2)


@settings(max_examples=examples(60), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("abc"), st.integers(0, 5)), max_size=60),
    st.integers(1, 7),
    st.lists(st.integers(1, 60), max_size=8),
    st.lists(st.integers(1, 60), max_size=8),
)
def test_neither_the_cuts_nor_a_crash_change_what_is_shown(picks, limit, cuts, other_cuts):
    made = [histogram(name, step, VALUES[kind]) for step, (name, kind) in enumerate(picks)]
    whole = Thinning(limit)
    expected = shown([*(whole.apply(batch) for batch in batches(made, cuts)), *whole.remaining()])
    state, found = b"", []
    for batch in batches(made, other_cuts):
        thinning = Thinning.restore(limit, state)
        thinning.apply(batch)  # its write failed: the next one starts from the same state
        thinning = Thinning.restore(limit, state)
        found.append(thinning.apply(batch))
        state = thinning.state()
    assert shown([*found, *Thinning.restore(limit, state).remaining()]) == expected


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.sampled_from("ab"), st.integers(0, 5)), min_size=1, max_size=60), st.integers(1, 5))
def test_nothing_measured_is_lost(picks, limit):
    made = [histogram(name, step, VALUES[kind]) for step, (name, kind) in enumerate(picks)]
    thinning = Thinning(limit)
    found = shown([*(thinning.apply(batch) for batch in batches(made, [20, 40])), *thinning.remaining()])
    for name in {one.name for one in made}:
        before = reduce(Histogram.merge, [one for one in made if one.name == name])
        after = reduce(Histogram.merge, [one for _, one in found if one.name == name])
        for key in ("count", "nan", "pos_inf", "zero", "pos_overflow", "neg_underflow", "step", "time_ns"):
            assert getattr(before, key) == getattr(after, key)
        np.testing.assert_array_equal([before.min, before.max], [after.min, after.max])
        np.testing.assert_array_equal(before.bins, after.bins)
        np.testing.assert_array_equal(before.counts, after.counts)


@settings(max_examples=examples(60), deadline=None)
@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 5)), min_size=1, max_size=40))
def test_merging_many_at_once_is_merging_two_at_a_time(picks):
    made = [histogram("a", step, [1.5**step, *VALUES[kind]]) for step, (_, kind) in enumerate(picks)]
    merged = HistogramColumns.of(made).merged(np.array([group for group, _ in picks]))
    assert fault_in(merged) is None
    for row, group in enumerate(sorted({group for group, _ in picks})):
        mine = [one for one, (other, _) in zip(made, picks, strict=True) if other == group]
        one = reduce(Histogram.merge, mine)
        assert merged.histogram(row, "a", step=one.step, time_ns=one.time_ns) == one


def test_other_kinds_pass_while_histograms_wait():
    thinning = Thinning(1)
    thinning.apply(Batch.of([histogram("a", 0)]))
    batch = thinning.apply(Batch.of([Scalar(name="loss", step=1, value=2.0), histogram("a", 1)], first_seq=2))
    assert (len(batch.scalars), len(batch.histograms), batch.last_seq) == (1, 0, 3)
    (last,) = thinning.remaining()
    assert (last.first_seq, last.last_seq, len(last)) == (3, 3, 1)
    assert thinning.remaining() == []


def test_a_rewind_drops_what_waits_of_the_abandoned_steps_and_a_plain_resume_goes_on():
    thinning = Thinning(2)
    thinning.apply(Batch.of([histogram(name, step) for step in (4, 5, 6) for name in "ab"]))
    resumed = [histogram("a", 6), histogram("b", 7), histogram("a", 7)]
    found = shown([thinning.apply(Batch.of(resumed, first_seq=7, attempt=2))])
    assert found == [
        (8, histogram("b", 6).merge(histogram("b", 7))),
        (9, histogram("a", 6).merge(histogram("a", 7))),
    ]


def test_what_waits_at_the_end_is_of_the_attempt_that_recorded_it():
    thinning = Thinning(1)
    thinning.apply(Batch.of([histogram(name, step) for step in range(3, 7) for name in "ab"]))
    thinning.apply(Batch.of([histogram("a", 4), histogram("c", 4), histogram("c", 5)], first_seq=9, attempt=2))
    found = [
        (batch.attempt, batch.histograms.seqs[place], one.name, one.step)
        for batch in thinning.remaining()
        for place, one in enumerate(batch.histograms.artifacts)
    ]
    assert found == [(1, 8, "b", 6), (2, 9, "a", 4), (2, 11, "c", 5)]
    assert thinning.remaining() == []


def test_something_else_than_a_state_is_a_clear_error():
    with pytest.raises(RunError, match="expected what state"):
        Thinning.restore(10, b"\x01")
