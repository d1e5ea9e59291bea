"""The calls of W&B, with W&B's arguments and its semantics of steps, read back from the run."""

import argparse
import inspect
import json
import math
import os
import threading
from pathlib import Path

import numpy as np
import pytest
import torch

import stepscope
from stepscope.compat import wandb
from stepscope.compat.errors import UnsupportedCallError
from stepscope.compat.wandb import opening
from stepscope.errors import ConfigError
from stepscope.runs.script_run import script_run


@pytest.fixture(autouse=True)
def folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("STEPSCOPE_SINKS", "none")
    for name in [name for name in os.environ if name.startswith("WANDB_")]:
        monkeypatch.delenv(name)
    yield tmp_path
    for run in list(opening._runs):
        run.finish()


def series(run, name):
    with stepscope.read_run(run.stepscope_run.path) as record:
        found = record.scalars(name)
        return list(zip(found.steps.tolist(), found.values.tolist(), strict=True))


def names(run):
    with stepscope.read_run(run.stepscope_run.path) as record:
        return {(info.kind, info.name) for info in record.names(0)}


def parameters(function):
    return list(inspect.signature(function).parameters)


class TestSignatures:
    @pytest.fixture
    def real(self):
        return pytest.importorskip("wandb")

    @pytest.mark.parametrize(
        "name", ["init", "log", "watch", "unwatch", "alert", "define_metric", "save", "log_artifact", "finish", "login"]
    )
    def test_each_call_has_the_arguments_of_w_and_b(self, name, real):
        theirs = [one for one in parameters(getattr(real, name)) if one != "self"]
        assert [one for one in parameters(getattr(wandb, name)) if one not in ("quiet",)] == theirs

    @pytest.mark.parametrize(
        "name", ["log", "watch", "unwatch", "alert", "define_metric", "save", "log_artifact", "finish"]
    )
    def test_each_method_of_a_run_has_its_arguments(self, name, real):
        assert parameters(getattr(wandb.Run, name)) == parameters(getattr(real.Run, name))

    @pytest.mark.parametrize("name", ["Image", "Histogram", "Table", "Html", "Audio", "Video", "Artifact"])
    def test_each_data_type_has_its_arguments(self, name, real):
        assert parameters(getattr(wandb, name).__init__) == parameters(getattr(real, name).__init__)

    def test_what_is_not_here_is_named_at_once(self, real):
        for name in set(real.__all__) - set(dir(wandb)):
            with pytest.raises(AttributeError, match=f"has no {name}: there are AlertLevel, Artifact"):
                getattr(wandb, name)


def test_steps_gather_until_they_are_committed():
    run = wandb.init(project="p")
    wandb.log({"a": 1}, commit=False)
    wandb.log({"b": 2})
    wandb.log({"a": 3})
    wandb.log({"a": 4}, step=5)
    wandb.log({"a": 5, "b": 6}, step=5)
    wandb.log({"a": 7}, step=6, commit=True)
    wandb.log({"a": 8})
    assert run.step == 8
    wandb.finish()
    assert series(run, "a") == [(0, 1), (1, 3), (5, 5), (6, 7), (7, 8)]
    assert series(run, "b") == [(0, 2), (5, 6)]


def test_a_step_that_goes_back_is_left_out_with_one_warning(capsys):
    run = wandb.init()
    wandb.log({"a": 1}, step=5)
    wandb.log({"a": 2}, step=3)
    wandb.log({"a": 2}, step=4)
    wandb.finish()
    assert series(run, "a") == [(5, 1)]
    assert capsys.readouterr().err.count("step 3, which is before the current step 5") == 1


def test_the_module_of_pyplot_stands_for_its_current_figure():
    pyplot = pytest.importorskip("matplotlib.pyplot")
    run = wandb.init(project="p")
    figure, other = pyplot.figure(), pyplot.figure()
    try:
        figure.subplots().plot([1, 2])
        pyplot.figure(figure.number)
        wandb.log({"module": pyplot, "image": wandb.Image(pyplot), "figure": wandb.Image(figure)})
    finally:
        pyplot.close(figure)
        pyplot.close(other)
    run.finish()

    with stepscope.read_run(run.stepscope_run.path) as record:
        pictures = [record.images(name)[0].png for name in ("module", "image", "figure")]
    assert pictures == [pictures[-1]] * 3


