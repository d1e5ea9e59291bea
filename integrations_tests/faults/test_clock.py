"""The clock goes back an hour in the middle of a run: order is by step and arrival, nothing waits for an hour."""

from collections import Counter

import numpy as np
import pytest
from all_sinks import SINKS, prepared, shown_by
from faults import accounts, program

import stepscope

pytestmark = pytest.mark.fault

SOURCE = f"""
import sys, time, stepscope
true_time_ns, true_time, back = time.time_ns, time.time, [0]
time.time_ns = lambda: true_time_ns() - back[0] * 10**9
time.time = lambda: true_time() - back[0]
with stepscope.open_run(sys.argv[1], sinks={SINKS!r}) as run:
    for step in range(200):
        if step == 100:
            assert run.flush(60)
            back[0] = 3600
        run.scalar("loss", float(step), step=step)
        run.histogram("grad", [float(step)], step=step)
        run.alert("odd" if step % 2 else "even", f"at {{step}}", step=step)
        if step % 50 == 49:
            assert run.flush_store(60)
with stepscope.open_run(sys.argv[1], sinks={SINKS!r}, resume=True) as run:
    back[0] = 7200
    for step in range(190, 210):
        run.scalar("loss", -float(step), step=step)
    print("closed", run.close(60))
"""


@pytest.mark.slow
def test_series_keep_their_order_when_the_clock_goes_back(tmp_path, fault_report):
    folder = prepared(tmp_path / "run")
    with program(folder, SOURCE) as run:
        run.wait_for_line("closed True")
        assert run.end() == 0, run.errors()
    with stepscope.read_run(folder) as record:
        series = record.scalars("loss")
        wanted = [*map(float, range(190)), *(-float(step) for step in range(190, 210))]
        assert series.steps.tolist() == list(range(210))
        assert series.values.tolist() == wanted
        assert int(np.diff(series.times_ns).min()) < -3500 * 10**9, "the clock did not go back"
        assert [histogram.max for histogram in record.histograms("grad")] == list(map(float, range(200)))
        assert [alert.message for alert in record.alerts()] == [f"at {step}" for step in range(200)]
        assert record.info.status == "finished"
    found = accounts(folder)
    counts = {name: (account.delivered, account.pending, account.failed) for name, account in found.items()}
    assert counts == dict.fromkeys(SINKS, (620, 0, {}))
    both = Counter(enumerate(map(float, range(200)))) + Counter((step, -float(step)) for step in range(190, 210))
    for sink in SINKS:
        shown = shown_by(sink, folder)
        # TensorBoard shows the latest value at a step; the others show both attempts.
        latest = sink == "tensorboard"
        assert len(shown) == (610 if latest else 620), sink
        losses = Counter((one.step, one.value) for one in shown if one.kind == "scalar")
        assert losses == (Counter(enumerate(wanted)) if latest else both), sink
    fault_report.add("all four sinks: clock back one hour, twice", runs=2)
