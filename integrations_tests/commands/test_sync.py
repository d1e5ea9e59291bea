"""``stepscope sync``: finished, crashed, copied and running runs, into any sink, exactly once."""

import os
import re
import shutil
import signal
import subprocess
import sys
from collections import Counter

import odd_sinks
import pytest
from all_sinks import READERS, prepared
from click.testing import CliRunner
from fault_training import Regression, emit_step, emitted_by
from faults import accounts, stored_counts, training
from tracker_adapters.errors import NotARunError, RunError, SinkConfigError
from tracker_adapters.registry import load_sink
from tracker_adapters.store.layout import DELIVERY_DATABASE, rank_folder, segments
from tracker_adapters.testing import MemorySink
from waiting import until

import stepscope
from stepscope.cli import main
from stepscope.sync import sync_runs

STEPS = 100
IN_FOLDERS = ("local", "tensorboard")


def make_run(folder, steps=STEPS):
    """What ``training`` without sinks would leave there when it has ended."""
    model = Regression()
    with stepscope.open_run(folder, sinks=[]) as run:
        for step in range(steps):
            emit_step(run, model, model.step(), step)
    return folder


def shown(sink, run):
    options = load_sink(sink).resolve({}, run)
    seen = READERS[sink](options)
    assert len({(one.kind, one.name, one.step) for one in seen}) == len(seen)
    return Counter(one.kind for one in seen)


def command(*arguments):
    line = [sys.executable, "-m", "stepscope", "sync", *map(str, arguments)]
    return subprocess.run(line, capture_output=True, text=True, check=False, timeout=240)


@pytest.mark.slow
def test_a_finished_run_goes_into_every_tracker_and_again_changes_nothing(tmp_path):
    run = make_run(prepared(tmp_path / "runs" / "finished"))
    to = [part for sink in READERS for part in ("--to", sink)]
    done = command(run, *to)
    assert done.returncode == 0, done.stderr + done.stdout
    assert len(re.findall(rf"{emitted_by(STEPS).total()} of {emitted_by(STEPS).total()} ", done.stdout)) == 4
    before = {sink: shown(sink, run) for sink in READERS}
    assert before == dict.fromkeys(READERS, emitted_by(STEPS))
    assert command(run, *to).returncode == 0
    assert {sink: shown(sink, run) for sink in READERS} == before
    assert all((one.pending, one.state) == (0, "done") for one in accounts(run).values())


def test_a_crashed_run_is_marked_failed_in_the_tracker(tmp_path):
    with training(tmp_path / "run", [], steps=STEPS, pauses=[50]) as run:
        run.wait_for_step(50)
        run.process.kill()
        run.process.wait(60)
    (result,) = sync_runs(tmp_path / "run", to="local")
    assert result.complete
    assert shown("local", tmp_path / "run") == stored_counts(tmp_path / "run")
    assert '"status": "failed"' in (tmp_path / "run" / "local" / "run_info.json").read_text()


@pytest.mark.slow
def test_a_copied_run_starts_anew_beside_its_copy_and_many_go_at_once(tmp_path):
    first = make_run(tmp_path / "runs" / "one", 30)
    for number in range(5):
        shutil.copytree(first, tmp_path / "runs" / f"copy{number}")
    seen = []
    results = sync_runs(tmp_path / "runs", to=["local", "tensorboard"], jobs=4, on_progress=seen.append)
    assert len(results) == 12
    assert all(result.complete for result in results)
    for folder in {result.run for result in results}:
        assert shown("local", folder) == shown("tensorboard", folder) == emitted_by(30)
    assert {progress.run for progress in seen} == {result.run for result in results}
    assert all(0 <= progress.seq <= progress.last_seq == emitted_by(30).total() for progress in seen)


@pytest.mark.slow
def test_each_rank_is_a_run_of_its_own_in_each_tracker(tmp_path):
    folder = prepared(tmp_path / "run")
    for rank, steps in enumerate((10, 30)):
        with stepscope.open_run(folder, rank=rank, sinks=[]) as run:
            for step in range(steps):
                run.scalar("loss", rank, step=step)
    for rank in (1, 0, 1):
        assert all(result.delivered for result in sync_runs(folder, to=["mlflow", "wandb"], rank=rank))
        assert all(
            result.delivered
            for result in sync_runs(folder, to=[f"{sink}:{tmp_path}/{sink}{rank}" for sink in IN_FOLDERS], rank=rank)
        )
    for rank, steps in enumerate((10, 30)):
        for sink in IN_FOLDERS:
            seen = READERS[sink]({"target": str(tmp_path / f"{sink}{rank}")})
            assert [one.value for one in seen] == [float(rank)] * steps
    for sink in ("mlflow", "wandb"):
        seen = READERS[sink](load_sink(sink).resolve({}, folder))
        assert Counter(one.value for one in seen) == {0.0: 10, 1.0: 30}, sink
    [result] = sync_runs(folder, to=f"local:{tmp_path}/local1", rank=0)
    assert "expected a separate folder for each run" in result.error


def test_a_running_run_is_caught_up_with_and_followed_to_its_end(tmp_path):
    folder = tmp_path / "run"
    with training(folder, [], steps=STEPS, pauses=[40]) as run:
        run.wait_for_step(40)
        until(lambda: stored_counts(folder) == emitted_by(41))
        (result,) = sync_runs(folder, to="local")
        assert (result.outcome, result.complete) == ("caught_up", True)
        assert shown("local", folder) == emitted_by(41)
        assert '"status": "running"' in (folder / "local" / "run_info.json").read_text()
        follower = subprocess.Popen(
            [sys.executable, "-m", "stepscope", "sync", str(folder), "--to", "local", "--follow"]
        )
        run.go_on()
        assert run.result()["stored"] == emitted_by(STEPS).total()
        assert follower.wait(60) == 0
    assert shown("local", folder) == emitted_by(STEPS)
    assert '"status": "finished"' in (folder / "local" / "run_info.json").read_text()


