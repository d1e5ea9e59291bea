"""Norms and histograms of all ranks are those of the whole; what is a rank's own is spread."""

import math

import numpy as np
import pytest
from drawn_examples import examples
from hypothesis import given, settings
from hypothesis import strategies as st
from rank_stores import shard, whole, write
from tracker_adapters.errors import ArtifactError

import stepscope
from stepscope.ranks.sums import StepColumns

NAN = math.nan


@pytest.fixture
def path(tmp_path):
    return tmp_path / "run"


def merged(path, name):
    with stepscope.read_run(path) as record:
        return stepscope.MergedRanks(record).scalars(name)


def test_squares_of_shards_add_up_and_empty_shards_have_no_series(path):
    for rank, (elements, series) in enumerate([(4, [3.0, 1.0]), (2, [4.0, NAN]), (0, [])]):
        write(
            path,
            rank,
            placed=[shard(rank, 3, w=elements)],
            ranks=3,
            series={"gradient_norm/w": series} if series else {},
        )
    found = merged(path, "gradient_norm/w")
    assert found.rule == "norm"
    assert found.steps.tolist() == [0, 1]
    assert found.values[0] == 5.0
    assert math.isnan(found.values[1])
    assert (found.ranks.tolist(), found.non_finite.tolist()) == ([2, 2], [0, 1])


def test_copies_count_once_and_a_step_that_a_part_lacks_has_no_point(path):
    for rank in range(2):
        write(path, rank, placed=[whole(w=4)], series={"gradient_norm/w": [3.0, 2.0], "total_norm/gradients": [3.0]})
    assert merged(path, "gradient_norm/w").values.tolist() == [3.0, 2.0]
    assert merged(path, "total_norm/gradients").values.tolist() == [3.0]


