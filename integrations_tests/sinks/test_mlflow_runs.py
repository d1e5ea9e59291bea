"""Which MLflow run ours becomes: its own, the user's active one, or a child after a rewind."""

import json
from collections import Counter
from pathlib import Path

import mlflow
import pytest
from mlflow_delivery import client_of, deliver, opened, scalars, the_run, with_database
from readback_mlflow import artifact_paths, our_runs, read_back, read_index
from tracker_adapters.artifacts import RunInfo, Table
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkError, StartOver
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import TIME_NS, one_of_each

import stepscope


@pytest.fixture
def options(tmp_path):
    return with_database(MLflowSink.resolve({}, tmp_path / "exp1"))


class TestRun:
    def test_configuration_becomes_params_and_tags_become_tags(self, options):
        config = {"optim": {"lr": 0.1}, "long": "x" * 7000, "odd[0]": None, "empty": ""}
        info = RunInfo(id="r1", name="a name", config=config, tags=("baseline", "50%"), created_ns=TIME_NS)
        deliver(options, scalars("loss", [1, 2]), info)
        run = the_run(options)
        assert run.data.params["optim.lr"] == "0.1"
        assert run.data.params["odd:5B0:5D"] == "None"
        assert run.data.params["empty"] == ""
        assert len(run.data.params["long"]) == 6000
        assert run.data.params["long"].endswith(" … (7000 characters)")
        assert run.data.tags["stepscope.tag.baseline"] == "baseline"
        assert run.data.tags["stepscope.tag.50:25"] == "50%"
        assert run.info.run_name == "a name"
        assert run.info.start_time == TIME_NS // 1_000_000
        assert run.info.end_time == TIME_NS // 1_000_000 + 2

    @pytest.mark.parametrize(("status", "shown"), [("finished", "FINISHED"), ("failed", "FAILED")])
    def test_the_status_is_that_of_the_run_and_running_again_after_a_resume(self, options, status, shown):
        sink = opened(options)
        token = sink.flush()
        sink.finish(status)
        assert the_run(options).info.status == shown
        sink = opened(options, token)
        assert the_run(options).info.status == "RUNNING"

    def test_who_trained_with_what_stands_where_mlflow_looks_for_it(self, options, monkeypatch):
        monkeypatch.setenv("STEPSCOPE_SCRIPT", "train.py")
        monkeypatch.setenv("LOGNAME", "ada")
        token = deliver(options, scalars("loss", [1]))
        monkeypatch.setenv("STEPSCOPE_SCRIPT", "/usr/bin/stepscope")
        opened(options, token)
        tags = the_run(options).data.tags
        assert (tags["mlflow.source.name"], tags["mlflow.source.type"], tags["mlflow.user"]) == (
            "train.py",
            "LOCAL",
            "ada",
        )

    def test_a_resume_adds_only_new_params(self, options):
        token = opened(options, info=RunInfo(id="r", name="r", config={"lr": 0.1})).flush()
        opened(options, token, RunInfo(id="r", name="r", config={"lr": 0.2, "wd": 0}))
        assert the_run(options).data.params == {"lr": "0.1", "wd": "0"}

    def test_a_deleted_run_starts_over(self, options):
        token = deliver(options, scalars("loss", [1]))
        client_of(options).delete_run(the_run(options).info.run_id)
        with pytest.raises(StartOver, match="is gone"):
            opened(options, token)
        deliver(options, scalars("loss", [1]))
        assert len(read_back(options)) == 1

    def test_a_deleted_experiment_is_named(self, options):
        deliver(options, [])
        client_of(options).delete_experiment(the_run(options).info.experiment_id)
        with pytest.raises(SinkError, match="experiment 'stepscope' was deleted"):
            opened(options)