def test_what_gathers_at_the_end_is_not_lost():
    run = wandb.init()
    wandb.log({"a": 1}, commit=False)
    run.stepscope_run.close()  # as at the end of a script without finish
    assert series(run, "a") == [(0, 1)]


def test_each_type_of_value_is_recorded(folder):
    weight = torch.tensor([[1.5]], requires_grad=True)
    grown = wandb.Table(columns=["x", "y"], data=[[1, "a"]])
    changed = torch.zeros(4)
    run = wandb.init()
    wandb.log(
        {
            "plain": {"int": 1, "deep": {"bool": True}},
            "numpy": np.float32(0.5),
            "one": np.array([2.0]),
            "tensor": weight,
            "nan": math.nan,
            "inf": torch.tensor(-math.inf),
            "none": None,
            "text": "hello",
            "odd key: \N{SNOWMAN} %/..": 1,
            "list": [1.0, 2.0, 3.0],
            "changed": changed,
            "names": ["a", "b"],
            "images": [wandb.Image(np.zeros((4, 5, 3), np.uint8), caption="black"), wandb.Image(torch.rand(3, 4, 5))],
            "counted": wandb.Histogram(np_histogram=np.histogram([1, 2, 2], bins=2)),
            "values": wandb.Histogram([1, 2, 3]),
            "table": grown,
            "html": wandb.Html("<b>bold</b>"),
            "sound": wandb.Audio(np.zeros(100), sample_rate=8000, caption="silence"),
            "film": wandb.Video(np.zeros((2, 3, 8, 8), np.uint8)),
        },
        commit=False,
    )
    changed.fill_(9)
    grown.add_data(2, "b")
    wandb.finish()
    with stepscope.read_run(run.stepscope_run.path) as record:
        scalars = {
            name: record.scalars(name).values[0]
            for name in ("plain/int", "plain/deep/bool", "numpy", "one", "tensor", "nan", "inf", "odd key: ☃ %/..")
        }
        np.testing.assert_array_equal(list(scalars.values()), [1, 1, 0.5, 2, 1.5, math.nan, -math.inf, 1])
        assert record.histograms("changed")[0].max == 0
        assert record.histograms("list")[0].count == 3
        assert record.texts("text")[0].text == "hello"
        assert record.texts("names")[0].text == '["a", "b"]'
        assert record.images("images/1")[0].width == 5
        assert record.texts("images/0/caption")[0].text == "black"
        assert record.tables("counted")[0].rows[-1][-1] == 2
        assert record.tables("table")[0].rows == ((1, "a"),)
        files = {one.name: one.path.read_bytes()[:4] for one in record.files()}
        assert files == {"html": b"<b>b", "sound": b"RIFF", "film": b"GIF8"}
        assert ("scalar", "none") not in names(run)


@pytest.mark.parametrize(
    ("data", "says"),
    [
        ([1], "expected a mapping"),
        ({1: 2}, "key 1 is int; expected str"),
        ({"": 1}, "has 0 characters"),
        ({"a": object()}, "'a' is object"),
        ({"a": 1j}, "'a' is complex"),
        ({"a": torch.ones(1, dtype=torch.complex64)}, "complex tensor"),
        ({"a": np.array(["x", "y"])}, "array of <U1"),
    ],
)
def test_what_cannot_be_recorded_is_named_and_nothing_of_it_stays(data, says):
    run = wandb.init()
    with pytest.raises(stepscope.ArtifactError, match=says):
        wandb.log(data)
    wandb.log({"good": 1})
    wandb.finish()
    assert series(run, "good") == [(0, 1)]


def test_the_configuration_is_the_runs():
    run = wandb.init(config={"lr": 0.1, "secret": 1}, config_exclude_keys=["secret"])
    wandb.config.update(argparse.Namespace(epochs=3))
    wandb.config.depth = 2
    wandb.config["lr"] = 0.1
    wandb.config.setdefaults({"lr": 9, "width": 4})
    with pytest.raises(ConfigError, match="'lr' is 0"):
        wandb.config.lr = 0.2
    wandb.config.update({"lr": 0.3}, allow_val_change=True)
    assert (wandb.config.lr, run.config["depth"], "secret" in wandb.config) == (0.3, 2, False)
    assert dict(wandb.config.items()) == dict(wandb.config)
    wandb.finish()
    with stepscope.read_run(run.stepscope_run.path) as record:
        assert record.info.config == {"lr": 0.3, "epochs": 3, "depth": 2, "width": 4}


