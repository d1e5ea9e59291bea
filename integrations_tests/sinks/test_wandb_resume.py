"""How the W&B sink goes on offline: after any end, after an upload, and when an attempt goes back."""

import errno
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from unittest.mock import Mock

import numpy as np
import pytest
from readback_wandb import history, read_back, run_folders, run_of
from tracker_adapters.artifacts import Histogram, Image, RunInfo, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkError, SinkUnavailable, StartOver
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.sinks.wandb.log_file import LogFile
from tracker_adapters.testing.contract import INFO, one_of_each
from wandb_runs import batch, carried, in_python, opened, steps_shown


@pytest.fixture
def options(tmp_path):
    return WandbSink.resolve({"mode": "offline", "project": "p", "target": str(tmp_path / "run")}, tmp_path / "run")


def log_of(folder):
    return next(folder.glob("*.wandb"))


def upload(folder):
    """Leaves the mark that ``wandb sync`` leaves."""
    log_of(folder).with_suffix(".wandb.synced").touch()


def test_it_goes_on_in_the_same_file(options, tmp_path):
    token = None
    for step in range(3):
        token = carried(options, Batch.of(one_of_each(tmp_path, name="x", step=step)), token)
    (folder,) = run_folders(options)
    rows = history(folder)
    assert [row["_step"] for row in rows] == list(range(len(rows)))
    assert {key for row in rows for key in row if key.startswith("x")} == {
        "x", *(f"x ({kind})" for kind in ("histogram", "image", "text", "alert", "table", "page", "file"))
    }  # fmt: skip


def test_a_full_disk_is_no_fault_of_an_artifact(options, monkeypatch):
    sink = opened(options)
    with monkeypatch.context() as patch, pytest.raises(SinkUnavailable, match=r"sink 'wandb': cannot write to .* left"):
        patch.setattr(LogFile, "append", Mock(side_effect=OSError(errno.ENOSPC, "no space left")))
        sink.write(batch(0))
    sink.close()


def test_what_was_written_after_the_token_is_cut_off(options):
    sink = opened(options)
    sink.write(batch(0))
    token = sink.flush()
    for step in (1, 2):
        sink.write(batch(step))
        sink.flush()
    sink.finish("failed")
    sink.close()
    carried(options, batch(1), token)
    assert steps_shown(options) == [0, 1]


def test_a_killed_process_leaves_nothing_to_write_again(options):
    script = """
import json, os, signal, sys
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO, Batch, Scalar
sink = WandbSink(**json.loads(sys.argv[1]))
sink.open(INFO, None)
scalars = [Scalar(name="loss", value=float(step), step=step) for step in range(3000)]
sink.write(Batch.of(scalars[:1000]))
print(sink.flush().hex(), flush=True)
sink.write(Batch.of(scalars[1000:], first_seq=1001))
os.kill(os.getpid(), signal.SIGKILL)
"""
    done = in_python(script, json.dumps(options))
    assert done.returncode == -signal.SIGKILL
    carried(options, batch(1000), bytes.fromhex(done.stdout), status=None)
    assert steps_shown(options) == list(range(1001))
    assert run_folders(options, superseded=True) == []


@pytest.mark.parametrize("damage", ["gone", "short", "other"])
def test_a_file_without_what_was_delivered_starts_over(options, damage):
    token = carried(options, batch(0), status=None)
    (folder,) = run_folders(options)
    match damage:
        case "gone":
            log_of(folder).unlink()
        case "short":
            log_of(folder).write_bytes(log_of(folder).read_bytes()[:-1])
        case "other":
            log_of(folder).write_bytes(b"x" * 100_000)
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, token)


def test_a_folder_that_is_removed_meanwhile_is_noticed(options):
    sink = opened(options)
    sink.write(batch(0))
    token = sink.flush()
    sink.write(batch(1))
    shutil.rmtree(options["target"])
    with pytest.raises(SinkError, match="was removed while it was written"):
        sink.flush()
    sink.close()
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, token)


def test_a_disk_that_is_full_leaves_no_empty_runs(options):
    script = """
import json, resource, signal, sys
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (20, 20))
for _ in range(3):
    try:
        WandbSink(**json.loads(sys.argv[1])).open(INFO, None)
    except OSError as error:
        print(error.errno)
"""
    done = in_python(script, json.dumps(options))
    assert done.stdout.split() == ["27"] * 3, done.stderr
    assert list(Path(options["target"], "wandb").iterdir()) == []


@pytest.mark.parametrize("token", [b"", b"{}", b'{"run_id": "contract", "rows": 10}'])
def test_a_token_of_something_else_starts_over(options, token):
    opened(options).close()
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, token)


def test_an_uploaded_file_stays_and_another_folder_of_the_same_run_goes_on(options, monkeypatch):
    token = carried(options, batch(0))
    (first,) = run_folders(options)
    upload(first)
    uploaded = log_of(first).read_bytes()
    hour_ago = time.time_ns() - 3600 * 10**9
    monkeypatch.setattr(time, "time_ns", lambda: hour_ago)  # the clock was put back
    carried(options, batch(1), token)
    assert log_of(first).read_bytes() == uploaded
    assert [run_of(folder).run_id for folder in run_folders(options)] == ["contract", "contract"]
    assert [[row["_step"] for row in history(folder)] for folder in run_folders(options)] == [[0], [1]]


