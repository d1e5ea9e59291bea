"""Expensive checks keep to a share of the run's time, or to a number of steps."""

from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stability.debugging.check_pace import CheckPace


class Clock:
    def __init__(self):
        self.now = 0.0

    def __call__(self):
        return self.now


def run(pace, clock, steps, step_s, check_s):
    """Returns the steps with a check; each step takes ``step_s`` and each check ``check_s(number)`` more."""
    checked = []
    for step in range(steps):
        clock.now += step_s
        if pace.step():
            with pace.spending():
                clock.now += check_s(len(checked))
            checked.append(step)
    return checked


def test_without_a_share_checks_come_every_so_many_steps():
    clock = Clock()
    assert run(CheckPace(10, clock=clock), clock, 35, 1.0, lambda number: 5.0) == [0, 10, 20, 30]


def test_a_check_as_long_as_ten_steps_runs_every_thousand_steps_at_one_percent():
    clock = Clock()
    checked = run(CheckPace(1, 0.01, clock), clock, 3005, 0.1, lambda number: 1.0)
    assert checked[0] == 0
    assert [later - earlier for earlier, later in pairwise(checked[1:])] == [1000]
    assert checked[1] == pytest.approx(2000, abs=1)


def test_checks_cheaper_than_the_share_run_at_every_step():
    clock = Clock()
    assert run(CheckPace(1, 0.05, clock), clock, 100, 1.0, lambda number: 0.01) == list(range(100))


@given(
    share=st.floats(0.001, 0.5),
    step_s=st.floats(0.001, 1.0),
    costs=st.lists(st.floats(0.0001, 10.0), min_size=1, max_size=20),
)
def test_all_checks_together_take_no_more_than_the_share_and_one_check(share, step_s, costs):
    clock = Clock()
    pace = CheckPace(1, share, clock)
    checked = run(pace, clock, 500, step_s, lambda number: costs[number % len(costs)])
    assert pace.checks == len(checked)
    assert pace.seconds <= share * (clock.now - pace.seconds) + 2 * max(costs)


def test_a_check_that_raises_is_paid_for():
    clock = Clock()
    pace = CheckPace(1, 0.1, clock)
    pace.step()
    with pytest.raises(ValueError, match="wrong"), pace.spending():
        clock.now += 3
        raise ValueError("wrong")
    assert (pace.checks, pace.seconds) == (1, 3)
    clock.now += 1
    assert not pace.step()