def test_an_interrupted_sync_goes_on_where_it_was(tmp_path, monkeypatch):
    for key, value in odd_sinks.install(tmp_path).items():
        monkeypatch.setenv(key, value)
    run = make_run(tmp_path / "run")
    config = tmp_path / "sinks.toml"
    config.write_text('sinks = [{type = "odd", hang_in = "flush", times = 1, deadline_s = 3600}]\n')
    line = [sys.executable, "-m", "stepscope", "sync", str(run), "--to", str(config)]
    with subprocess.Popen(line, stderr=subprocess.PIPE, text=True, start_new_session=True) as first:
        until((run / "odd.jsonl.count").exists)
        first.send_signal(signal.SIGINT)
        _, errors = first.communicate(timeout=60)
    assert first.returncode == 130
    assert "interrupted; repeat the command to continue" in errors
    # What hung is not left behind to hold the lease.
    assert command(run, "--to", config).returncode == 0
    lines = odd_sinks.read_back(run / "odd.jsonl")
    assert len(set(lines)) == len(lines) == emitted_by(STEPS).total()


@pytest.mark.parametrize(
    "to", ["local:{place}/file", pytest.param("mlflow:http://127.0.0.1:9/", marks=pytest.mark.slow)]
)
def test_a_sink_that_fails_is_one_line_and_an_exit_code(tmp_path, to):
    run = make_run(tmp_path / "run", 20)
    (tmp_path / "file").touch()
    done = command(run, "--to", to.format(place=tmp_path))
    assert done.returncode == 1
    assert f"0 of {emitted_by(20).total()} artifacts delivered, {emitted_by(20).total()} pending; " in done.stdout
    assert "Traceback" not in done.stdout + done.stderr


@pytest.mark.slow
def test_a_run_that_emits_on_and_on_is_caught_up_with(tmp_path):
    with training(tmp_path / "run", [], steps=1_000_000) as run:
        run.wait_for_step(100)
        done = command(tmp_path / "run", "--to", "local")
        assert run.process.poll() is None
    assert done.returncode == 0, done.stdout
    assert "the run is still live" in done.stdout


@pytest.mark.parametrize("damage", ["cut in half", pytest.param("a folder", marks=pytest.mark.slow)])
def test_a_damaged_run_is_one_line_and_the_others_are_carried(tmp_path, damage):
    damaged, whole = make_run(tmp_path / "damaged"), make_run(tmp_path / "whole", 20)
    (segment,) = segments(rank_folder(damaged, 0))
    if damage == "a folder":
        segment.unlink()
        segment.mkdir()
    else:
        os.truncate(segment, segment.stat().st_size // 2)
    done = command(tmp_path, "--to", "local")
    assert done.returncode == 1
    assert (done.stderr, len(done.stdout.splitlines())) == ("", 2)
    assert f"{emitted_by(20).total()} of {emitted_by(20).total()} artifacts delivered\n" in done.stdout
    assert shown("local", whole) == emitted_by(20)
    listed = CliRunner().invoke(main, ["ls", str(damaged)])
    assert (listed.exit_code, listed.stdout, listed.stderr.count("\n")) == (2, "", 1)
    assert str(damaged) in listed.stderr


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (["nowhere", "--to", "local"], "nowhere is not a folder"),
        (["{run}", "--to", "nothing"], "unknown sink 'nothing'"),
        (["{run}", "--to", "local", "--rank", "7"], "has no rank 7"),
    ],
)
def test_bad_arguments_are_one_line(tmp_path, arguments, expected):
    stepscope.open_run(tmp_path / "run", sinks=[]).close()
    done = CliRunner().invoke(main, ["sync", *(argument.format(run=tmp_path / "run") for argument in arguments)])
    assert (done.exit_code, done.stderr.count("\n")) == (2, 1)
    assert expected in done.stderr


def test_a_run_whose_cursor_cannot_be_kept_says_so(tmp_path):
    stepscope.open_run(tmp_path / "run", sinks=[]).close()
    (rank_folder(tmp_path / "run", 0) / DELIVERY_DATABASE).mkdir()
    with pytest.raises(RunError, match="cannot keep the cursor of sink 'local'"):
        sync_runs(tmp_path / "run", to="local")


def test_arguments_of_the_wrong_kind_are_named(tmp_path):
    stepscope.open_run(tmp_path / "run", sinks=[]).close()
    with pytest.raises(SinkConfigError, match="is an object"):
        sync_runs(tmp_path / "run", to=MemorySink())
    with pytest.raises(SinkConfigError, match="expected at least one sink"):
        sync_runs(tmp_path / "run", to=[])
    with pytest.raises(NotARunError):
        sync_runs(tmp_path / "nothing", to="local")


def test_a_delivery_that_always_dies_is_given_up_after_so_many_starts(tmp_path, monkeypatch):
    stepscope.open_run(tmp_path / "run", sinks=[]).close()
    broken = tmp_path / "python"
    broken.write_text(f"#!/bin/sh\necho started >> {tmp_path}/starts\nexit 3\n")
    broken.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(broken))
    monkeypatch.setattr(stepscope.sync, "MAX_CRASHES", 6)
    monkeypatch.setattr(stepscope.sync, "MAX_RESTART_PAUSE_S", 0.1)  # with the pauses of a training: 31 s
    (result,) = sync_runs(tmp_path / "run", to="local")
    assert result.outcome == "crashed"
    assert (tmp_path / "starts").read_text().splitlines() == ["started"] * 7
