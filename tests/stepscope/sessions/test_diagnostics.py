"""Numbers that a loop tells of a step: NaN is recorded, and of a step with something else nothing is."""

import math

import pytest
import torch
from tracker_adapters.errors import ArtifactError

import stepscope


def scalars(folder, name):
    with stepscope.read_run(folder) as record:
        if name not in [info.name for info in record.names()]:
            return []
        series = record.scalars(name)
        return list(zip(series.steps.tolist(), series.values.tolist(), strict=True))


@pytest.mark.parametrize("value", ["high", [1.0, 2.0], torch.ones(2), object()])
def test_of_a_step_with_a_metric_that_is_no_number_nothing_is_recorded(tmp_path, value):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.open_run(tmp_path, sinks=[]) as run, stepscope.DebugSession(model, optimizer, run=run) as session:
        model(torch.ones(1, 2)).sum().backward()
        with pytest.raises(ArtifactError, match=r"scalar 'accuracy': got .*; expected "):
            session.step(5.0, metrics={"accuracy": value})
        session.step(1.0, metrics={"accuracy": math.nan, "half": torch.tensor([0.5])})

    assert scalars(tmp_path, "loss") == [(0, 1.0)]
    assert scalars(tmp_path, "half") == [(0, 0.5)]
    ((step, accuracy),) = scalars(tmp_path, "accuracy")
    assert step == 0 and math.isnan(accuracy)


def test_rates_are_recorded_where_they_change_and_times_as_the_diagnosis_has_them(tmp_path):
    model = torch.nn.Linear(2, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    config = stepscope.DebugConfig(schedule=stepscope.Schedule(every=8))
    with (
        stepscope.open_run(tmp_path, sinks=[]) as run,
        stepscope.DebugSession(model, optimizer, run=run, config=config) as session,
    ):
        for step in range(12):
            optimizer.param_groups[0]["lr"] = 0.1 if step < 5 else 0.01
            model(torch.ones(1, 2)).sum().backward()
            session.step()
        live = session.evidence()["step_ms"]

    rates, times = scalars(tmp_path, "learning_rate"), scalars(tmp_path, "step_ms")
    assert [step for step, _ in times] == [0, 8]
    assert rates == [(0, 0.1), (5, 0.01), (8, 0.01)]
    assert dict(times).items() <= dict(zip(live.steps.tolist(), live.values.tolist(), strict=True)).items()
