"""Wrong arguments: named at the caller's line, with nothing written and nothing lost."""

import math

import numpy as np
import pytest
from tracker_adapters.errors import ArtifactError, RunError, SinkConfigError
from tracker_adapters.store.layout import DELIVERY_DATABASE, rank_folder
from tracker_adapters.testing import MemorySink

import stepscope
from stepscope.runs.folders import find_runs


@pytest.mark.parametrize(
    "call",
    [
        lambda run: run.scalar("x", "1", step=0),
        pytest.param(lambda run: run.scalar("x", 1, step=-1), marks=pytest.mark.slow),
        lambda run: run.scalar("x", 1, step=0.5),
        pytest.param(lambda run: run.scalar("x", 1, step=2**63), marks=pytest.mark.slow),
        pytest.param(lambda run: run.scalar("x", 1), marks=pytest.mark.slow),
        pytest.param(lambda run: run.scalar("", 1, step=0), marks=pytest.mark.slow),
        lambda run: run.histogram("x", [1 + 2j], step=0),
        lambda run: run.image("x", np.zeros((2, 2)), step=0, layout="HW"),
        pytest.param(
            lambda run: run.image("x", np.zeros((2, 2), np.uint8), step=0, layout="WH"), marks=pytest.mark.slow
        ),
        lambda run: run.page("/no/such/page.pkl", step=0),
        lambda run: run.alert("x", "m", step=0, level="fatal"),
        pytest.param(lambda run: run.table("x", ["a"], [[1, 2]], step=0), marks=pytest.mark.slow),
    ],
)
def test_wrong_arguments_raise_at_the_caller_and_lose_nothing(tmp_path, call):
    sink = MemorySink()
    with stepscope.open_run(tmp_path, sinks=[sink]) as run:
        run.scalar("before", 1, step=0)
        with pytest.raises(ArtifactError, match=r"expected|no step|need value_range"):
            call(run)
        run.scalar("after", 1, step=0)
    assert [a.name for a in sink.artifacts] == ["before", "after"]


@pytest.mark.parametrize(
    ("wrong", "kind", "message"),
    [
        ({"sinks": ["tensorbord"]}, SinkConfigError, "did you mean 'tensorboard'"),
        ({"sinks": None}, SinkConfigError, "None is not a sink"),
        ({"sinks": [MemorySink(), MemorySink()]}, SinkConfigError, "two 'MemorySink' sinks have the target 'memory'"),
        ({"on_error": "ignore"}, RunError, "on_error is 'ignore'; expected"),
        ({"delivery": "carrier pigeon"}, RunError, "delivery is 'carrier pigeon'; expected"),
        ({"config": [1]}, ArtifactError, "expected a dict"),
        ({"tags": "abc"}, ArtifactError, "expected a list of str"),
        ({"tags": 5}, ArtifactError, "expected a list of str"),
        ({"name": 5}, ArtifactError, "expected a str"),
        ({"rank": -1}, RunError, "rank is -1; expected an integer of at least 0"),
        ({"rank": "1"}, RunError, "rank is '1'; expected an integer of at least 0"),
        ({"rank": True}, RunError, "rank is True; expected an integer of at least 0"),
    ],
)
def test_wrong_arguments_of_open_run_write_nothing(tmp_path, wrong, kind, message):
    with pytest.raises(kind, match=message):
        stepscope.open_run(tmp_path / "run", **wrong)
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("path", "message"),
    [
        (5, "path is int 5; expected the path of the run's folder"),
        ("a\0b", "is impossible"),
        ("/proc/stepscope-run", "expected a writable folder"),
    ],
)
def test_a_path_that_can_hold_no_run_is_refused(path, message):
    with pytest.raises(RunError, match=message):
        stepscope.open_run(path, sinks=[])


@pytest.mark.parametrize("timeout", ["soon", True, float("nan"), None])
def test_a_timeout_is_a_number_and_a_wrong_one_leaves_the_run_open(tmp_path, timeout):
    with stepscope.open_run(tmp_path, sinks=[]) as run:
        for call in (run.flush, run.close, lambda wrong: run.finish(timeout=wrong)):
            with pytest.raises(RunError, match="expected seconds as a number"):
                call(timeout)
        run.scalar("loss", 1, step=0)
    assert run.stats.stored == 1


def test_a_timeout_may_be_negative_or_infinite(tmp_path):
    run = stepscope.open_run(tmp_path, sinks=[MemorySink()])
    run.scalar("loss", 1, step=0)
    assert isinstance(run.flush(-1), bool)
    assert run.flush_store(math.inf)
    assert run.flush(math.inf)
    assert run.close(math.inf)


def test_a_relative_path_stays_where_it_was_when_the_process_moves(tmp_path, monkeypatch):
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    with stepscope.open_run("run", sinks=["local"]) as run:
        monkeypatch.chdir(tmp_path / "elsewhere")
        run.scalar("loss", 1, step=0)
    assert (tmp_path / "run" / "local" / "scalars.csv").exists()
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_a_failed_opening_leaves_the_folder_free(tmp_path):
    stepscope.open_run(tmp_path, sinks=[]).close()
    ledger = rank_folder(tmp_path, 0) / DELIVERY_DATABASE
    ledger.mkdir()
    with pytest.raises(RunError, match=r"delivery\.db is not a regular file"):
        stepscope.open_run(tmp_path, sinks=[MemorySink()], resume=True)
    ledger.rmdir()
    stepscope.open_run(tmp_path, sinks=[MemorySink()], resume=True).close()


def test_a_tilde_is_the_users_own_folder(tmp_path, monkeypatch):
    monkeypatch.setenv("HOME", str(tmp_path))
    with stepscope.open_run("~/runs/exp1", sinks=[]) as run:
        run.scalar("loss", 1.0, step=0)

    assert run.path == tmp_path / "runs/exp1"
    assert stepscope.read_run("~/runs/exp1").scalars("loss").values == [1.0]
    assert find_runs(["~/runs"]) == find_runs(["~/runs/*"]) == [run.path]


def test_an_empty_path_is_refused(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(RunError, match="path is ''; expected the path of the run's folder"):
        stepscope.open_run("")
    assert list(tmp_path.iterdir()) == []


def test_a_folder_in_the_place_of_a_file_is_named(tmp_path):
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        pytest.raises(ArtifactError, match=r"file '\.': .* is not a regular file"),
    ):
        run.file(".", step=0)
