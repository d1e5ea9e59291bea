"""What all integrations share: the run, the sessions, the names of metrics, and how all of it ends."""

import torch
from torch import nn

import stepscope
from stepscope.integrations.parts import parts_of
from stepscope.integrations.session_options import SessionOptions
from stepscope.integrations.watched_training import WatchedTraining


def trained(training, model, *, steps=3):
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    training.watch(parts_of(model, [optimizer], is_called=True))
    for _ in range(steps):
        optimizer.zero_grad()
        model(torch.ones(4, 2)).sum().backward()
        optimizer.step()
    return optimizer


def test_a_run_is_opened_ended_and_continued(tmp_path):
    training, model = WatchedTraining("any", tmp_path / "run"), nn.Linear(2, 1)
    training.open({"lr": 0.1})
    trained(training, model)
    training.end()
    training.end()
    optimizer = trained(training, model, steps=2)
    training.end(ValueError("broken"))

    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("loss").steps.tolist() == [0, 1, 2, 3, 4]
    assert record.info.status == "failed"
    assert record.info.config == {"lr": 0.1}
    assert not optimizer._optimizer_step_pre_hooks
    assert training.sessions == ()


def test_the_folder_comes_from_the_argument_the_environment_or_the_framework(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    WatchedTraining("any").open().close()
    monkeypatch.setenv("STEPSCOPE_RUN", "from_environment")
    WatchedTraining("any").open().close()
    WatchedTraining("any", "from_argument").open().close()

    assert all((tmp_path / name / "run.json").is_file() for name in ("runs/any", "from_environment", "from_argument"))


def test_metrics_have_the_names_that_the_page_says(tmp_path):
    training = WatchedTraining("any", tmp_path / "run")
    optimizer = trained(training, nn.Linear(2, 1))
    found = {"loss": 1.0, "accuracy": torch.tensor([0.5]), "val_loss": 2.0, "eval/f1": 3, "val": 4.0, "phase": "late"}
    training.log(found | {"list": [1, 2], "vector": torch.ones(3), "nothing": None})
    training.end()

    record = stepscope.read_run(tmp_path / "run")
    expected = {"logged/loss": 1.0, "accuracy": 0.5, "validation/loss": 2.0, "validation/f1": 3.0, "val": 4.0}
    for name, value in expected.items():
        assert (record.scalars(name).steps.tolist(), record.scalars(name).values.tolist()) == ([2], [value]), name
    assert record.texts("phase")[0].text == "late"
    assert not {"list", "vector", "nothing"} & {one.name for one in record.names()}
    assert optimizer is not None


def test_a_run_that_gives_way_to_that_of_a_logger_is_named(caplog):
    for name in (None, "loggers"):
        WatchedTraining("any", "loggers").take_over(WatchedTraining("any", name))
    assert not caplog.records

    own = WatchedTraining("any", "own", options=SessionOptions.checked("full"))
    taken = WatchedTraining("any", "loggers").take_over(own)
    assert "the run own of the callback is not opened" in caplog.text
    assert taken.options.config.weights


def test_what_fails_inside_is_an_alert_and_raises_nothing(tmp_path, caplog):
    training = WatchedTraining("any", tmp_path / "run")
    training.open()
    training.log({"": 1.0})
    training.log({"": 2.0})
    training.end()

    record = stepscope.read_run(tmp_path / "run")
    assert [alert.name for alert in record.alerts()] == ["session_failure"]
    assert caplog.text.count("recording metrics failed") == 1


def test_nothing_is_measured_where_watching_is_disabled(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_DISABLED", "1")
    training = WatchedTraining("any", tmp_path / "run")
    optimizer = torch.optim.SGD((model := nn.Linear(2, 1)).parameters(), lr=0.1)
    training.watch(parts_of(model, [optimizer], is_called=True), divides_loss=True)
    training.log({"accuracy": 0.5})

    assert not optimizer._optimizer_step_pre_hooks
    training.end()
    assert {one.name for one in stepscope.read_run(tmp_path / "run").names()} == {"accuracy", "stepscope/report"}