def test_a_run_is_described_and_found_again():
    with wandb.init(project="p", id="abc", name="first", tags=["t"], group="g", notes="slow", job_type="train") as run:
        run.log({"a": 1})
        run.name = "renamed"
        run.tags += ("more",)
        assert (run.id, run.project, run.group, run.job_type, run.notes) == ("abc", "p", "g", "train", "slow")
    assert wandb.run is None
    assert run.stepscope_run.path.parts[-3:] == ("runs", "p", "abc")
    with wandb.init(project="p", id="abc", resume="must") as again:
        assert (again.resumed, again.step) == (True, 1)
        again.log({"a": 2})
    with pytest.raises(stepscope.RunExistsError):
        wandb.init(project="p", id="abc", resume="never")
    with wandb.init(project="p", id="abc") as other:
        assert other.stepscope_run.path.name == "abc-2"
    with pytest.raises(stepscope.NotARunError, match="resume is 'must'"):
        wandb.init(project="p", id="gone", resume="must")
    assert series(run, "a") == [(0, 1), (1, 2)]
    with stepscope.read_run(run.stepscope_run.path) as record:
        assert record.info.name == "renamed"
        assert set(record.info.tags) >= {"project:p", "group:g", "job_type:train"}
        assert record.texts("notes")[0].text == "slow"


def test_a_second_init_returns_the_run_that_goes_on(capsys):
    first = wandb.init()
    assert wandb.init(project="other") is first
    assert "is still open and is returned" in capsys.readouterr().err
    second = wandb.init(reinit=True)
    assert second is not first
    assert first.stepscope_run.info.status == "finished"
    third = wandb.init(reinit="create_new")
    assert wandb.run is third
    third.finish()
    assert wandb.run is second


def test_a_run_that_raises_is_failed():
    with pytest.raises(ZeroDivisionError), wandb.init() as run:
        1 / 0  # noqa: B018
    assert run.stepscope_run.info.status == "failed"
    with pytest.raises(stepscope.ArtifactError, match="is finished"):
        run.log({"a": 1})


def test_disabled_records_nothing(folder):
    with wandb.init(mode="disabled", config={"lr": 1}) as run:
        run.log({"a": 1})
        run.alert("x", "y")
        assert (run.config.lr, run.summary["a"], run.step) == (1, 1.0, 1)
    assert list(folder.iterdir()) == []


def test_before_init_and_what_is_refused():
    with pytest.raises(UnsupportedCallError, match="log was called before"):
        wandb.log({"a": 1})
    with pytest.raises(UnsupportedCallError, match="config was called before"):
        wandb.config  # noqa: B018
    with pytest.raises(UnsupportedCallError, match="init does not take sync_tensorboard=True"):
        wandb.init(sync_tensorboard=True)
    with pytest.raises(UnsupportedCallError, match="Image does not take boxes"):
        wandb.Image(np.zeros((2, 2)), boxes={"a": 1})
    with pytest.raises(UnsupportedCallError, match="Settings has no colour"):
        wandb.init(settings={"colour": 1})
    with pytest.raises(stepscope.RunError, match="mode is 'on'"):
        wandb.init(mode="on")
    run = wandb.init(settings=wandb.Settings(project="q", silent=True))
    assert run.project == "q"
    with pytest.raises(UnsupportedCallError, match="has no link_model"):
        run.link_model("x")


