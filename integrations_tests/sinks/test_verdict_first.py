"""What leads from a tracker to what is wrong: the verdict in MLflow's description and W&B's notes, and alerts."""

import html
from pathlib import Path

import pytest
from mlflow_delivery import client_of, opened, the_run, with_database
from mlflow_delivery import deliver as deliver_to_mlflow
from readback_tensorboard import read_back
from readback_wandb import history, run_folders
from tracker_adapters.artifacts import Scalar, Text
from tracker_adapters.batch import Batch
from tracker_adapters.reports import Report
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.sinks.wandb import WandbSink
from wandb_runs import carried

import stepscope

REPORT = "Verdict: warning (score 0.55), likely because the learning rate is too high.  \n1. lr: 1 → 0.003"
VERDICT = "warning (score 0.55), likely because the learning rate is too high."


def reports(*, scope=""):
    return [
        Text(name=f"{scope}stepscope/report", text="Verdict: healthy.", step=0),
        Scalar(name="loss", value=1.0, step=1),
        Text(name=f"{scope}stepscope/report", text=REPORT, step=1),
        Text(name="notes/report", text="Verdict: none of ours.", step=1),
    ]


def test_mlflow_shows_the_last_report_as_description_and_the_verdict_as_a_column(tmp_path):
    options = with_database(MLflowSink.resolve({}, tmp_path / "exp1"))
    deliver_to_mlflow(options, reports())
    tags = the_run(options).data.tags
    assert tags["mlflow.note.content"] == REPORT
    assert tags["stepscope.verdict"] == VERDICT


def test_mlflow_describes_a_run_of_several_sessions_by_their_verdicts_the_worst_first(tmp_path):
    options = with_database(MLflowSink.resolve({}, tmp_path / "exp1"))
    token = deliver_to_mlflow(options, reports(scope="D/"))
    assert the_run(options).data.tags["mlflow.note.content"] == f"D: {VERDICT}"
    # Another process goes on after the first session.
    sink = opened(options, token)
    sink.write(Batch.of([Text(name="A/stepscope/report", text="Verdict: healthy.", step=2)], first_seq=4))
    sink.close()
    tags = the_run(options).data.tags
    assert tags["mlflow.note.content"] == f"D: {VERDICT}  \nA: healthy."
    assert (tags["stepscope.verdict.D"], tags["stepscope.verdict.A"]) == (VERDICT, "healthy.")


def test_a_description_has_the_worst_verdict_first_and_the_whole_report_of_a_session_without_a_scope():
    said = {
        "fine": "healthy.",
        "bad": "warning (score 0.55).",
        "": "critical.",
        "worse": "warning (score 0.20).",
        "part": "no problem in what was checked (score 0.99): a gap.",
        "off": "",
    }
    told = {}
    for scope, verdict in said.items():
        name = f"{scope}/stepscope/report".lstrip("/")
        text = f"Verdict: {verdict}\nSteps: 3." if verdict else "Steps: 3."
        description = Report.of(Text(name=name, text=text, step=1)).described(told)
    verdicts, _, report = description.partition("\n\n")
    shown = ["session without a scope", "worse", "bad", "part", "fine"]
    assert [line.partition(": ")[0] for line in verdicts.split("  \n")] == shown
    assert report == "Verdict: critical.\nSteps: 3."
    assert Report.of(Text(name="D/stepscope/report", text="Steps: 3.", step=1)).described({}) == ""


def test_the_description_of_a_run_that_is_somebody_elses_stays(tmp_path):
    options = with_database(MLflowSink.resolve({}, tmp_path / "exp1"))
    client = client_of(options)
    theirs = client.create_run(client.create_experiment("theirs"), tags={"mlflow.note.content": "mine"})
    deliver_to_mlflow(options | {"run_id": theirs.info.run_id}, reports())
    tags = client.get_run(theirs.info.run_id).data.tags
    assert tags["mlflow.note.content"] == "mine"
    assert tags["stepscope.verdict"] == VERDICT


@pytest.mark.parametrize("mode", ["offline", pytest.param("online", marks=pytest.mark.slow)])
def test_wandb_has_the_report_as_notes_and_the_verdict_in_its_summary(server_of_wandb, tmp_path, mode):
    options = WandbSink.resolve({"project": "p", "tags": ["a"], "mode": mode}, tmp_path / "run")
    carried(options, Batch.of(reports()))
    if mode == "offline":
        assert "Finished syncing" in server_of_wandb.sync(Path(options["target"], "wandb"))
    (run,) = server_of_wandb.runs.values()
    assert run.about["notes"] == REPORT
    assert run.about["tags"] == ["t1", "a"]
    assert run.summary["stepscope/verdict"] == VERDICT


def test_wandb_has_the_verdicts_of_several_sessions_as_notes_also_after_a_restart(server_of_wandb, tmp_path):
    options = WandbSink.resolve({"project": "p"}, tmp_path / "run")
    token = carried(options, Batch.of([Text(name="A/stepscope/report", text="Verdict: healthy.", step=0)]), status=None)
    carried(options, Batch.of(reports(scope="D/"), first_seq=2), token)
    assert "Finished syncing" in server_of_wandb.sync(Path(options["target"], "wandb"))
    (run,) = server_of_wandb.runs.values()
    assert run.about["notes"] == f"D: {VERDICT}  \nA: healthy."
    assert run.summary["D/stepscope/verdict"] == VERDICT


def test_alerts_say_in_each_tracker_how_to_see_the_run(tmp_path):
    folder = tmp_path / "exp 1"
    database = f"sqlite:///{tmp_path / 'mlflow.db'}"
    with stepscope.open_run(folder, sinks=["tensorboard", f"mlflow:{database}", "wandb"], delivery="thread") as run:
        run.alert("nan", "loss is <NaN>", step=3, level="error")
        run.alert("trace", "one\n  two", step=4)
        run.text("note", "text", step=4)
    command = f"stepscope view '{folder}'"
    shown = {one.name: one.value for one in read_back({"target": str(folder)}) if one.kind == "text"}
    assert shown["nan"].split("\n") == ["ERROR loss is <NaN>", "In the viewer:", command, ""]
    assert shown["trace"].split("\n") == ["WARNING", "one", "  two", "", "In the viewer:", command, ""]
    assert command not in shown["note"]
    [ours] = run_folders({"target": str(folder)})
    page = {name: value for row in history(ours) for name, value in row.items() if name in ("nan", "note")}
    texts = {name: (ours / "files" / value["path"]).read_text() for name, value in page.items()}
    assert html.unescape(texts["nan"]).endswith(f"<p>In the viewer: <code>{command}</code></p>")
    assert "stepscope view" not in texts["note"]
    tags = the_run({"target": database, "experiment": "stepscope"}).data.tags
    assert tags["stepscope.alert.nan"].endswith(f"error: loss is <NaN>\n{command}")
