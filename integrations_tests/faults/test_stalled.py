"""Sinks that stand still: emitting stays fast and small, closing keeps its deadline, and nothing is lost."""

import json

import psutil
import pytest
from faults import WHOLE, accounts, program, stored_counts
from waiting import until

import stepscope
from stepscope.runs.unclosed import CLOSE_TIMEOUT_S

pytestmark = pytest.mark.fault

SINKS = ("local", "tensorboard", "wandb", "mlflow")
SCALARS, IMAGES = (1_000_000, 2000) if WHOLE else (100_000, 200)

EMIT = f"""
import json, os, sys, time, numpy as np, psutil, stepscope
from tracker_adapters.testing import StalledSink
run = stepscope.open_run(sys.argv[1], sinks=["local", "tensorboard", StalledSink()])
picture = np.random.default_rng(0).integers(0, 255, (64, 64, 3), np.uint8)
durations = np.zeros({SCALARS}, np.int64)
for step in range(100):
    run.scalar("warm", 1.0, step=step)
    run.image("warm", picture, layout="HWC", step=step)
run.flush_store()
memory = psutil.Process().memory_info
print("ready")
sys.stdin.readline()
before, peak = memory().rss, 0
for step in range({SCALARS}):
    start = time.perf_counter_ns()
    run.scalar("loss", float(step), step=step)
    durations[step] = time.perf_counter_ns() - start
    if step % {SCALARS // IMAGES} == 0:
        run.image("picture", picture, layout="HWC", step=step)
        peak = max(peak, memory().rss)
run.flush_store()
peak = max(peak, memory().rss)
print(json.dumps({{"median_us": float(np.median(durations)) / 1e3, "memory_mb": (peak - before) / 1e6,
                  "stats": [run.stats.emitted, run.stats.stored, len(run.stats.lost)]}}))
start = time.monotonic()
run.close(1.0)
print("closed", time.monotonic() - start)
"""


def test_emitting_to_stalled_sinks_is_fast_small_and_loses_nothing(tmp_path, fault_report):
    folder, wanted = tmp_path / "run", SCALARS + IMAGES + 200
    with program(folder, EMIT) as run:
        run.wait_for_line("ready")
        children = run.suspend_deliveries(2)
        run.go_on()
        found = json.loads(run.wait_for_line("{", 120))
        seconds = float(run.wait_for_line("closed").split()[1])
        assert run.end() == 0, run.errors()
        for child in children:
            child.resume()
        recovery = until(lambda: not any(child.is_running() for child in children), 120)
    assert found["stats"] == [wanted, wanted, 0]
    assert found["memory_mb"] < 64
    assert found["median_us"] < 25, "not a measurement: the machine is shared"
    assert seconds < CLOSE_TIMEOUT_S / 2
    assert stored_counts(folder) == {"scalar": SCALARS + 100, "image": IMAGES + 100}
    delivered = {name: account.delivered for name, account in accounts(folder).items()}
    assert delivered == {"local": wanted, "tensorboard": wanted, "StalledSink": 0}
    fault_report.add(f"every sink stalled for {SCALARS:,} scalars and {IMAGES} images", recovery_s=recovery)


@pytest.mark.parametrize("how", ["close", pytest.param("exit", marks=pytest.mark.slow)])
def test_closing_keeps_its_deadline_when_every_sink_hangs(tmp_path, how, fault_report):
    source = f"""
import sys, time, stepscope, stepscope.runs.unclosed
from tracker_adapters.testing import StalledSink
stepscope.runs.unclosed.CLOSE_TIMEOUT_S = 1.0
run = stepscope.open_run(sys.argv[1], sinks=[*{SINKS!r}, StalledSink()])
print("opened")
sys.stdin.readline()
for step in range(1000):
    run.scalar("loss", float(step), step=step)
assert run.flush_store(60)
if {how == "close"}:
    start = time.monotonic()
    print("closed", run.close(1.0), time.monotonic() - start)
"""
    folder = tmp_path / "run"
    with program(folder, source) as run:
        run.wait_for_line("opened")
        children = run.suspend_deliveries(len(SINKS))
        run.go_on()
        if how == "close":
            _, complete, seconds = run.wait_for_line("closed").split()
            assert complete == "False"
            assert float(seconds) < CLOSE_TIMEOUT_S / 2
            fault_report.add("close() while every sink hangs", recovery_s=float(seconds))
        assert run.end() == 0, run.errors()
        kill(children)
    assert stepscope.read_run(folder).info.status == "finished"
    assert len(stepscope.read_run(folder).scalars("loss")) == 1000
    assert {account.pending for account in accounts(folder).values()} == {1000}


def kill(children):
    for child in children:
        child.kill()
    psutil.wait_procs(children, 30)
