"""Roll-ups and names: the same whether segments are sealed or not, and joined as coarsely as wanted."""

import math
import sqlite3
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tracker_adapters.artifacts import Histogram, RunInfo, Text
from tracker_adapters.store.layout import rank_folder, segments
from tracker_adapters.store.manifest import Manifest
from tracker_adapters.store.reading.record import NameInfo, RunRecord
from tracker_adapters.store.segments import schema
from tracker_adapters.store.segments.segment import SegmentWriter

points = st.lists(
    st.tuples(
        st.sampled_from("ab"),
        st.integers(0, 600) | st.integers(0, 70_000),
        st.sampled_from([1.5, -2.0, math.nan, math.inf]),
    ),
    min_size=1,
    max_size=60,
)


def record_of(run_folder, commits, *, segment_bytes):
    folder = rank_folder(run_folder, 0)
    folder.mkdir(parents=True)
    writer = SegmentWriter(folder, lambda _: "", segment_bytes=segment_bytes)
    for items in commits:
        writer.commit(items)  # type: ignore[arg-type]
    writer.close()
    return RunRecord(run_folder)


@settings(max_examples=15, deadline=None)
@given(points, st.booleans(), st.integers(1, 30))
def test_the_last_value_is_that_of_the_highest_step(tmp_path_factory, picks, sealed, at_once):
    """However many are rolled up at a time, and whether those that came last are rolled up yet or not."""
    run_folder = tmp_path_factory.mktemp("run")
    Manifest(RunInfo(id="id", name="run")).save(run_folder)
    commits = [[(name, step, 0, value) for name, step, value in picks[at : at + 7]] for at in range(0, len(picks), 7)]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(schema, "ROLLUP_ROWS", at_once)
        record = record_of(run_folder, commits, segment_bytes=1 if sealed else 10**9)
    for info in record.names():
        mine = [(step, place, value) for place, (name, step, value) in enumerate(picks) if name == info.name]
        step, _, value = max(mine)
        assert (info.count, info.last_step) == (len(mine), step)
        in_first = [one for one in mine if one[0] == step]
        if sealed and len(in_first) > 1:
            continue  # which of two segments says it is not promised
        assert str(info.last_value) == str(value)
    many = record.many_scalar_ranges(["a", "b", "c"])
    assert many.keys() == {name for name, _, _ in picks}
    for name, together in many.items():
        alone = record.scalar_ranges(name)
        assert together.span == alone.span
        for column in ("first_steps", "counts", "non_finite", "min", "max", "last_steps"):
            assert np.array_equal(getattr(together, column), getattr(alone, column), equal_nan=True)
    for name in {name for name, _, _ in picks}:
        expected = Counter(step >> 8 for other, step, _ in picks if other == name)
        ranges = record.scalar_ranges(name)
        assert dict(zip((ranges.first_steps >> 8).tolist(), ranges.counts.tolist(), strict=True)) == expected
    record.close()


def test_a_sealed_segment_knows_the_last_value_of_steps_in_several_ranges(run_folder):
    commits: list[list[object]] = [
        [("loss", step, 0, float(step)) for step in range(0, 1000, 10)],
        [("end", 0, 0, 0.0)],
    ]
    record = record_of(run_folder, commits, segment_bytes=1)
    assert record.names()[1] == NameInfo("loss", "scalar", 100, 990, 990.0)


def test_histograms_and_texts_are_counted_before_and_after_the_seal(run_folder):
    histogram = Histogram.from_values("grad", [1.0], step=5)
    commits: list[list[object]] = [[histogram, Text(name="note", text="x", step=3)], [histogram]]
    record = record_of(run_folder, commits, segment_bytes=1)
    assert len(segments(rank_folder(run_folder, 0))) == 3
    assert record.names() == [NameInfo("grad", "histogram", 2, 5), NameInfo("note", "text", 1, 3)]


@pytest.mark.parametrize("segment_bytes", [100_000, 10**9])
def test_ranges_are_joined_until_few_enough_are_left(run_folder, segment_bytes):
    steps = 60_000
    values = np.sin(np.arange(steps) / 777) * np.arange(steps)
    commits: list[list[object]] = [
        [("loss", step, 0, float(values[step])) for step in range(start, start + 2000)]
        for start in range(0, steps, 2000)
    ]
    record = record_of(run_folder, commits, segment_bytes=segment_bytes)
    fine = record.scalar_ranges("loss")
    assert (fine.span, len(fine.counts)) == (256, -(-steps // 256))
    for wanted in (1000, 200, 50, 3, 1):
        found = record.scalar_ranges("loss", max_ranges=wanted)
        assert len(found.counts) <= wanted
        assert (found.first_steps % found.span == 0).all()
        assert found.counts.sum() == steps
        for place, first in enumerate(found.first_steps.tolist()):
            inside = values[first : first + found.span]
            assert (found.counts[place], found.min[place], found.max[place]) == (
                inside.size,
                inside.min(),
                inside.max(),
            )


def test_a_resumed_segment_goes_on_where_it_was_rolled_up(run_folder, monkeypatch):
    monkeypatch.setattr(schema, "ROLLUP_ROWS", 10)
    folder = rank_folder(run_folder, 0)
    folder.mkdir(parents=True)
    for attempt in range(3):
        writer = SegmentWriter(folder, lambda _: "")
        for step in range(15):
            writer.commit([("loss", 15 * attempt + step, 0, 1.0)])
        writer.close()
    with RunRecord(run_folder) as record:
        assert record.names() == [NameInfo("loss", "scalar", 45, 44, 1.0)]
        assert record.scalar_ranges("loss").counts.tolist() == [45]
    (path,) = segments(folder)
    stored = sqlite3.connect(path).execute("SELECT sum(count) FROM rollup").fetchone()
    assert stored == (40,)