class TestJoining:
    @pytest.fixture
    def active(self, tmp_path, monkeypatch):
        """The user's own run, with a relative database as in MLflow's own examples."""
        monkeypatch.chdir(tmp_path)
        # MLflow keeps one connection for a URI as it is written, so each test needs a name of its own.
        with_database({"target": f"sqlite:///{tmp_path / tmp_path.name}.db"})
        mlflow.set_tracking_uri(f"sqlite:///{tmp_path.name}.db")
        with mlflow.start_run(run_name="mine") as run:
            mlflow.log_param("optim.lr", 5)
            yield run
        mlflow.set_tracking_uri(None)  # takes MLFLOW_TRACKING_URI away again

    def test_the_active_run_is_joined_and_neither_ended_nor_renamed(self, active, tmp_path):
        options = MLflowSink.resolve({}, tmp_path / "runs/exp1")
        assert options["run_id"] == active.info.run_id
        assert options["target"] == f"sqlite:///{tmp_path / tmp_path.name}.db"
        artifacts = one_of_each(tmp_path)
        sink = opened(options)
        sink.write(Batch.of(artifacts))
        token = sink.flush()
        sink.finish("failed")
        sink.close()
        sink = opened(options, token)
        sink.finish("finished")
        mine = client_of(options).get_run(active.info.run_id)
        assert (mine.info.status, mine.info.run_name) == ("RUNNING", "mine")
        assert mine.data.params["optim.lr"] == "5"
        assert Counter(s.kind for s in read_back(options)) == Counter(a.kind for a in artifacts)
        folders = {path.split("/")[0] for path in artifact_paths(client_of(options), active.info.run_id)}
        assert folders == {"stepscope", "images"}

    @pytest.mark.slow
    def test_two_runs_in_one_active_run_stay_apart(self, active, tmp_path):
        options = MLflowSink.resolve({}, tmp_path / "runs/exp1")
        for number in (1, 2):
            deliver(options, one_of_each(tmp_path), RunInfo(id=f"run{number}", name="r"))
        paths = artifact_paths(client_of(options), active.info.run_id)
        assert sum("texts/" in path for path in paths) == 2
        assert sum(path.startswith("images/") and "compressed" not in path for path in paths) == 2

    def test_tables_of_the_users_own_stay_listed_beside_ours(self, active, tmp_path):
        sink = opened(MLflowSink.resolve({}, tmp_path / "exp1"))
        for number in (1, 2):
            table = Table(name="ours", columns=("x",), rows=((1,),), step=number)
            sink.write(Batch.of([table], first_seq=number))
            mlflow.log_table({"x": [1]}, f"mine{number}.json")
        tags = mlflow.get_run(active.info.run_id).data.tags
        listed = [Path(entry["path"]).stem for entry in json.loads(tags["mlflow.loggedArtifacts"])]
        assert listed == ["step_000000001_1", "mine1", "step_000000002_2", "mine2"]

    def test_another_experiment_or_target_is_left_alone(self, active, tmp_path):
        assert "run_id" not in MLflowSink.resolve({"experiment": "other"}, tmp_path / "exp1")
        assert "run_id" not in MLflowSink.resolve({"target": "sqlite:///other.db"}, tmp_path / "exp1")
        same = MLflowSink.resolve({"target": f"sqlite:///{tmp_path / tmp_path.name}.db"}, tmp_path / "exp1")
        assert same["run_id"] == active.info.run_id

    def test_a_resume_in_another_active_run_starts_over_there(self, active, tmp_path):
        token = opened(MLflowSink.resolve({}, tmp_path / "exp1")).flush()
        with mlflow.start_run(nested=True), pytest.raises(StartOver, match=active.info.run_id):
            opened(MLflowSink.resolve({}, tmp_path / "exp1"), token)

    def test_a_resume_without_an_active_run_goes_on_in_the_joined_one(self, active, tmp_path):
        options = MLflowSink.resolve({}, tmp_path / "exp1")
        token = opened(options).flush()
        without = MLflowSink.resolve({"experiment": "other", "target": options["target"]}, tmp_path / "exp1")
        sink = opened(without, token)
        sink.write(Batch.of(scalars("loss", [1])))
        sink.finish("finished")
        assert [s.name for s in read_back(options)] == ["loss"]
        assert client_of(options).get_run(active.info.run_id).info.status == "RUNNING"

    def test_a_run_that_does_not_exist_is_named(self, active, tmp_path):
        with pytest.raises(SinkError, match="'0123abcd' does not exist"):
            opened(MLflowSink.resolve({"run_id": "0123abcd"}, tmp_path / "exp1"))


