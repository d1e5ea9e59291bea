"""Exceptions of a sink in its thread of the training process: tried again, counted, and never seen by the training."""

import json
from collections import Counter

import pytest
from fault_training import emitted_by, losses_without_us
from faults import SUPPORT, accounts, program, stored_counts

pytestmark = pytest.mark.fault

STEPS = 100
SOURCE = f"""
import json, sys, stepscope
from fault_training import Regression, emit_step
from tracker_adapters.testing import MemorySink

class Raising(MemorySink):
    def __init__(self, times, target):
        super().__init__(target)
        self.times, self.raised = times, 0
    def write(self, batch):
        if self.raised < self.times:
            self.raised += 1
            raise ERROR
        return super().write(batch)

class Recovering(Raising):
    pass

recovering, raising, sound = Recovering(3, "recovering"), Raising(10**9, "raising"), MemorySink("sound")
run, model, losses = stepscope.open_run(sys.argv[1], sinks=[recovering, raising, sound]), Regression(), []
for step in range({STEPS}):
    values = model.step()
    losses.append(values["loss"].hex())
    emit_step(run, model, values, step)
complete = run.close(60)
shown = [[[one.kind, one.name, one.step] for one in sink.artifacts] for sink in (recovering, raising, sound)]
print(json.dumps([losses, shown, raising.raised, complete, run.stats.emitted, run.stats.stored, run.stats.lost]))
"""


@pytest.mark.parametrize(
    "error",
    [
        "SystemExit('of the SDK')",
        *(pytest.param(error, marks=pytest.mark.slow) for error in ("ValueError('of the SDK')", "MemoryError()")),
    ],
)
def test_a_sink_thread_survives_what_its_sink_raises(tmp_path, error, fault_report):
    wanted = emitted_by(STEPS)
    with program(tmp_path / "run", SOURCE.replace("ERROR", error), SUPPORT) as run:
        losses, (recovered, nothing, sound), raised, *counts = json.loads(run.wait_for_line("["))
        assert run.end() == 0, run.errors()
        assert "Traceback" not in run.errors()
    assert losses == losses_without_us(STEPS)
    assert counts == [False, wanted.total(), wanted.total(), {}]
    assert stored_counts(tmp_path / "run") == wanted
    for shown in (recovered, sound):
        assert Counter(kind for kind, *_ in shown) == wanted
        assert len({tuple(one) for one in shown}) == len(shown)
    assert nothing == []
    assert raised > 3, "it was not tried again"
    states = {sink: (one.delivered, one.pending, one.state) for sink, one in accounts(tmp_path / "run").items()}
    assert states == {
        "Recovering": (wanted.total(), 0, "done"),
        "Raising": (0, wanted.total(), "quarantined"),
        "MemorySink": (wanted.total(), 0, "done"),
    }
    name = error.partition("(")[0]
    fault_report.add(f"a sink thread raises {name}: three times, and for ever beside a sound sink", runs=2)
