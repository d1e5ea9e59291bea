"""A schedule says of each step alone whether it is measured."""

import pytest

from stepscope.errors import ConfigError
from stepscope.sessions.schedule import Schedule


def due(schedule, until=30):
    return [step for step in range(until) if schedule.is_due(step)]


def test_every_step_is_due_by_default():
    assert due(Schedule()) == list(range(30))


def test_every_counts_from_the_start_and_ends_before_the_end():
    assert due(Schedule(every=10, start=5, end=25)) == [5, 15]


def test_a_dense_warm_up_is_followed_by_a_sparse_rest():
    assert due(Schedule(every=10, dense_until=3)) == [0, 1, 2, 10, 20]


def test_a_list_of_steps_counts_alone():
    assert due(Schedule(steps=[3, 7, 7, 99])) == [3, 7]


@pytest.mark.parametrize(("rate", "every"), [(1.0, 1), (0.1, 10), (0.3, 3), (1 / 7, 7), (1, 1)])
def test_a_rate_measures_at_least_that_share(rate, every):
    assert Schedule.of_rate(rate) == Schedule(every=every)


@pytest.mark.parametrize("rate", [0, -0.1, 1.5, "0.1", True, float("nan")])
def test_a_wrong_rate_is_named(rate):
    with pytest.raises(ConfigError, match=r"sampling_rate is .*; expected a share"):
        Schedule.of_rate(rate)


@pytest.mark.parametrize(
    "wrong", [{"every": 0}, {"every": 2.0}, {"start": -1}, {"start": 5, "end": 5}, {"steps": [-1]}, {"steps": ["3"]}]
)
def test_a_wrong_schedule_is_named(wrong):
    with pytest.raises(ConfigError, match=f"schedule: {list(wrong)[-1]} is"):
        Schedule(**wrong)
