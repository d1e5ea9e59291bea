"""A run whose files have other names, as ``cp -al`` makes them: what is written to it changes none of those."""

import os
import shutil
import subprocess
import sys

import pytest
from tracker_adapters.store.lock import is_locked
from tracker_adapters.testing import MemorySink
from waiting import until

import stepscope
from stepscope.sync import sync_runs

KILLED = """
import os, signal, sys, stepscope
run = stepscope.open_run(sys.argv[1], sinks=["local"])
for step in range(100):
    run.scalar("loss", step, step=step)
assert run.flush(60)
os.kill(os.getpid(), signal.SIGKILL)
"""


@pytest.fixture(params=["closed", "killed"])
def run_folder(tmp_path, request):
    folder = tmp_path / "run"
    if request.param == "killed":
        killed = subprocess.Popen([sys.executable, "-c", KILLED, folder])
        assert killed.wait(60) < 0
        leases = list(folder.glob("store/rank_00000/local-*.lock"))
        until(lambda: not any(map(is_locked, leases)))  # the delivery process has drained and left
        return folder
    with stepscope.open_run(folder, sinks=["local"]) as run:
        for step in range(100):
            run.scalar("loss", step, step=step)
    return folder


def contents(folder):
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def copy_by_links(run_folder):
    other = run_folder.with_name("other")
    shutil.copytree(run_folder, other, copy_function=os.link)
    return other


@pytest.mark.slow
def test_a_run_that_goes_on_leaves_its_other_names_alone(run_folder):
    other = copy_by_links(run_folder)
    before = contents(other)
    sink = MemorySink()
    with stepscope.open_run(run_folder, sinks=["local", sink], resume=True) as run:
        for step in range(100, 200):
            run.scalar("loss", step, step=step)
        assert run.flush(60)
    assert contents(other) == before
    with stepscope.read_run(run_folder) as record, stepscope.read_run(other) as old:
        assert record.scalars("loss").values.tolist() == list(range(200))
        assert old.scalars("loss").values.tolist() == list(range(100))
    assert len(sink.artifacts) == 200
    assert len((run_folder / "local" / "scalars.csv").read_text().splitlines()) == 1 + 200


def test_a_log_that_a_killed_process_left_is_copied_too(tmp_path):
    folder = tmp_path / "run"
    assert subprocess.run([sys.executable, "-c", KILLED.replace('"local"', ""), folder], check=False).returncode < 0
    other = copy_by_links(folder)
    assert list(other.rglob("*.db-wal"))
    before = contents(other)
    with stepscope.open_run(folder, sinks=[], resume=True) as run:
        run.scalar("loss", 100.0, step=100)
    assert contents(other) == before
    with stepscope.read_run(folder) as record:
        assert record.scalars("loss").values.tolist() == list(range(101))


def test_a_sync_leaves_its_other_names_alone(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=["local"], delivery="thread") as run:
        run.scalar("loss", 1.0, step=0)
    # SQLite's index beside a log may be unfinished: the first reader makes it anew, and no other one writes to it.
    with stepscope.read_run(tmp_path / "run") as record:
        assert record.scalars("loss").values.tolist() == [1.0]
    other = copy_by_links(tmp_path / "run")
    before = contents(other)
    (result,) = sync_runs(tmp_path / "run", to=[f"local:{tmp_path / 'out'}"])
    assert (result.outcome, result.delivered) == ("done", 1)
    assert contents(other) == before