def test_summary_alerts_files_and_artifacts(folder):
    (folder / "model.pt").write_bytes(b"weights")
    run = wandb.init()
    assert wandb.define_metric("val/*", summary="min,max").summary == ("min", "max")
    for value in (3.0, 1.0, 2.0):
        wandb.log({"val/loss": value, "loss": value})
    wandb.summary["best"] = 0.5
    run.summary.update({"note": "fine"})
    assert wandb.summary["loss"] == 2.0
    assert wandb.summary["val/loss.min"] == 1.0
    wandb.alert("slow", "the loader waits", level=wandb.AlertLevel.WARN)
    wandb.alert("slow", "again")
    assert wandb.save("*.pt") == ["model.pt"]
    artifact = wandb.Artifact("weights", type="model", metadata={"epoch": 3})
    artifact.add_file("model.pt")
    with artifact.new_file("about.txt") as stream:
        stream.write("text")
    wandb.log_artifact(artifact)
    Path(wandb.run.dir, "late.txt").write_text("late")
    wandb.finish()
    with stepscope.read_run(run.stepscope_run.path) as record:
        files = {one.name: one.path.read_bytes() for one in record.files()}
        assert files["files/model.pt"] == files["artifact/weights/model.pt"] == b"weights"
        assert (files["artifact/weights/about.txt"], files["files/late.txt"]) == (b"text", b"late")
        (alert,) = record.alerts()
        assert (alert.name, alert.message, alert.level) == ("slow", "the loader waits", "warning")
        assert record.scalars("summary/val/loss.max").values.tolist() == [3.0]
        assert record.texts("summary/note")[0].text == "fine"
        assert json.loads(record.texts("artifact/weights")[0].text.strip("`json\n"))["metadata"] == {"epoch": 3}


def test_many_threads_log_at_once():
    run = wandb.init()
    threads = [
        threading.Thread(target=lambda name=name: [wandb.log({name: step}) for step in range(50)]) for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    wandb.finish()
    assert run.step == 200
    steps = sorted(step for name in "abcd" for step, _ in series(run, name))
    assert steps == list(range(200))


class Logging(torch.utils.data.Dataset):
    def __len__(self):
        return 8

    def __getitem__(self, index):
        wandb.log({"worker": index})
        return torch.tensor(float(index))


def test_a_data_loaders_worker_writes_nothing_and_does_not_hang():
    run = wandb.init()
    loader = torch.utils.data.DataLoader(Logging(), num_workers=2, multiprocessing_context="fork")
    assert sum(batch.item() for batch in loader) == 28
    wandb.log({"a": 1})
    wandb.finish()
    assert series(run, "a") == [(0, 1)]
    assert ("scalar", "worker") not in names(run)


def trained(tracker):
    torch.manual_seed(0)
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.Dropout(0.5), torch.nn.Linear(8, 1))
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    run = tracker.init(project="p", mode=None if tracker is wandb else "disabled")
    tracker.watch(model, log="all")
    losses = []
    for _ in range(10):
        optimizer.zero_grad()
        loss = model(torch.randn(16, 4)).square().mean()
        loss.backward()
        optimizer.step()
        tracker.log({"loss": loss, "train/loss": loss})
        losses.append(loss.item())
    tracker.finish()
    return losses, [one.detach() for one in model.parameters()], run


def test_watch_measures_from_the_first_step_and_the_training_is_the_same():
    theirs = trained(pytest.importorskip("wandb"))
    ours = trained(wandb)
    assert ours[0] == theirs[0]
    assert all(map(torch.equal, ours[1], theirs[1]))
    run = ours[2]
    for name in ("logged/loss", "train/loss", "total_norm/gradients"):
        assert len(series(run, name)) == 10, name
    assert [value for _, value in series(run, "loss")] == ours[0][1:]  # the first backward came before the session
    assert [value for _, value in series(run, "logged/loss")] == ours[0]
    assert ("text", "stepscope/report") in names(run)


def test_stepscope_watch_takes_the_same_run():
    run = wandb.init()
    model = torch.nn.Linear(4, 1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    with stepscope.watch(model, optimizer, run=run.stepscope_run):
        for _ in range(3):
            model(torch.ones(2, 4)).mean().backward()
            optimizer.step()
            wandb.log({"train/loss": 1.0})
    wandb.finish()
    assert len(series(run, "train/loss")) == len(series(run, "total_norm/gradients")) == 3


def test_under_stepscope_run_the_script_joins_its_run(folder):
    with stepscope.open_run(folder / "own", sinks=[]) as own, script_run(own):
        run = wandb.init(project="p", config={"lr": 0.1})
        wandb.log({"loss": 1.0})
        wandb.watch(torch.nn.Linear(1, 1))
        wandb.finish()
        assert run.stepscope_run is own
        assert own.info.status == "running"
        own.flush_store()
    assert series(run, "logged/loss") == [(0, 1.0)]
    assert own.info.config == {"lr": 0.1}
