"""Ranks that differ, are not finite, or are slow are found from their series."""

import math

import pytest

from debuggers.detectors.signals.ranks import non_finite_ranks, ranks_out_of_step, straggling_ranks

STEPS = range(0, 50, 10)


def of_ranks(*columns, steps=STEPS):
    return {rank: (list(steps), column) for rank, column in enumerate(columns)}


def test_weights_that_part_are_found_at_their_step():
    (finding,) = ranks_out_of_step(of_ranks([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0 + 1e-9, 6.0]))
    assert (finding.kind, finding.level, finding.step, finding.last_step, finding.steps) == (
        "ranks_out_of_step", "error", 30, 40, 2,
    )  # fmt: skip


@pytest.mark.parametrize(
    "ranks",
    [
        of_ranks([1.0, 2.0, 3.0, 4.0, 5.0], [1.0, 2.0, 3.0, 4.0, 5.0]),
        of_ranks([1.0, math.nan, 3.0, 4.0, 5.0], [1.0, math.nan, 3.0, 4.0, 5.0]),
        of_ranks([1.0, 2.0, 3.0, 4.0, 5.0], [7.0, 2.0, 3.0, 4.0, 6.0]),
        of_ranks([1.0], steps=[0]),
        of_ranks([1.0], [2.0], steps=[0]),
        {0: ([0, 10], [1.0, 2.0]), 1: ([5], [3.0])},
        {},
    ],
)
def test_equal_ranks_shards_and_single_steps_are_in_order(ranks):
    assert ranks_out_of_step(ranks) == []


def test_a_rank_with_nan_is_named():
    (finding,) = non_finite_ranks(of_ranks([1.0] * 5, [1.0, 1.0, math.nan, math.inf, 1.0]))
    assert (finding.name, finding.step, finding.last_step, finding.steps) == ("rank 1", 20, 30, 2)


def test_where_no_rank_is_finite_none_is_named():
    assert non_finite_ranks(of_ranks([math.nan] * 5, [math.inf] * 5)) == []
    assert non_finite_ranks(of_ranks([math.nan] * 5)) == []


@pytest.mark.parametrize("slow_ms, found", [(134.0, ["rank 1"]), (133.0, [])])
def test_a_rank_below_three_quarters_of_the_best_speed_is_a_straggler(slow_ms, found):
    ranks = of_ranks([100.0] * 20, [slow_ms] * 20, [110.0] * 19 + [math.nan], steps=range(20))
    assert [finding.name for finding in straggling_ranks(ranks)] == found


def test_nineteen_steps_and_one_rank_tell_nothing():
    assert straggling_ranks(of_ranks([100.0] * 19, [900.0] * 19, steps=range(19))) == []
    assert straggling_ranks(of_ranks([100.0] * 20, steps=range(20))) == []
