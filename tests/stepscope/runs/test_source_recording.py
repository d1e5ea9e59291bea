"""Packages and Git state, recorded while the training goes on."""

import importlib.metadata
import json
import subprocess
import threading
import time

import pytest
import torch

import stepscope
from stepscope.runs.source_recording import PATCH


@pytest.fixture
def repository(tmp_path, monkeypatch):
    monkeypatch.setenv("STEPSCOPE_ENVIRONMENT", "on")
    monkeypatch.setattr("stepscope.runs.source_recording.CLOSE_LIMIT_S", 60.0)  # a busy machine is late, not wrong
    monkeypatch.chdir(tmp_path)
    git = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c"]
    (tmp_path / "train.py").write_text("lr = 0.1\n")
    for arguments in (["init", "-q"], ["add", "train.py"], ["commit", "-q", "-m", "first"]):
        subprocess.run([*git, *arguments], check=True)
    (tmp_path / "train.py").write_text('lr = 0.2\nname = "ours-secret-1234"\n')
    return tmp_path


def test_a_run_has_its_packages_its_changes_and_no_secret_of_its_configuration(repository):
    with stepscope.open_run(repository / "run", sinks=[], config={"password": "ours-secret-1234"}) as run:
        run.scalar("loss", 1.0, step=0)
    with stepscope.read_run(repository / "run") as record:
        environment = record.info.environment
        assert f"torch=={importlib.metadata.version('torch')}" in environment["packages"].splitlines()
        assert environment["changes"].startswith("1 file changed")
        (patch,) = record.files()
        assert (patch.name, patch.media_type) == (PATCH, "text/x-diff")
        text = patch.path.read_text()
        assert "+lr = 0.2" in text
        assert "ours-secret" not in text


def test_opening_does_not_wait_and_a_failure_is_none_of_the_trainings(repository, monkeypatch):
    monkeypatch.setattr("tracker_adapters.child_process.python_command", lambda module: ["/nowhere/python"])
    torch.manual_seed(0)
    expected = torch.rand(3)
    torch.manual_seed(0)
    with stepscope.open_run(repository / "run", sinks=[]) as run:
        assert torch.equal(torch.rand(3), expected)
    assert run.info.status == "finished"
    assert "packages" not in run.info.environment
    assert run.info.environment["commit"]


def test_a_run_is_closed_in_time_though_its_packages_cannot_be_read(repository, monkeypatch, caplog):
    """As where a file system hangs."""
    asks, release = threading.Event(), threading.Event()

    def hang(*args, **kwargs):
        asks.set()
        release.wait(60)
        raise OSError("given up")

    monkeypatch.setattr("stepscope.runs.source_recording.answer_of", hang)
    run = stepscope.open_run(repository / "run", sinks=[])
    assert asks.wait(60)
    start = time.monotonic()
    run.close(0.5)
    elapsed = time.monotonic() - start
    release.set()
    assert "packages and Git state are not recorded: reading them took longer than" in caplog.text
    assert elapsed < 30  # not the minute of the limit that this test has set


def test_what_comes_after_the_run_was_closed_is_not_counted_as_lost(repository, monkeypatch):
    asks, release, threads = threading.Event(), threading.Event(), []
    answer = json.dumps({"environment": {"packages": "torch==2"}, "patch": "+lr = 0.2"})

    def late(*args, **kwargs):
        threads.append(threading.current_thread())
        asks.set()
        assert release.wait(60)
        return answer

    monkeypatch.setattr("stepscope.runs.source_recording.answer_of", late)
    run = stepscope.open_run(repository / "run", sinks=[])
    assert asks.wait(60)
    run.close(0.5)
    release.set()
    threads[0].join(60)
    assert not threads[0].is_alive()
    assert run.stats.lost == {}
