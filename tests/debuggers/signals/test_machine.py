"""Where the time of a step goes: waiting for a processor or another session's step is not waiting for data."""

import math
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import nn
from waiting import until

import stepscope
from debuggers.signals.machine import DataTime, unqueued_s

BUSY = "print(flush=True)\nwhile True: pass"


@pytest.mark.skipif(not Path("/proc/thread-self/schedstat").exists(), reason="the kernel does not tell of queues")
def test_the_clock_stands_still_while_the_thread_waits_for_a_processor():
    def stands_still():
        begun_s, begun_unqueued_s, end = time.perf_counter(), unqueued_s(), time.thread_time() + 0.2
        while time.thread_time() < end:
            pass
        taken_s, unqueued = time.perf_counter() - begun_s, unqueued_s() - begun_unqueued_s
        return taken_s > 0.25 and unqueued == pytest.approx(0.2, abs=0.03)

    allowed = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {min(allowed)})  # of this thread, and of what it starts
    other = subprocess.Popen([sys.executable, "-c", BUSY], stdout=subprocess.PIPE)
    try:
        assert other.stdout.readline()  # it has come as far as its loop
        # A machine that stops altogether, which no clock of the kernel tells, spoils a round.
        until(stands_still, 120)
    finally:
        other.kill()
        other.communicate()
        os.sched_setaffinity(0, allowed)


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


class Slow(nn.Linear):
    """A layer whose forward pass takes 0.1 s."""

    def forward(self, inputs):
        threading.Event().wait(0.1)
        return super().forward(inputs)


@pytest.mark.parametrize(("loads", "least_ms", "most_ms"), [(False, 0.0, 80.0), (True, 80.0, math.inf)])
def test_a_step_of_another_session_is_no_wait_and_its_loading_is(loads, least_ms, most_ms):
    models = [nn.Linear(3, 1), nn.Linear(3, 1) if loads else Slow(3, 1)]
    optimizers = [torch.optim.SGD(model.parameters(), lr=0.01) for model in models]
    sessions = [stepscope.DebugSession(*both, on_error="raise") for both in zip(models, optimizers, strict=True)]
    for session in sessions:
        session.start()
    for _ in range(9):
        for session, model, optimizer in zip(sessions, models, optimizers, strict=True):
            if loads and model is models[1]:
                threading.Event().wait(0.1)
            optimizer.zero_grad()
            model(torch.ones(4, 3)).square().mean().backward()
            session.step()
            optimizer.step()
    for session in sessions:
        session.stop()
    evidence = sessions[0].evidence()
    share, taken_ms = evidence["data_share"].finite, evidence["step_ms"].finite
    _, ours, theirs = np.intersect1d(share.steps[1:], taken_ms.steps, return_indices=True)
    # Not the share: on a busy machine the rest of a step takes any time. What a step waited is its own share of it.
    waited_ms = np.median(share.values[1:][ours] * taken_ms.values[theirs])
    assert least_ms <= waited_ms <= most_ms


def test_steps_of_another_session_that_are_not_sampled_are_no_wait():
    def share():
        mine, other = DataTime(), DataTime()
        mine.end(0.0)
        threading.Event().wait(0.03)
        other.pass_by()
        mine.begin(unqueued_s())
        return mine.end(0.0)

    until(lambda: share() < 0.3)  # where the machine stops after the other session's step, it is a wait
