"""The clock of a call counts waiting, not working."""

import sys
import threading
import time

import pytest
from tracker_adapters.delivery.idle import IdleClock
from waiting import until

SPAN_S = 0.3


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells how long a thread was busy")
def test_work_does_not_count():
    clock = IdleClock()

    def idle_after_work():
        clock.start("write")
        end = time.thread_time() + SPAN_S
        while time.thread_time() < end:
            pass
        return clock.seconds()

    # A machine that stops altogether adds to a round what the kernel does not tell.
    until(lambda: idle_after_work() < SPAN_S / 2)


def test_waiting_counts_and_is_seen_by_another_thread():
    clock, entered, leave = IdleClock(), threading.Event(), threading.Event()

    def call():
        clock.start("flush")
        entered.set()
        leave.wait()
        clock.stop()

    thread = threading.Thread(target=call, daemon=True)
    thread.start()
    assert entered.wait(60)
    assert clock.what == "flush"
    until(lambda: clock.seconds() > SPAN_S)
    leave.set()
    thread.join(60)
    assert (clock.what, clock.seconds()) == ("", 0.0)


def test_an_answer_starts_it_anew():
    clock = IdleClock()
    clock.start("write")
    until(lambda: clock.seconds() > SPAN_S)

    def idle_after_answer():
        clock.restart()
        return clock.seconds()

    until(lambda: idle_after_answer() < SPAN_S / 2)
    assert clock.what == "write"