class TestRewind:
    def test_an_attempt_that_goes_back_gets_a_child_run(self, options):
        first = Batch.of(scalars("loss", range(10)))
        again = Batch.of(scalars("loss", range(6, 12), time_ns=TIME_NS + 10**10), first_seq=11, attempt=2)
        sink = opened(options)
        sink.write(first)
        token = sink.flush()
        sink.write(again)
        for _ in range(2):  # the second round is a replay after a crash: it finds the same child
            sink = opened(options, token)
            sink.write(again)
        sink.flush()
        sink.finish("finished")
        parent, child = our_runs(options)
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert [run.info.status for run in (parent, child)] == ["FINISHED", "FINISHED"]
        steps = [
            [p.step for p in client_of(options).get_metric_history(r.info.run_id, "loss")] for r in (parent, child)
        ]
        assert steps == [list(range(10)), list(range(6, 12))]

    def test_an_attempt_that_goes_on_stays_in_its_run(self, options):
        sink = opened(options)
        sink.write(Batch.of(scalars("loss", range(5))))
        token = sink.flush()
        rest = Batch.of(
            [*scalars("val", [0, 1]), *scalars("loss", range(5, 9), time_ns=TIME_NS + 1)], first_seq=6, attempt=2
        )
        sink.write(rest)
        sink = opened(options, token)
        sink.write(rest)
        assert len(read_back(options)) == 11
        assert len(our_runs(options)) == 1

    @pytest.mark.parametrize("kind", ["histogram", pytest.param("image", marks=pytest.mark.slow)])
    def test_going_back_without_scalars_counts_too(self, options, tmp_path, kind):
        def only(step):
            return [artifact for artifact in one_of_each(tmp_path, step=step) if artifact.kind == kind]

        sink = opened(options)
        sink.write(Batch.of([artifact for step in range(5) for artifact in only(step)]))
        token = sink.flush()
        again = Batch.of(only(3), first_seq=6, attempt=2)
        sink.write(again)
        sink = opened(options, token)
        sink.write(again)
        parent, child = our_runs(options)
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id
        assert [(seen.kind, seen.step) for seen in read_back(options)] == [(kind, step) for step in (*range(5), 3)]

    def test_texts_and_files_may_come_again_at_any_step(self, options, tmp_path):
        repeated = [one for one in one_of_each(tmp_path, step=0) if one.kind in ("text", "alert", "table", "file")]
        sink = opened(options)
        sink.write(Batch.of([*repeated, *scalars("loss", range(5))]))
        sink.write(Batch.of(repeated, first_seq=10, attempt=2))
        sink.write(Batch.of(scalars("loss", [5], time_ns=TIME_NS + 1), first_seq=14, attempt=2))
        assert len(our_runs(options)) == 1
        assert len(read_back(options)) == 14


class TestRewindOfARun:
    """As the user does it: a run is opened again with ``resume=True`` and goes back."""

    @pytest.mark.slow
    def test_each_attempt_that_goes_back_is_a_child_of_the_one_before(self, options, tmp_path):
        folder = tmp_path / "exp1"
        for resume, steps in ((False, range(5)), (True, range(3, 7)), (True, range(7, 9)), (True, range(8, 10))):
            with stepscope.open_run(folder, sinks=["mlflow"], resume=resume, delivery="thread") as run:
                for step in steps:
                    run.scalar("loss", step / 8, step=step)
                    run.histogram("grad", [1.0, step], step=step)
        runs = our_runs(options)
        steps_of = [
            [point.step for point in client_of(options).get_metric_history(run.info.run_id, "loss")] for run in runs
        ]
        assert steps_of == [[0, 1, 2, 3, 4], [3, 4, 5, 6, 7, 8], [8, 9]]
        parents = [run.data.tags.get("mlflow.parentRunId") for run in runs]
        assert parents == [None, runs[0].info.run_id, runs[1].info.run_id]
        assert {run.info.status for run in runs} == {"FINISHED"}
        assert Counter(seen.kind for seen in read_back(options)) == {"scalar": 13, "histogram": 13}

    @pytest.mark.slow
    def test_a_rewind_within_the_users_run_gets_a_child_of_it(self, tmp_path):
        options = with_database(MLflowSink.resolve({}, tmp_path / "exp1"))
        client = client_of(options)
        users = client.create_run(client.create_experiment("mine", (tmp_path / "a").as_uri()), run_name="mine")
        joined = {"type": "mlflow", "target": options["target"], "run_id": users.info.run_id}
        for resume, steps in ((False, range(5)), (True, range(3, 6))):
            with stepscope.open_run(tmp_path / "exp1", sinks=[joined], resume=resume, delivery="thread") as run:
                for step in steps:
                    run.histogram("grad", [1.0, step], step=step)
        child, parent = client.search_runs([users.info.experiment_id])
        assert child.data.tags["mlflow.parentRunId"] == parent.info.run_id == users.info.run_id
        assert (parent.info.status, child.info.status) == ("RUNNING", "FINISHED")
        assert child.info.run_name == "mine (attempt 2)"
        read = [histogram["step"] for histogram in read_index(client, child.info.run_id)]
        assert read == [3, 4, 5]
