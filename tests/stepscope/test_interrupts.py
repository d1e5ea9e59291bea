"""Ctrl-C while a run is opened: the training is interrupted, and the run is free for the next try."""

import os
import signal
import sys
import threading

import pytest

import stepscope
from stepscope.interrupts import interrupts_held


def interrupt():
    os.kill(os.getpid(), signal.SIGINT)


def test_ctrl_c_comes_after_the_block():
    done = []
    with pytest.raises(KeyboardInterrupt), interrupts_held():
        interrupt()
        done.append("the rest")
    assert done == ["the rest"]
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_a_failure_inside_is_told_before_ctrl_c():
    with pytest.raises(ZeroDivisionError), interrupts_held():
        interrupt()
        raise ZeroDivisionError
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


def test_the_users_handler_is_called_once_and_stays():
    calls = []

    def handler(number, frame):
        calls.append(number)

    before = signal.signal(signal.SIGINT, handler)
    try:
        with interrupts_held():
            interrupt()
            interrupt()
        assert calls == [signal.SIGINT]
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, before)


def test_other_threads_and_a_signal_that_does_nothing_are_left_alone():
    def in_thread():
        with interrupts_held():
            seen.append(signal.getsignal(signal.SIGINT))

    seen = []
    thread = threading.Thread(target=in_thread)
    thread.start()
    thread.join(60)
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with interrupts_held():
            interrupt()
            seen.append(signal.getsignal(signal.SIGINT))
    finally:
        signal.signal(signal.SIGINT, before)
    assert seen == [signal.default_int_handler, signal.SIG_IGN]


def lines_of_opening(folder):
    """Returns how many lines of this project run while a run is opened."""
    lines = 0

    def count(frame, event, argument):
        nonlocal lines
        if "stepscope" in frame.f_code.co_filename or "tracker_adapters" in frame.f_code.co_filename:
            lines += event == "line"
            return count
        return None

    sys.settrace(count)
    try:
        run = stepscope.open_run(folder, sinks=["local"])
    finally:
        sys.settrace(None)
    run.close()
    return lines


def open_interrupted_at(line, folder):
    """Opens a run with Ctrl-C at its ``line``-th line; returns whether it was interrupted."""
    lines = 0

    def strike(frame, event, argument):
        nonlocal lines
        if "stepscope" in frame.f_code.co_filename or "tracker_adapters" in frame.f_code.co_filename:
            lines += event == "line"
            if lines == line and event == "line":
                interrupt()
            return strike
        return None

    sys.settrace(strike)
    try:
        run = stepscope.open_run(folder, sinks=["local"])
    except KeyboardInterrupt:
        return True
    finally:
        sys.settrace(None)
    run.close()
    return False


@pytest.mark.slow
def test_a_run_is_free_wherever_its_opening_was_interrupted(tmp_path):
    total = lines_of_opening(tmp_path / "whole")
    interrupted = 0
    for number in range(12):
        folder = tmp_path / f"run{number}"
        interrupted += open_interrupted_at(1 + number * total // 12, folder)
        with stepscope.open_run(folder, sinks=[], resume=True) as run:
            run.scalar("loss", 1.0, step=0)
        assert stepscope.read_run(folder).scalars("loss").values.tolist() == [1.0]
    assert interrupted >= 6
