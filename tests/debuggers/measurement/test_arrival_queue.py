"""What was measured on a device is taken in order, and a device that fails takes nothing else with it."""

import pytest

from debuggers.measurement.arrival_queue import ArrivalQueue


class Arriving:
    """Arrives when it is told to; a device that failed raises an error when it is asked."""

    def __init__(self, *, arrived=False, fails=False):
        self.arrived, self.fails = arrived, fails

    def ready(self):
        if self.fails:
            raise RuntimeError("CUDA error: device-side assert triggered")
        return self.arrived


def test_what_arrives_early_waits_for_what_was_measured_before():
    queue, taken = ArrivalQueue(), []
    first = Arriving()
    queue.push(first, lambda: taken.append("first"))
    queue.push(Arriving(arrived=True), lambda: taken.append("second"))
    assert taken == []
    first.arrived = True
    queue.push(Arriving(), lambda: taken.append("third"))
    assert taken == ["first", "second"]
    queue.drain()
    assert taken == ["first", "second", "third"]


def test_what_a_device_lost_is_dropped_and_does_not_hold_up_what_follows():
    queue, taken = ArrivalQueue(), []
    with pytest.raises(RuntimeError, match="device-side assert"):
        queue.push(Arriving(fails=True), lambda: taken.append("lost"))
    queue.push(Arriving(arrived=True), lambda: taken.append("next"))
    assert taken == ["next"]


def test_all_are_taken_before_the_first_failure_is_raised():
    queue, taken = ArrivalQueue(), []

    def fail(reason):
        raise ValueError(reason)

    queue.push(Arriving(), lambda: fail("the first"))
    queue.push(Arriving(), lambda: taken.append("kept"))
    queue.push(Arriving(), lambda: fail("the second"))
    with pytest.raises(ValueError, match="the first"):
        queue.drain()
    assert taken == ["kept"]
    queue.drain()
