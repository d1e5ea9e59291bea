"""The governor keeps what is spent under 1 ms or a share of the plain step time, and counts what it leaves out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.sessions.governor import FLOOR_S, FREE_STEPS, WARM_UP_STEPS, Governor
from stepscope.sessions.report import overhead_line


def drive(governor, steps, *, plain_s, cost_s, idle_s=0.0):
    """Runs steps of which a measured one costs ``cost_s`` and any other ``idle_s``."""
    for _ in range(steps):
        measured = governor.grants()
        spent_s = cost_s if measured else idle_s
        governor.account(plain_s + spent_s, spent_s, due=True, measured=measured)
    return governor.overhead()


def test_without_a_limit_every_due_step_is_measured():
    overhead = drive(Governor(None), 50, plain_s=0.1, cost_s=1.0)

    assert (overhead.measured, overhead.skipped_by_governor) == (50, 0)
    assert overhead.share == pytest.approx(10)


def after_the_free_steps(limit, steps, **times):
    """The figures of the steps after those that are always measured."""
    governor = Governor(limit)
    before = drive(governor, FREE_STEPS, **times)
    after = drive(governor, steps, **times)
    return after.measured - before.measured, after.spent_s - before.spent_s, after.plain_s - before.plain_s


def test_the_first_hundred_steps_are_measured_whatever_they_cost():
    assert drive(Governor(0.01), FREE_STEPS, plain_s=0.001, cost_s=10.0).measured == FREE_STEPS == 100


@pytest.mark.parametrize(
    ("plain_ms", "cost_ms", "measured"),
    [
        (0.3, 0.15, 1000),  # under the floor: half of the step time, and never limited
        (0.3, 1.0, 1000),
        (0.3, 2.0, 500),  # 1 ms a step is what there is
        (0.3, 50.0, 20),
        (10.0, 1.0, 1000),
        (10.0, 4.0, 250),  # 5 % of 10 ms is less than the floor
        (100.0, 1.0, 1000),
        (100.0, 5.0, 1000),  # the limit itself
        (100.0, 10.0, 500),
        (100.0, 100.0, 50),
        (1000.0, 49.0, 1000),
    ],
)
def test_what_is_measured_of_1000_steps_at_a_limit_of_5_percent(plain_ms, cost_ms, measured):
    found, spent_s, plain_s = after_the_free_steps(0.05, 1000, plain_s=plain_ms / 1e3, cost_s=cost_ms / 1e3)

    assert found == pytest.approx(measured, abs=2)
    assert spent_s <= max(0.05 * plain_s, 1000 * FLOOR_S) + 2 * cost_ms / 1e3


@given(
    limit=st.sampled_from([0.01, 0.02, 0.05]),
    cost_s=st.floats(1e-4, 0.1),
    plain_s=st.floats(1e-4, 0.2),
)
def test_what_is_spent_stays_under_the_limit_but_for_two_measured_steps(limit, cost_s, plain_s):
    measured, spent_s, plain_total_s = after_the_free_steps(limit, 500, plain_s=plain_s, cost_s=cost_s)

    assert spent_s <= max(limit * plain_total_s, 500 * FLOOR_S) + 2 * cost_s * (1 + 1e-9)
    assert 1 <= measured <= 500


def test_the_budget_is_used():
    _, spent_s, plain_s = after_the_free_steps(0.02, 1000, plain_s=0.1, cost_s=0.003)

    assert spent_s / plain_s == pytest.approx(0.02, rel=0.02)


def test_what_unmeasured_steps_cost_counts_too():
    _, spent_s, plain_s = after_the_free_steps(0.02, 1000, plain_s=0.1, cost_s=0.003, idle_s=0.001)

    assert spent_s / plain_s <= 0.0201


def test_a_long_pause_buys_no_burst():
    governor = Governor(0.01)
    before = drive(governor, FREE_STEPS + 10, plain_s=0.1, cost_s=0.01).measured
    governor.account(1000.0, 0.0, due=False, measured=False)

    assert drive(governor, 10, plain_s=0.1, cost_s=0.01).measured <= before + 2 + 1


@pytest.mark.parametrize(("limit", "steps"), [(None, WARM_UP_STEPS), (0.05, FREE_STEPS)])
def test_the_steps_that_load_code_or_are_not_limited_are_left_out_of_the_figures(limit, steps):
    governor = Governor(limit)
    for plain_s, cost_s in ((1.0, 4.0), (0.1, 0.001)):
        for _ in range(steps):
            governor.account(plain_s + cost_s, cost_s, due=True, measured=True)
    overhead = governor.overhead()

    assert overhead.share == pytest.approx(0.01)
    assert overhead.per_step_s == pytest.approx((0.001, 0.1))
    assert overhead.spent_s == pytest.approx(steps * 4.001)


def test_the_figures_of_a_few_steps_are_those_of_all():
    overhead = drive(Governor(0.05), 2, plain_s=0.1, cost_s=0.02)

    assert overhead.per_step_s == pytest.approx((0.02, 0.1))
    assert overhead.share == pytest.approx(0.2)


def test_steps_that_are_not_due_are_counted_apart():
    governor = Governor(0.05)
    assert math.isnan(governor.overhead().share)

    governor.account(1.0, 0.0, due=False, measured=False)

    assert governor.overhead().skipped_by_schedule == 1
    assert governor.overhead().skipped_by_governor == 0


def test_an_overhead_of_steps_that_took_no_time_is_told_without_a_share():
    """A single step has no time of its own: what lies between two steps is not known of the first one."""
    governor = Governor(0.05)
    governor.account(0.02, 0.02, due=True, measured=True)
    line = overhead_line(governor.overhead())
    assert line == "Overhead: 20.00 ms a step; the step time without it is not known."


def test_what_is_kept_under_a_millisecond_by_leaving_steps_out_says_so():
    for skipped in (0, 250):
        governor = Governor(0.05)
        for step in range(2 * FREE_STEPS + skipped):
            measured = step < 2 * FREE_STEPS
            governor.account(0.01, 0.0005 if measured else 0.0, due=True, measured=measured)
        line = overhead_line(governor.overhead())
        assert (f"(under 1 ms a step, {skipped} steps were skipped for that)." in line) == bool(skipped)
        assert ("so not limited" in line) != bool(skipped)


def test_of_few_steps_no_share_is_given_because_start_up_dominates_it():
    cost = "Overhead: 20.00 ms a step of 80.00 ms"
    for limit, settled, few, share in (
        (None, 2 * WARM_UP_STEPS, ", start-up included. The share is given from step 40 on.", ", 25.0%."),
        (
            0.05,
            2 * FREE_STEPS,
            ", start-up included. The share is given from step 200 on; the first 100 are not limited.",
            ", 25.0% (limit 5.0%, or 1 ms).",
        ),
    ):
        governor = Governor(limit)
        for _ in range(settled - 1):
            governor.account(0.1, 0.02, due=True, measured=True)
        assert overhead_line(governor.overhead()) == cost + few
        governor.account(0.1, 0.02, due=True, measured=True)
        assert overhead_line(governor.overhead()) == cost + share