def test_shards_with_copies_count_one_of_each(path):
    for rank in range(4):
        mesh = {"mesh_names": ("dp", "shard"), "mesh_shape": (2, 2), "place": (rank // 2, rank % 2)}
        one = type(whole())(placements=("Replicate()", "Shard(0)"), elements={"w": 2}, **mesh)
        write(path, rank, placed=[one], ranks=4, series={"gradient_norm/w": [3.0 + rank % 2]})
    assert merged(path, "gradient_norm/w").values.tolist() == [5.0]


def test_a_total_of_shards_and_copies_comes_from_the_tensors(path):
    for rank in range(2):
        norms = {"gradient_norm/a": [3.0 + rank], "gradient_norm/b": [12.0], "total_norm/gradients": [99.0]}
        write(path, rank, placed=[shard(rank, 2, a=2), whole(b=3)], series=norms)
    assert merged(path, "total_norm/gradients").values.tolist() == [13.0]


def test_ranks_with_other_parameters_add_to_the_total(path):
    for rank in range(2):
        write(path, rank, placed=[whole(**{f"stage{rank}": 2})], series={"total_norm/gradients": [3.0 + rank]})
    assert merged(path, "total_norm/gradients").values.tolist() == [5.0]


def test_a_part_without_a_store_is_an_error(path):
    write(path, 0, placed=[shard(0, 2, w=4)], series={"gradient_norm/w": [3.0]}, histograms={"gradients/w": [1.0]})
    with pytest.raises(ArtifactError, match="'w' lies in 2 parts, and not all of them have a store"):
        merged(path, "gradient_norm/w")
    with stepscope.read_run(path) as record, pytest.raises(ArtifactError, match="not every part of 'gradients/w'"):
        stepscope.MergedRanks(record).histogram("gradients/w", 0)


def test_what_no_rank_has_is_an_error(path):
    write(path, 0, placed=[whole(w=4)], series={"loss": [1.0]})
    with pytest.raises(ArtifactError, match="no rank has a scalar 'lost'"):
        merged(path, "lost")
    with (
        stepscope.read_run(path) as record,
        pytest.raises(ArtifactError, match="no rank has a histogram 'x' at step 3"),
    ):
        stepscope.MergedRanks(record).histogram("x", 3)


def test_losses_are_spread_with_nan_counted_apart_and_other_steps(path):
    write(path, 0, series={"loss": [1.0, NAN, 4.0]})
    write(path, 1, series={"loss": {0: 3.0, 1: NAN, 5: 7.0}})
    found = merged(path, "loss")
    assert found.steps.tolist() == [0, 1, 2, 5]
    assert found.values.tolist() == pytest.approx([2.0, NAN, 4.0, 7.0], nan_ok=True)
    assert found.lowest_rank.tolist() == [0, -1, 0, 1]
    assert found.highest_rank.tolist() == [1, -1, 0, 1]
    assert found.non_finite.tolist() == [0, 2, 0, 0]
    assert found.ranks.tolist() == [2, 2, 1, 1]


def test_a_resumed_rank_has_its_latest_attempt(path):
    write(path, 0, series={"loss": [1.0, 2.0]}, histograms={"h": [1.0]})
    with stepscope.open_run(path, sinks=[], rank=0, resume=True) as run:
        run.scalar("loss", 5.0, step=1)
        run.histogram("h", np.array([7.0, 7.0]), step=0)
    assert merged(path, "loss").values.tolist() == [1.0, 5.0]
    with stepscope.read_run(path) as record:
        assert stepscope.MergedRanks(record).histogram("h", 0).count == 2


@pytest.mark.parametrize("before, after", [(3, 2), (2, 3), (2, 1)])
def test_a_run_resumed_on_other_ranks_is_merged_over_those_that_took_each_step(path, before, after):
    """It rewinds from step 3 to step 2: what a rank did there that has gone since is void."""
    for ranks, first, steps, resume in ((before, 0, 4, False), (after, 2, 3, True)):
        for rank in range(ranks):
            values = dict.fromkeys(range(first, first + steps), float(10 * ranks + rank))
            series = {"gradient_norm/w": values, "total_norm/gradients": values, "loss": values}
            placed = [shard(rank, ranks, w=2)] if ranks > 1 else [whole(w=2)]
            histograms = {"gradients/w": np.full(2, float(ranks))} if first == 0 else {}
            write(path, rank, placed=placed, ranks=ranks, series=series, histograms=histograms, resume=resume)
    sizes = [before, before, after, after, after]
    expected = [[10.0 * ranks + rank for rank in range(ranks)] for ranks in sizes]
    for name in ("gradient_norm/w", "total_norm/gradients"):
        norms = merged(path, name)
        assert norms.values.tolist() == pytest.approx([math.hypot(*parts) for parts in expected])
        assert (norms.rule, norms.steps.tolist(), norms.ranks.tolist()) == ("norm", [0, 1, 2, 3, 4], sizes)
    losses = merged(path, "loss")
    assert losses.values.tolist() == [sum(parts) / len(parts) for parts in expected]
    assert losses.highest_rank.tolist() == [ranks - 1 for ranks in sizes]
    with stepscope.read_run(path) as record:
        assert stepscope.MergedRanks(record).histogram("gradients/w", 0).count == 2 * before


def test_what_was_recorded_without_a_session_after_other_ranks_is_read(path):
    for ranks, resume in ((2, False), (1, True)):
        for rank in range(ranks):
            placed = [whole(w=2)]
            write(path, rank, placed=placed, ranks=ranks, series={"loss": {3 - ranks: 1.0}}, resume=resume)
    with stepscope.open_run(path, sinks=[], rank=0, resume=True) as run:
        run.scalar("test/score", 4.0, step=9)
    assert merged(path, "test/score").values.tolist() == [4.0]
    with pytest.raises(ArtifactError, match="no rank has a scalar 'lost'"):
        merged(path, "lost")


def test_histograms_of_shards_are_that_of_the_whole(path):
    values = np.random.default_rng(0).normal(size=100).astype(np.float32)
    for rank, part in enumerate(np.split(values, [30, 70])):
        write(path, rank, placed=[shard(rank, 3, w=len(part))], ranks=3, histograms={"gradients/w": part})
    with stepscope.read_run(path) as record:
        found = stepscope.MergedRanks(record).histogram("gradients/w", 0)
    with stepscope.open_run(path.with_name("one"), sinks=[]) as run:
        run.histogram("gradients/w", values, step=0)
    with stepscope.read_run(path.with_name("one")) as record:
        (one,) = record.histograms("gradients/w")
    assert (found.bins.tolist(), found.counts.tolist()) == (one.bins.tolist(), one.counts.tolist())
    assert (found.min, found.max, found.count) == (one.min, one.max, one.count)
    assert (found.mean, found.m2) == (pytest.approx(one.mean), pytest.approx(one.m2))


@settings(max_examples=examples(50))
@given(st.lists(st.dictionaries(st.integers(0, 9), st.floats(-1e6, 1e6)), max_size=5))
def test_sums_by_step_are_those_of_a_dictionary(series):
    sums, expected = StepColumns(0.0, 0.0), {}
    for one in series:
        steps = np.array(sorted(one), np.int64)
        rows = sums.rows(steps)
        sums.columns[0][rows] += [one[step] for step in steps.tolist()]
        sums.columns[1][rows] += 1
        for step, value in one.items():
            total, count = expected.get(step, (0.0, 0))
            expected[step] = total + value, count + 1
    assert sums.steps.tolist() == sorted(expected)
    assert sums.columns[0].tolist() == [expected[step][0] for step in sorted(expected)]
    assert sums.columns[1].tolist() == [expected[step][1] for step in sorted(expected)]
