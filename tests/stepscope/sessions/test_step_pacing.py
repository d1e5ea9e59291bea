"""The pacing of a session: which number a step has, which steps are measured, and what counts as their time."""

import pytest

import stepscope
from stepscope.sessions import governor, step_pacing
from stepscope.sessions.step_pacing import StepPacing


class Clock:
    """Stands for the system's clock: it moves when the test says so."""

    now = 100.0

    def perf_counter(self):
        return self.now


@pytest.fixture
def clock(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(step_pacing, "time", clock)
    return clock


def pacing(**config):
    return StepPacing(stepscope.DebugConfig(**config), None)


def test_steps_count_from_zero_and_keep_the_stride_that_their_caller_begins():
    steps = pacing()
    assert (steps.last, steps.next) == (-1, 0)
    steps.close(0, measured=True)
    assert steps.next == 1
    steps.close(10, measured=True)
    assert (steps.last, steps.next) == (10, 20)


def test_a_step_that_is_numbered_again_is_followed_by_the_next_number():
    steps = pacing()
    for number in (7, 7, 3):
        steps.close(number, measured=True)
        assert steps.next > number
    assert steps.next == 4


def test_a_step_is_measured_when_it_is_due_and_granted(monkeypatch):
    monkeypatch.setattr(governor, "FREE_STEPS", 1)
    monkeypatch.setattr(governor, "FLOOR_S", 0.0)
    steps = pacing(schedule=stepscope.Schedule(every=2), max_overhead=0.01)
    assert [steps.grant(number) for number in range(4)] == [True, False, True, False]
    for number in (0, 2):  # the first step is free, the second one leaves a debt
        with steps.stopwatch:
            sum(range(10_000))
        steps.close(number, measured=True)
    assert not steps.grant(4)
    assert not steps.is_measured(4)


def test_a_pause_is_no_part_of_a_step(clock):
    steps = pacing(max_overhead=None)
    steps.start()
    clock.now += 2.0
    with steps.paused():
        clock.now += 50.0
    clock.now += 1.0
    steps.close(0, measured=True)
    assert steps.plain_s == 3.0
    clock.now += 4.0
    steps.close(1, measured=False)
    assert steps.plain_s == 4.0
    assert steps.overhead().plain_s == 7.0


def test_a_pause_that_ends_in_an_exception_is_no_part_of_a_step_either(clock):
    steps = pacing(max_overhead=None)
    steps.start()
    with pytest.raises(KeyError), steps.paused():
        clock.now += 50.0
        raise KeyError
    steps.close(0, measured=True)
    assert steps.plain_s == 0.0
