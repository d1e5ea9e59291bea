"""Trainings and commands where a stream is closed, or a folder is gone or no folder."""

import subprocess
import sys

import pytest
from tracker_adapters.errors import NotARunError

import stepscope

# A name that is taken, an alert, and a run that is closed: each is told on standard error.
TRAINING = """
import stepscope, sys
for _ in range(2):
    run = stepscope.open_run(sys.argv[1], sinks=["local"])
    run.alert("exploding_gradient", "fc1: norm 3e5", step=0)
    assert run.close()
"""


def train(folder, how):
    """Runs the training in a shell, as ``how`` says; the path of its run comes last."""
    return subprocess.run(
        ["bash", "-c", how, "bash", sys.executable, "-c", TRAINING, str(folder)],
        check=False,
        capture_output=True,
        text=True,
        timeout=120,
    )


def skip_unless_python_runs_in_a_folder_that_is_gone(tmp_path):
    how = f'mkdir "{tmp_path}/gone" && cd "{tmp_path}/gone" && rmdir "$PWD" && "$@"'
    command = ["bash", "-c", how, "bash", sys.executable, "-c", "import numpy"]
    if subprocess.run(command, check=False, capture_output=True, timeout=120).returncode:
        pytest.skip("this Python does not even import NumPy there; 3.13.0 is known for it")


@pytest.mark.parametrize(
    "how",
    [
        pytest.param('"$@" 2>&-', id="no standard error", marks=pytest.mark.slow),
        pytest.param('"$@" >&- 2>&- <&-', id="no stream at all"),
        pytest.param(
            'mkdir "${@: -1}.gone" && cd "${@: -1}.gone" && rmdir "$PWD" && "$@"',
            id="no working folder",
            marks=pytest.mark.slow,
        ),
    ],
)
def test_a_training_ends_well(tmp_path, how):
    if "rmdir" in how:
        skip_unless_python_runs_in_a_folder_that_is_gone(tmp_path)
    done = train(tmp_path / "run", how)

    assert (done.returncode, done.stdout) == (0, "")
    assert "Traceback" not in done.stderr
    for name in ("run", "run-2"):
        assert [alert.name for alert in stepscope.read_run(tmp_path / name).alerts()] == ["exploding_gradient"]


def test_a_relative_path_in_a_folder_that_is_gone_is_refused_by_name(tmp_path):
    skip_unless_python_runs_in_a_folder_that_is_gone(tmp_path)
    done = train("runs/exp1", f'mkdir "{tmp_path}/gone" && cd "{tmp_path}/gone" && rmdir "$PWD" && "$@"')

    assert done.returncode == 1
    assert "RunError: path is 'runs/exp1', and the working folder was removed" in done.stderr


@pytest.mark.parametrize("path", ["file", "file/run"])
def test_a_file_in_the_place_of_a_folder_is_refused_by_name(tmp_path, path):
    (tmp_path / "file").write_text("x")

    with pytest.raises(NotARunError, match=f"cannot write into {tmp_path / path}: .*; expected a writable folder"):
        stepscope.open_run(tmp_path / path, sinks=["tensorboard", "local"])


@pytest.mark.slow
@pytest.mark.parametrize("closed", [">&-", ">&- 2>&-"])
def test_a_command_without_a_stream_ends_well(tmp_path, closed):
    stepscope.open_run(tmp_path / "run", sinks=[]).close()
    for command, code in ((f"ls '{tmp_path}'", 0), (f"ls '{tmp_path}/none'", 2)):
        shell = f"{sys.executable} -m stepscope {command} {closed}"
        done = subprocess.run(["bash", "-c", shell], check=False, capture_output=True, text=True, timeout=120)
        assert (done.returncode, "Traceback" in done.stderr) == (code, False)


LEFT_OPEN = """
import torch, stepscope
torch.manual_seed(0)
model = torch.nn.Linear(4, 2)
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
session = stepscope.watch(model, optimizer)
for _ in range(30):
    optimizer.zero_grad()
    model(torch.randn(8, 4)).square().mean().backward()
    optimizer.step()
"""


@pytest.mark.parametrize("end", ["", "raise SystemExit(3)", "raise ValueError('the end')", "session.close()"])
def test_a_session_that_a_script_leaves_open_tells_its_verdict_once_when_it_ends(end):
    done = subprocess.run(
        [sys.executable, "-c", LEFT_OPEN + end], check=False, capture_output=True, text=True, timeout=120
    )
    assert len([line for line in done.stderr.splitlines() if "Checked: the gradients of all 30 steps" in line]) == 1
    assert done.returncode == {"": 0, "session.close()": 0, "raise SystemExit(3)": 3}.get(end, 1)
