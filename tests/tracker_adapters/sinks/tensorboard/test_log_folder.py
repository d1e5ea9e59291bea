"""Where TensorBoard is started, so that it calls a run by the run's name and searches nothing else."""

import pytest
from tracker_adapters.sinks.tensorboard import TensorBoardSink

import stepscope


@pytest.fixture
def runs(tmp_path):
    for name in ("exp1", "exp2"):
        stepscope.open_run(tmp_path / "runs" / name, sinks=[]).close()
    (tmp_path / "runs" / "mlartifacts").mkdir()
    (tmp_path / "runs" / "mlflow.db").touch()
    return tmp_path / "runs"


def command(options, run):
    return TensorBoardSink.look(TensorBoardSink.resolve(options, run)).split(" --samples_per_plugin")[0]


def test_in_a_folder_of_runs_it_shows_them_all_by_their_names(runs):
    assert command({}, runs / "exp1") == f"tensorboard --logdir {runs}"


@pytest.mark.parametrize("beside", ["data", "many runs"])
def test_beside_anything_else_it_looks_at_one_run_and_gives_its_name(runs, beside):
    for name in [f"exp{number}" for number in range(3, 60)] if beside == "many runs" else ["data"]:
        (runs / name).mkdir()
        if beside == "many runs":
            (runs / name / "run.json").touch()
    assert command({}, runs / "exp1") == f"tensorboard --logdir_spec exp1:{runs / 'exp1'}"


def test_a_name_that_tensorboard_would_take_apart_is_not_given(runs):
    (runs / "data").mkdir()
    stepscope.open_run(runs / "lr:0.1,a", sinks=[]).close()
    assert command({}, runs / "lr:0.1,a") == f"tensorboard --logdir {runs / 'lr:0.1,a'}"


def test_a_target_elsewhere_is_called_by_its_own_name(runs, tmp_path):
    assert command({"target": str(tmp_path / "events")}, runs / "exp1") == f"tensorboard --logdir {tmp_path}"
