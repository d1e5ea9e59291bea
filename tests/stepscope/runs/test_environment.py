"""Where a training ran, as its run keeps it."""

import platform
import subprocess
import sys

import pytest

import stepscope
from stepscope.runs.environment import environment_of_process


def test_a_run_keeps_where_its_last_attempt_ran(tmp_path, monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--token=abcdefgh12345678", "--lr", "0.1"])
    with stepscope.open_run(tmp_path / "run", sinks=[]):
        pass
    monkeypatch.setattr(sys, "argv", ["again.py"])
    with stepscope.open_run(tmp_path / "run", sinks=[], resume=True):
        pass
    with stepscope.read_run(tmp_path / "run") as record:
        found = record.info.environment
    assert found["python"] == platform.python_version()
    assert found["command"] == "again.py"
    assert found["host"] == platform.node()


def test_secrets_of_the_command_are_not_kept(monkeypatch):
    monkeypatch.setattr(sys, "argv", ["train.py", "--token=abcdefgh12345678", "--lr", "0.1"])
    command = environment_of_process()["command"]
    assert "abcdefgh12345678" not in command
    assert "--lr 0.1" in command


def test_the_commit_is_that_of_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    assert "commit" not in environment_of_process()
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    subprocess.run([*git, "init", "-q"], check=True)
    assert "commit" not in environment_of_process()
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    (tmp_path / "below").mkdir()
    monkeypatch.chdir(tmp_path / "below")
    assert environment_of_process()["commit"] == head
    subprocess.run(["git", "pack-refs", "--all"], check=True)
    assert environment_of_process()["commit"] == head
    subprocess.run(["git", "checkout", "-q", "--detach"], check=True)
    assert environment_of_process()["commit"] == head


def test_it_can_be_switched_off(tmp_path, monkeypatch):
    with stepscope.open_run(tmp_path / "argument", sinks=[], environment=False) as run:
        assert run.info.environment == {}
    monkeypatch.setenv("STEPSCOPE_ENVIRONMENT", "off")
    with stepscope.open_run(tmp_path / "variable", sinks=[]) as run:
        assert run.info.environment == {}
    monkeypatch.setenv("STEPSCOPE_ENVIRONMENT", "some")
    with pytest.raises(stepscope.RunError, match="STEPSCOPE_ENVIRONMENT is 'some'; expected one of on, process, off"):
        stepscope.open_run(tmp_path / "wrong", sinks=[])