def test_an_uploaded_run_that_is_opened_without_news_stays_alone(options):
    token = carried(options, batch(0))
    upload(run_folders(options)[0])
    for _ in range(2):
        sink = opened(options, token)
        token = sink.flush()
        sink.finish("finished")
        sink.close()
    assert len(run_folders(options)) == 1
    carried(options, batch(1), token)
    assert steps_shown(options) == [0, 1]


def test_a_run_that_went_on_after_an_upload_stays_in_its_file(options):
    sink = opened(options)
    sink.write(batch(0))
    sink.flush()
    upload(run_folders(options)[0])
    sink.write(batch(1))
    token = sink.flush()
    sink.close()
    os.utime(log_of(run_folders(options)[0]))  # a clock that ticks slowly may show both times as one
    carried(options, batch(2), token)
    assert len(run_folders(options)) == 1
    assert steps_shown(options) == [0, 1, 2]


def test_what_was_uploaded_beyond_the_token_is_not_uploaded_twice(options):
    sink = opened(options)
    sink.write(batch(0))
    token = sink.flush()
    sink.write(batch(1))
    sink.flush()
    sink.close()
    upload(run_folders(options)[0])
    with pytest.raises(StartOver, match="was uploaded with more"):
        WandbSink(**options).open(INFO, token)
    carried(options, batch(1), carried(options, batch(0)))
    assert steps_shown(options) == [0, 1]
    (old,), (new,) = run_folders(options, superseded=True), run_folders(options)
    assert "The run contract.2 shows all of it" in (old / "SUPERSEDED.txt").read_text()
    assert (run_of(new).run_id, run_of(new).display_name) == ("contract.2", "contract run (2)")


class TestSameFolder:
    def test_runs_with_one_id_started_in_one_second_stay_apart(self, options, monkeypatch):
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now)
        sinks = [WandbSink(**options, run_id="same") for _ in range(2)]
        for number, sink in enumerate(sinks):
            sink.open(RunInfo(id=f"run{number}", name="n"), None)
            sink.write(batch(number))
        tokens = [sink.flush() for sink in sinks]
        for number, (sink, token) in enumerate(zip(sinks, tokens, strict=True)):
            sink.close()
            again = WandbSink(**options, run_id="same")
            again.open(RunInfo(id=f"run{number}", name="n"), token)
            again.write(batch(10 + number))
            again.flush()
            again.close()
        shown = {run_of(folder).run_id: [row["step"] for row in history(folder)] for folder in run_folders(options)}
        assert shown == {"same": [0, 10], "same.2": [1, 11]}

    def test_a_run_that_the_user_wrote_is_left_alone(self, options):
        users = Path(options["target"], "wandb", "offline-run-20200101_000000-contract")
        users.mkdir(parents=True)
        (users / "run-contract.wandb").write_bytes(b"theirs")
        token = carried(options, batch(0))
        opened(options, token).close()
        assert [path.name for path in users.iterdir()] == ["run-contract.wandb"]
        (ours,) = (folder for folder in Path(options["target"], "wandb").iterdir() if folder != users)
        assert run_of(ours).run_id == "contract.2"

    def test_a_resume_with_the_clock_put_back_finds_its_file(self, options, monkeypatch):
        token = carried(options, batch(0))
        now = time.time_ns()
        monkeypatch.setattr(time, "time_ns", lambda: now - 3600 * 10**9)
        carried(options, batch(1), token)
        assert steps_shown(options) == [0, 1]


def series(kind, steps):
    match kind:
        case "scalar":
            return [Scalar(name="x", value=float(step), step=step) for step in steps]
        case "histogram":
            return [Histogram.from_values("x", [float(step)], step=step) for step in steps]
        case _:
            return [Image.from_array("x", np.full((2, 2), step, np.uint8), step=step, layout="HW") for step in steps]


@pytest.mark.parametrize("kind", ["scalar", "histogram", "image"])
class TestAttempts:
    def test_one_that_goes_back_gets_a_run_of_its_own(self, options, kind):
        before = carried(options, Batch.of(series(kind, range(10)), attempt=1), status=None)
        for _ in range(2):  # the second time as after a crash: the child exists already
            again = Batch.of(series(kind, range(6, 12)), first_seq=11, attempt=2)
            token = carried(options, again, before, status=None)
        carried(options, Batch.of(series(kind, range(12, 14)), first_seq=17, attempt=2), token, status=None)
        shown = {run_of(folder).run_id: [row["step"] for row in history(folder)] for folder in run_folders(options)}
        assert shown == {"contract": list(range(10)), "contract-a2": list(range(6, 14))}
        assert len(run_folders(options, superseded=True)) == 1
        assert len(read_back(options)) == 18

    def test_one_that_goes_on_stays_in_its_run(self, options, kind):
        token = carried(options, Batch.of(series(kind, range(5)), attempt=1), status=None)
        late = Scalar(name="a name that is new", value=0.0, step=0)
        carried(options, Batch.of([late, *series(kind, range(5, 9))], first_seq=6, attempt=2), token, status=None)
        (folder,) = run_folders(options)
        assert sorted(row["step"] for row in history(folder)) == [0, *range(9)]


def test_no_thread_and_no_process_is_started(options):
    before = set(threading.enumerate())
    sink = opened(options)
    sink.write(batch(0))
    assert set(threading.enumerate()) <= before
    sink.close()
