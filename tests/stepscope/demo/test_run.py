"""The table with which the demo ends."""

import time

from tracker_adapters.testing import MemorySink, StalledSink
from waiting import until

import stepscope
from stepscope.commands.consoles import SafeConsole
from stepscope.demo.run import delivery_table


def test_nothing_is_said_by_kind_of_a_sink_that_has_not_everything(tmp_path, capsys):
    stalled = StalledSink()
    with stepscope.open_run(tmp_path / "run", sinks=[MemorySink(), stalled]) as run:
        for step in range(3):
            run.scalar("loss", 1.0, step=step)
        run.flush_store()
        until(lambda: [sink.pending for sink in run.stats.sinks.values()] == [0, 3])
        SafeConsole().print(delivery_table(run, time.time_ns()))
        stalled.release.set()
    rows = [line.replace("│", " ").split() for line in capsys.readouterr().out.splitlines()]
    assert ["scalar", "3", "–"] in rows
    assert ["delivered", "3", "0"] in rows
