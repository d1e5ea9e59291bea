"""The governor keeps what is spent under a share of the plain step time, and counts what it leaves out."""

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stepscope.governor import Governor


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


def test_a_cost_below_the_limit_leaves_nothing_out():
    assert drive(Governor(0.05), 1000, plain_s=0.1, cost_s=0.0049).measured >= 999


@given(
    limit=st.sampled_from([0.01, 0.02, 0.05]),
    cost_s=st.floats(1e-4, 0.1),
    plain_s=st.floats(0.01, 0.2),
)
def test_the_share_stays_under_the_limit_but_for_the_first_two_measured_steps(limit, cost_s, plain_s):
    overhead = drive(Governor(limit), 500, plain_s=plain_s, cost_s=cost_s)

    assert overhead.spent_s <= limit * overhead.plain_s + 2 * cost_s * (1 + 1e-9)
    assert overhead.measured + overhead.skipped_by_governor == 500
    assert overhead.measured >= 1


def test_the_budget_is_used():
    overhead = drive(Governor(0.02), 1000, plain_s=0.1, cost_s=0.003)

    assert overhead.share == pytest.approx(0.02, rel=0.02)


def test_what_unmeasured_steps_cost_counts_too():
    overhead = drive(Governor(0.02), 1000, plain_s=0.1, cost_s=0.003, idle_s=0.001)

    assert overhead.share <= 0.0201


def test_a_long_pause_buys_no_burst():
    governor = Governor(0.01)
    drive(governor, 10, plain_s=0.1, cost_s=0.01)
    governor.account(1000.0, 0.0, due=False, measured=False)

    assert drive(governor, 10, plain_s=0.1, cost_s=0.01).measured <= 2 + 2


def test_steps_that_are_not_due_are_counted_apart():
    governor = Governor(0.05)
    assert math.isnan(governor.overhead().share)

    governor.account(1.0, 0.0, due=False, measured=False)

    assert governor.overhead().skipped_by_schedule == 1
    assert governor.overhead().skipped_by_governor == 0
