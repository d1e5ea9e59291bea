"""A gate opens once, for everyone, also where one call interrupts another."""

import threading
import time

from tracker_adapters.store.writing.gate import Gate


def test_a_closed_gate_is_waited_for_as_long_as_was_said():
    gate = Gate()
    start = time.monotonic()
    assert not gate.wait(0.05)
    assert not gate.wait(0)
    assert 0.05 <= time.monotonic() - start < 30


def test_an_open_gate_lets_everyone_through_and_may_be_opened_again():
    gate, passed = Gate(), []
    threads = [threading.Thread(target=lambda: passed.append(gate.wait(60))) for _ in range(8)]
    for thread in threads:
        thread.start()
    gate.open()
    gate.open()
    for thread in threads:
        thread.join(60)
    assert passed == [True] * 8
    assert gate.wait()
    assert gate.is_open


def test_a_waiter_that_was_torn_away_does_not_hold_up_the_others():
    """Ctrl-C may come when a waiter has the latch and has not yet given it on."""
    gate = Gate()
    gate.is_open = True
    start = time.monotonic()
    assert gate.wait(60)
    assert time.monotonic() - start < 30  # of 60
    waiting = threading.Thread(target=gate.wait)
    waiting.start()
    waiting.join(60)
    assert not waiting.is_alive()
