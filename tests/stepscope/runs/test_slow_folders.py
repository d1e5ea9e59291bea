"""A start or an end that waits for a folder is told once, and only then."""

import threading

import pytest
from waiting import until

from stepscope.runs import slow_folders
from stepscope.runs.slow_folders import existing, seconds_of_a_change, told_when_slow


@pytest.fixture
def said(monkeypatch, capsys):
    """Returns what was said so far; ``said.line()`` waits for a line."""
    monkeypatch.setattr(slow_folders, "TELL_AFTER_S", 0.05)
    texts = [""]

    def so_far():
        texts[0] += capsys.readouterr().err
        return texts[0]

    def line():
        until(lambda: so_far().endswith("\n"))
        return texts[0]

    so_far.line = line
    return so_far


def test_a_wait_is_told_once_with_the_folder_and_how_to_measure_it(said):
    with told_when_slow("opening the run", "runs/my exp", rank=2):
        assert said.line() == (
            "stepscope rank 2: opening the run in runs/my exp has waited 0.05 s for its file system; "
            "to measure it: stepscope doctor 'runs/my exp'\n"
        )
    assert said().count("\n") == 1


def test_what_is_waited_for_now_is_named(said, monkeypatch):
    monkeypatch.setattr(slow_folders, "TELL_AFTER_S", 300.0)
    before = set(threading.enumerate())
    with told_when_slow("closing the run", "runs/exp1") as waits_for:
        (timer,) = set(threading.enumerate()) - before
        waits_for("its sinks: local")
        timer.function()  # the time is over
        assert said() == "stepscope: closing the run in runs/exp1 has waited 300 s for its sinks: local\n"


def test_a_url_is_no_folder_that_the_doctor_measures(said):
    with told_when_slow("opening the run", "s3://bucket/run"):
        assert (
            said.line() == "stepscope: opening the run in s3://bucket/run has waited 0.05 s for its place to answer\n"
        )


def test_a_quick_start_says_nothing_and_leaves_no_thread(said, monkeypatch):
    monkeypatch.setattr(slow_folders, "TELL_AFTER_S", 300.0)
    before = set(threading.enumerate())
    with pytest.raises(KeyError), told_when_slow("opening the run", "runs/exp1"):
        (timer,) = set(threading.enumerate()) - before
        raise KeyError
    assert not timer.is_alive()
    assert said() == ""


def test_a_probe_leaves_nothing(tmp_path):
    assert 0 < seconds_of_a_change(tmp_path) < 60
    assert list(tmp_path.iterdir()) == []
    with pytest.raises(OSError):
        seconds_of_a_change(tmp_path / "missing")


def test_the_folder_of_a_run_that_is_not_there_yet_is_the_one_above(tmp_path):
    assert existing(tmp_path / "runs" / "exp1") == tmp_path
    (tmp_path / "file").touch()
    assert existing(tmp_path / "file") == tmp_path
