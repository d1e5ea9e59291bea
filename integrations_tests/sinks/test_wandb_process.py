"""What the W&B sink does to the process, the machine and the user's own run: as little as can be."""

from __future__ import annotations

import json
import os
import platform
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import psutil
import pytest
from readback_wandb import history, read_back, records, run_folders
from tracker_adapters.artifacts import Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.errors import StartOver
from tracker_adapters.sinks import wandb as sink_module
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO, one_of_each

SECRET = "s3cr3t-5f2c"


@pytest.fixture
def options(tmp_path: Path) -> dict[str, Any]:
    return WandbSink.resolve({"mode": "offline", "project": "p", "target": str(tmp_path / "run")}, tmp_path / "run")


def opened(options: dict[str, Any], token: bytes | None = None) -> WandbSink:
    sink = WandbSink(**options)
    sink.open(INFO, token)
    return sink


def batch(step: int) -> Batch:
    return Batch.of([Scalar(name="loss", value=step / 2, step=step)], first_seq=step + 1)


def steps_shown(options: dict[str, Any]) -> list[int]:
    return [seen.step for seen in read_back(options)]


def services() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.name().startswith("wandb-core")]


def within(deadline_s: float, condition: Callable[[], bool]) -> bool:
    end = time.monotonic() + deadline_s
    while not condition():
        if time.monotonic() > end:
            return False
        threading.Event().wait(0.02)
    return True


def in_python(script: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def test_nothing_stays_behind_and_nothing_is_printed(options: dict[str, Any], tmp_path: Path) -> None:
    script = """
import json, os, signal, sys, threading
before = sys.exit, sys.excepthook, dict(os.environ), [signal.getsignal(number) for number in signal.valid_signals()]
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO, Batch, Path, one_of_each
for token in (None, None):
    sink = WandbSink(**json.loads(sys.argv[1]))
    sink.open(INFO, token)
    sink.write(Batch.of(one_of_each(Path(sys.argv[2]))))
    sink.flush()
    sink.close()
import psutil
after = sys.exit, sys.excepthook, dict(os.environ), [signal.getsignal(number) for number in signal.valid_signals()]
assert before == after
assert threading.enumerate() == [threading.main_thread()], threading.enumerate()
assert not psutil.Process().children()
"""
    home = tmp_path / "home"
    home.mkdir()
    done = in_python(script, json.dumps(options), tmp_path, HOME=str(home), WANDB_SERVICE="3-1-unix-/nowhere")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert list(home.iterdir()) == []


def test_files_tell_nothing_about_the_machine_or_the_program(options: dict[str, Any], tmp_path: Path) -> None:
    repository = tmp_path / "repository"
    repository.mkdir()
    git = ["git", "-C", str(repository), "-c", "user.name=n", "-c", "user.email=e@x"]
    subprocess.run([*git, "init", "-q"], check=True)
    subprocess.run([*git, "remote", "add", "origin", f"https://{SECRET}@example.org/x"], check=True)
    subprocess.run([*git, "commit", "-q", "--allow-empty", "-m", "first"], check=True)
    commit = subprocess.run([*git, "rev-parse", "HEAD"], check=True, capture_output=True, text=True).stdout.strip()
    program = repository / f"{SECRET}_program.py"
    program.write_text(
        "import json, sys\n"
        "from tracker_adapters.sinks.wandb import WandbSink\n"
        "from tracker_adapters.testing.contract import INFO\n"
        "sink = WandbSink(**json.loads(sys.argv[1]))\n"
        "sink.open(INFO, None); sink.flush(); sink.finish('finished'); sink.close()\n"
    )
    variables = {"WANDB_API_KEY": SECRET.ljust(40, "0"), "WANDB_NOTES": SECRET, "MY_TOKEN": SECRET}
    command = [sys.executable, str(program), json.dumps(options), SECRET]
    subprocess.run(command, check=True, cwd=repository, env=os.environ | variables)
    written = b"".join(path.read_bytes() for path in Path(options["target"]).rglob("*") if path.is_file())
    assert b"run_id" in written or b"contract" in written
    for private in (SECRET, commit, str(repository), sys.executable):
        assert private.encode() not in written
    (run,) = (record.run for record in records(run_folders(options)[0]) if record.WhichOneof("record_type") == "run")
    assert (run.host, run.git.commit) == ("", "")
    assert platform.node() not in str(run)


def test_the_users_own_run_is_untouched_and_gives_its_group(tmp_path: Path) -> None:
    script = """
import json, pathlib, sys, wandb
folder = pathlib.Path(sys.argv[1])
(folder / "users").mkdir()
theirs = wandb.init(mode="offline", dir=folder / "users", project="theirs", group="g7", settings={"silent": True})
theirs.log({"mine": 1})
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO, Batch, one_of_each
options = WandbSink.resolve({}, folder / "ours")
sink = WandbSink(**options)
sink.open(INFO, None)
assert wandb.run is theirs
sink.write(Batch.of(one_of_each(folder)))
sink.flush()
sink.finish("finished")
sink.close()
theirs.log({"mine": 2})
assert wandb.run is theirs
wandb.finish()
print(json.dumps(options))
"""
    done = in_python(script, tmp_path, WANDB_RUN_ID="theirs1")
    assert done.returncode == 0, done.stderr
    options = json.loads(done.stdout)
    assert (options["project"], options["group"]) == ("theirs", "g7")
    assert "run_id" not in options
    assert len(read_back(options)) == len(one_of_each(tmp_path))
    (theirs,) = (tmp_path / "users" / "wandb").glob("offline-run-*")
    assert [row["mine"] for row in history(theirs)] == [1, 2]
    assert theirs.name.endswith("theirs1")


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
    assert within(5, lambda: not any(thread.name.startswith("wandb") for thread in threading.enumerate()))
    assert set(threading.enumerate()) <= threads
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, token)
    assert capfd.readouterr() == ("", "")
