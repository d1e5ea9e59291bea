"""Traces of the user's own profiler and schedule are kept in the run."""

import gzip
import json

import pytest
import torch

import stepscope
from stepscope.integrations.torch_profiler import trace_handler


def profiled(take, *, steps=8, **settings):
    """Trains under a profiler that records steps 2 and 3, and 6 and 7; returns the weights."""
    torch.manual_seed(0)
    model = torch.nn.Linear(3, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.profiler.schedule(wait=1, warmup=1, active=2)
    with torch.profiler.profile(schedule=schedule, on_trace_ready=take, **settings) as profile:
        for _ in range(steps):
            optimizer.zero_grad()
            model(torch.randn(4, 3)).square().mean().backward()
            optimizer.step()
            profile.step()
    return [parameter.detach().clone() for parameter in model.parameters()]


def test_each_recording_of_a_schedule_is_a_file_and_a_table_of_the_run(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        weights = profiled(trace_handler(run.scoped("mine"), first_step=100))

    record = stepscope.read_run(tmp_path / "run")
    tables = record.tables("mine/profiler_operators")
    assert [table.step for table in tables] == [103, 107]
    for table in tables:
        rows = {row[0]: dict(zip(table.columns, row, strict=True)) for row in table.rows}
        assert rows["aten::addmm"]["calls"] == 2
        assert rows["aten::addmm"]["own_cpu_ms"] > 0
        times = [row[2] for row in table.rows]
        assert times == sorted(times, reverse=True)
    files = record.files()
    assert [(file.name, file.step) for file in files] == [("mine/profiler_trace", 103), ("mine/profiler_trace", 107)]
    for file in files:
        events = json.loads(gzip.decompress((tmp_path / "run" / file.path).read_bytes()))["traceEvents"]
        assert sum(event.get("name") == "aten::addmm" for event in events) == 2
    assert all(map(torch.equal, weights, profiled(lambda profile: None)))


def test_a_trace_that_is_too_large_is_told_and_its_operators_are_kept(tmp_path, capsys):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        profiled(trace_handler(run, max_mb=0.0001, operators=3), steps=4)

    assert "expected at most 0.0001: trace fewer steps" in capsys.readouterr().err
    record = stepscope.read_run(tmp_path / "run")
    assert [alert.name for alert in record.alerts()] == ["trace_left_out"]
    assert [len(table.rows) for table in record.tables("profiler_operators")] == [3]


def test_what_fails_is_an_alert_and_the_training_goes_on(tmp_path, monkeypatch):
    def broken(self, path):
        raise OSError("no space left on device")

    monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", broken)
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        profiled(trace_handler(run))

    (alert,) = stepscope.read_run(tmp_path / "run").alerts()
    assert (alert.name, alert.step) == ("trace_failed", 3)
    assert "no space left on device" in alert.message


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"run": "runs/exp1"}, "run is str 'runs/exp1'; expected an open run"),
        ({"max_mb": 0}, "max_mb is 0; expected a number above 0"),
        ({"operators": 0}, "operators is 0; expected"),
        ({"first_step": -1}, "first_step is -1; expected"),
    ],
)
def test_wrong_arguments_are_refused(tmp_path, arguments, message):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run:
        given = {"run": run} | arguments
        with pytest.raises(stepscope.StepscopeError, match=message):
            trace_handler(given.pop("run"), **given)
