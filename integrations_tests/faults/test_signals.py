"""Signals in the middle of everything: the run keeps what it took, and the process ends when it is told to."""

import signal
import time

import pytest
from all_sinks import SINKS, assert_each_shows_everything_once, prepared
from faults import accounts, program, stored_counts
from waiting import until

import stepscope
from stepscope.runs.unclosed import CLOSE_TIMEOUT_S

pytestmark = pytest.mark.fault

INTERRUPTIBLE = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)\n"

FLUSH_AND_CLOSE = (
    INTERRUPTIBLE
    + f"""
import sys, stepscope
with stepscope.open_run(sys.argv[1], sinks={SINKS!r}) as run:
    for step in range(1000):
        run.scalar("loss", step, step=step)
    print("emitted")
    sys.stdin.readline()
    try:
        print("flushing")
        run.flush(600)
    finally:
        print("closing")
"""
)


def drained(children):
    """Waits until the delivery processes have left; returns the seconds that it took."""
    return until(lambda: not any(child.is_running() for child in children))


def test_a_second_interrupt_while_closing_ends_the_process_at_once(tmp_path, fault_report):
    folder = prepared(tmp_path / "run")
    with program(folder, FLUSH_AND_CLOSE) as run:
        run.wait_for_line("emitted")
        children = run.suspend_deliveries(len(SINKS))
        run.go_on()
        run.wait_for_line("flushing")
        run.process.send_signal(signal.SIGINT)
        run.wait_for_line("closing")
        until(lambda: stepscope.read_run(folder).info.status == "failed")  # it has written how it ended, and waits
        start = time.monotonic()
        run.process.send_signal(signal.SIGINT)
        code = run.end()
        seconds = time.monotonic() - start
        assert code in (1, -signal.SIGINT)
        assert "KeyboardInterrupt" in run.errors()
        for child in children:
            child.resume()
        recovery = drained(children)
    assert seconds < CLOSE_TIMEOUT_S / 2
    assert stored_counts(folder) == {"scalar": 1000}
    assert_each_shows_everything_once(folder)
    assert stepscope.read_run(folder).info.status == "failed"
    fault_report.add("all four sinks: SIGINT twice, while flushing and while closing", recovery_s=recovery)


def test_an_interrupt_at_exit_waits_no_longer_for_delivery_and_commits_every_run(tmp_path):
    source = (
        INTERRUPTIBLE
        + """
import sys, stepscope
runs = [stepscope.open_run(sys.argv[1] + name, sinks=["local"]) for name in ("_a", "_b", "_c")]
print("opened")
sys.stdin.readline()
for run in runs:
    for step in range(1000):
        run.scalar("loss", step, step=step)
"""
    )
    folders = [tmp_path / f"run{name}" for name in ("_a", "_b", "_c")]
    with program(tmp_path / "run", source) as run:
        run.wait_for_line("opened")
        children = run.suspend_deliveries(3)
        run.go_on()
        until(lambda: any(stepscope.read_run(folder).info.status == "finished" for folder in folders))
        start = time.monotonic()
        run.process.send_signal(signal.SIGINT)
        assert run.end() == 0
        assert time.monotonic() - start < CLOSE_TIMEOUT_S / 2
        assert "interrupted while closing the run" in run.errors()
        for child in children:
            child.resume()
        drained(children)
    for folder in folders:
        assert stepscope.read_run(folder).info.status == "finished"
        assert accounts(folder)["local"].delivered == 1000


def test_a_sigterm_handler_that_leaves_closes_the_run_as_failed(tmp_path):
    source = """
import signal, sys, stepscope
def leave(*_):
    sys.exit(143)
signal.signal(signal.SIGTERM, leave)
with stepscope.open_run(sys.argv[1], sinks=["local"]) as run:
    for step in range(1000):
        run.scalar("loss", step, step=step)
    print("emitted")
    sys.stdin.readline()
"""
    folder = tmp_path / "run"
    with program(folder, source) as run:
        run.wait_for_line("emitted")
        run.process.terminate()
        assert run.end() == 143
    assert accounts(folder)["local"].delivered == 1000
    assert stepscope.read_run(folder).info.status == "failed"


@pytest.mark.parametrize("times", [200, pytest.param(1000, marks=pytest.mark.slow)])
def test_a_handler_may_emit_flush_and_close_whatever_it_interrupts(tmp_path, times, fault_report):
    """So many interruptions of a loop that emits and flushes; every fifth waits, the last one closes the run."""
    source = (
        f"times = {times}"
        + """
import signal, sys, stepscope
run = stepscope.open_run(sys.argv[1], sinks=[])
emitted = {"handler": 0, "loop": 0}
inside, waits = False, []
def handler(*_):
    global inside
    if inside:
        return
    inside = True
    run.scalar("handler", 1.0, step=emitted["handler"])
    run.text("note", "x", step=emitted["handler"])
    emitted["handler"] += 1
    if emitted["handler"] % 5 == 0:
        waits.append(run.flush_store(60))
    if emitted["handler"] == times:
        signal.setitimer(signal.ITIMER_REAL, 0)
        waits.append(run.close(60))
    inside = False
signal.signal(signal.SIGALRM, handler)
signal.setitimer(signal.ITIMER_REAL, 0.001, 0.001)
while emitted["handler"] < times:
    run.scalar("loop", 1.0, step=emitted["loop"])
    emitted["loop"] += 1
    sum(range(200))
    if emitted["loop"] % 10 == 0:
        run.flush_store(0)
stats = run.stats
print("counts", 2 * emitted["handler"] + emitted["loop"], stats.emitted, stats.stored, sum(stats.lost.values()),
      waits.count(False), *stats.lost)
"""
    )
    with program(tmp_path / "run", source) as run:
        wanted, emitted, stored, lost, vain, *reasons = run.wait_for_line("counts").split()[1:]
        assert run.end() == 0, run.errors()
    assert int(emitted) == int(wanted) == int(stored) + int(lost)
    assert int(stored) == stored_counts(tmp_path / "run").total()
    assert int(vain) == 0, "a handler waited for what it interrupted"
    assert int(lost) <= 1
    assert set(reasons) <= {"emitted_after_close"}
    if times == 1000:
        fault_report.add("emit, flush and close in signal handlers, 1,000 times", runs=times, lost=0)
