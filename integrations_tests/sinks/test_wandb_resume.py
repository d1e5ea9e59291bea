"""How the W&B sink goes on: after a clean end, after kills and hangs, and when an attempt goes back."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import psutil
import pytest
from readback_wandb import history, records, run_folders
from tracker_adapters.artifacts import Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.errors import StartOver
from tracker_adapters.sinks import wandb as sink_module
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO, one_of_each
from wandb_runs import batch, in_python, opened, services, steps_shown, within


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return WandbSink.resolve({"mode": "offline", "project": "p", "target": str(tmp_path / "run")}, tmp_path / "run")


def test_after_a_clean_end_a_second_folder_continues_the_run(options: dict[str, Any], tmp_path: Path) -> None:
    token = None
    for step in range(3):
        sink = opened(options, token)
        sink.write(Batch.of(one_of_each(tmp_path, name="x", step=step)))
        token = sink.flush()
        sink.close()
    folders = run_folders(options)
    rows = [row["_step"] for folder in folders for row in history(folder)]
    assert len(folders) == 3
    assert len({next(folder.glob("*.wandb")).name for folder in folders}) == 1
    assert rows == list(range(len(rows)))
    assert {key for folder in folders for row in history(folder) for key in row if key.startswith("x")} == {
        "x", *(f"x ({kind})" for kind in ("histogram", "image", "text", "alert", "table", "page", "file"))
    }  # fmt: skip


def test_a_run_reopened_without_news_can_be_reopened_again(options: dict[str, Any]) -> None:
    sink = opened(options)
    sink.write(batch(0))
    token = sink.flush()
    sink.close()
    opened(options, token).close()
    opened(options, token).close()
    assert steps_shown(options) == [0]


def test_what_was_written_after_the_token_makes_it_start_over(options: dict[str, Any]) -> None:
    sink = opened(options)
    sink.write(batch(0))
    token = sink.flush()
    sink.write(batch(1))
    sink.flush()
    sink.close()
    with pytest.raises(StartOver, match="was not closed at the last stored position"):
        WandbSink(**options).open(INFO, token)


def test_a_killed_run_is_superseded_and_not_uploaded(options: dict[str, Any]) -> None:
    script = """
import json, os, psutil, signal, sys
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO, Batch, Scalar
sink = WandbSink(**json.loads(sys.argv[1]))
sink.open(INFO, None)
sink.write(Batch.of([Scalar(name="loss", value=0.0, step=0)]))
print(json.dumps({"token": sink.flush().decode(), "service": psutil.Process().children()[0].pid}), flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = in_python(script, json.dumps(options))
    assert done.returncode == -signal.SIGKILL
    said = json.loads(done.stdout)
    assert within(20, lambda: not psutil.pid_exists(said["service"])), "W&B's service outlived its owner"
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, said["token"].encode())
    sink = opened(options)
    for step in (0, 1):
        sink.write(batch(step))
    sink.flush()
    sink.finish("finished")
    sink.close()
    assert steps_shown(options) == [0, 1]
    (old,), (new,) = run_folders(options, superseded=True), run_folders(options)
    assert "The run contract.2 shows all of it" in (old / "SUPERSEDED.txt").read_text()
    (run,) = (record.run for record in records(new) if record.WhichOneof("record_type") == "run")
    assert (run.run_id, run.display_name) == ("contract.2", "contract run (2)")
    folder = Path(options["target"], "wandb")
    sync = subprocess.run(
        [sys.executable, "-m", "wandb", "sync", "--dry-run", folder], capture_output=True, text=True, check=True
    )
    assert new.name in sync.stdout + sync.stderr
    assert old.name not in sync.stdout + sync.stderr


def test_a_killed_service_is_an_error_and_a_new_run_takes_over(
    options: dict[str, Any], capfd: pytest.CaptureFixture[str]
) -> None:
    sink = opened(options)
    sink.write(batch(0))
    token = sink.flush()
    (service,) = services()
    service.kill()
    started = time.monotonic()
    with pytest.raises(Exception):  # noqa: B017  the SDK raises what its socket raised
        for step in range(1, 1000):
            sink.write(batch(step))
            sink.flush()
    sink.close()
    assert time.monotonic() - started < 10
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, token)
    sink = opened(options)
    for step in (0, 1):
        sink.write(batch(step))
    sink.flush()
    sink.close()
    assert steps_shown(options) == [0, 1]
    assert not services()
    assert capfd.readouterr() == ("", "")


def test_a_service_that_hangs_is_killed_at_the_deadline(
    options: dict[str, Any], monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setitem(sink_module._STOP_TIMEOUT_S, "offline", 0.5)
    sink = opened(options)
    sink.write(batch(0))
    token = sink.flush()
    threads = set(threading.enumerate())
    services()[0].send_signal(signal.SIGSTOP)
    started = time.monotonic()
    sink.close()
    assert time.monotonic() - started < 10
    assert not services()
    # The thread that waited for the service ends once the service has gone.
    assert within(10, lambda: set(threading.enumerate()) <= threads)
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, token)
    assert capfd.readouterr() == ("", "")


def scalars(steps: dict[str, range], *, first_seq: int, attempt: int) -> Batch:
    found = [Scalar(name=name, value=float(step), step=step) for name, many in steps.items() for step in many]
    return Batch.of(found, first_seq=first_seq, attempt=attempt)


def test_an_attempt_that_goes_back_gets_a_run_of_its_own(options: dict[str, Any]) -> None:
    sink = opened(options)
    sink.write(scalars({"loss": range(10)}, first_seq=1, attempt=1))
    sink.flush()
    sink.write(scalars({"loss": range(6, 12)}, first_seq=11, attempt=2))
    token = sink.flush()
    sink.close()
    sink = opened(options, token)
    sink.write(scalars({"loss": range(12, 14)}, first_seq=17, attempt=2))
    token = sink.flush()
    sink.close()
    runs: dict[str, list[int]] = {}
    for folder in run_folders(options):
        name = next(folder.glob("*.wandb")).stem
        runs[name] = runs.get(name, []) + [row["step"] for row in history(folder)]
    assert runs == {"run-contract": list(range(10)), "run-contract-a2": list(range(6, 14))}
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, b'{"run_id": "contract", "rows": 10}')
    sink = opened(options)
    sink.close()
    assert len(run_folders(options, superseded=True)) == 3


def test_an_attempt_that_goes_on_stays_in_its_run(options: dict[str, Any]) -> None:
    sink = opened(options)
    sink.write(scalars({"loss": range(5)}, first_seq=1, attempt=1))
    token = sink.flush()
    sink.close()
    sink = opened(options, token)
    sink.write(scalars({"epoch/accuracy": range(2), "loss": range(5, 9)}, first_seq=6, attempt=2))
    sink.flush()
    sink.close()
    assert {next(folder.glob("*.wandb")).name for folder in run_folders(options)} == {"run-contract.wandb"}
    assert steps_shown(options) == [0, 1, 2, 3, 4, 0, 1, 5, 6, 7, 8]
