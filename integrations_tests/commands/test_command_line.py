"""The commands as a user types them. Most run in this process: starting one imports for half a second."""

import subprocess
import sys

import pytest
import torch
from click.testing import CliRunner

import stepscope
from stepscope.cli import main


def run_command(*arguments, cwd):
    return subprocess.run(
        [sys.executable, "-m", "stepscope", *arguments],
        cwd=cwd,
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )


@pytest.fixture
def run_folder(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[], name="digits [1]") as run:
        for step in range(10):
            run.scalar("train/loss", step / 4, step=step)
        run.scalar("odd [name]\n", float("nan"), step=3)
        run.text("notes", "x", step=0)
    return tmp_path / "run"


def test_ls_lists_names_kinds_counts_and_last_values(run_folder):
    done = run_command("ls", str(run_folder), cwd=run_folder)
    assert done.returncode == 0, done.stderr
    assert "digits [1] (finished)" in done.stdout
    rows = {
        tuple(cell.strip() for cell in line.strip("│").split("│")) for line in done.stdout.splitlines() if "│" in line
    }
    assert ("train/loss", "scalar", "10", "9", "2.25") in rows
    assert ("odd [name]\\n", "scalar", "1", "3", "nan") in rows
    assert ("notes", "text", "1", "0", "") in rows


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["ls", "."], "contains no run"),
        (["ls", "missing"], "is not a folder"),
        pytest.param(["demo", "--sinks", "tensorbord"], "did you mean 'tensorboard'", marks=pytest.mark.slow),
        pytest.param(["demo", "--epochs", "0"], "0 is not in the range", marks=pytest.mark.slow),
        pytest.param(["ls"], "contains no run", marks=pytest.mark.slow),
        pytest.param(["report"], "Missing argument", marks=pytest.mark.slow),
        (["fly"], "No such command"),
    ],
)
def test_wrong_usage_is_one_clear_error_and_exit_code_2(tmp_path, monkeypatch, arguments, message):
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, arguments)
    assert done.exit_code == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_a_query_says_which_pattern_matches_nothing(run_folder):
    sql = "select count(*) as n from scalars"
    done = CliRunner().invoke(main, ["query", str(run_folder), sql, "--names", "acc*"])
    assert (done.exit_code, done.stderr) == (0, "stepscope: no name matches 'acc*'\n")
    assert "0" in done.stdout


@pytest.mark.slow
def test_doctor_names_versions_and_sinks(tmp_path):
    done = run_command("doctor", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    for word in ("stepscope", "torch", "SQLite", "tensorboard", "mlflow", "wandb", "local"):
        assert word in done.stdout
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
def test_ls_lists_runs_with_their_verdicts_and_names_a_damaged_one(tmp_path):
    network = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(network.parameters(), lr=0.1)
    for _ in range(2):
        with stepscope.open_run(tmp_path / "runs" / "exp", sinks=[]) as run:
            session = stepscope.watch(network, optimizer, run=run)
            for _ in range(3):
                optimizer.zero_grad()
                network(torch.ones(1, 4)).sum().backward()
                optimizer.step()
            session.close()
    (tmp_path / "runs" / "mlflow.db").touch()
    (tmp_path / "runs" / "bad").mkdir()
    (tmp_path / "runs" / "bad" / "run.json").write_text("{", encoding="utf-8")
    done = run_command("ls", "runs", cwd=tmp_path)
    assert done.returncode == 0, done.stderr
    rows = [[cell.strip() for cell in line.strip("│").split("│")] for line in done.stdout.splitlines() if "│" in line]
    by_run = {row[0]: row for row in rows}
    verdict = session.report().summary().splitlines()[0].removeprefix("Verdict: ")
    for name in ("runs/exp", "runs/exp-2"):
        assert by_run[name][1:3] == ["finished", "2"]
        assert verdict.startswith(by_run[name][3])
        assert len(by_run[name][3]) > 5
        assert by_run[name][4].endswith("kB")
    assert by_run["runs/bad"][1] == "unreadable"
    report = run_command("report", "runs/exp", cwd=tmp_path)
    assert report.stdout.splitlines()[0] == f"Verdict: {verdict}"
    both = run_command("report", "runs/exp", "runs/exp-2", "runs/mlflow.db", cwd=tmp_path)
    assert both.stdout.splitlines()[0] == "runs/exp"
    assert both.stdout.count("Verdict: ") == 2


def test_a_run_without_a_report_says_how_to_get_one(run_folder):
    done = CliRunner().invoke(main, ["report", str(run_folder)])
    assert done.exit_code == 2
    assert "a session stores one when it ends: stepscope.watch" in done.stderr
