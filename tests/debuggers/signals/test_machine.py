"""Where the time of a step goes: waiting for a processor is not waiting for data."""

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from debuggers.signals.machine import DataTime, unqueued_s

BUSY = "print(flush=True)\nwhile True: pass"


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the kernel does not tell of queues")
def test_the_clock_stands_still_while_the_thread_waits_for_a_processor():
    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # of this thread, and of what it starts
    other = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline()  # it has come as far as its loop
        begun_s, begun_unqueued_s, end = time.perf_counter(), unqueued_s(), time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        taken_s, unqueued = time.perf_counter() - begun_s, unqueued_s() - begun_unqueued_s
    finally:
        other.kill()
        other.communicate()
        os.sched_setaffinity(0, allowed)
    assert taken_s > 0.25
    assert unqueued == pytest.approx(0.2, abs=0.03)


def test_it_goes_on_while_the_thread_waits_for_something_else():
    begun_s = unqueued_s()
    threading.Event().wait(0.05)
    assert unqueued_s() - begun_s > 0.045


@pytest.mark.parametrize(("spent_s", "share"), [(0.0, 1.0), (10.0, 0.0)])
def test_time_that_measuring_took_after_the_step_is_no_wait(spent_s, share):
    times = DataTime()
    assert times.end(0.0) is None
    times.leave_out(spent_s)
    times.begin(unqueued_s() + 5.0)
    assert times.end(0.0) == share
