"""What the W&B sink does to the process, the machine and the user's own run: as little as can be."""

import json
import os
import platform
import re
import subprocess
import sys
from pathlib import Path

import pytest
from readback_wandb import history, read_back, records, run_folders
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import one_of_each
from wandb_runs import in_python, opened, services
from wandb_server import wandb_server

SECRET = "s3cr3t-5f2c"
API_KEY = SECRET.replace("-", "").ljust(40, "0")


@pytest.fixture
def options(tmp_path):
    return WandbSink.resolve({"mode": "offline", "project": "p", "target": str(tmp_path / "run")}, tmp_path / "run")


def test_nothing_stays_behind_and_nothing_is_printed(options, tmp_path):
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


@pytest.mark.parametrize("mode", ["offline", pytest.param("online", marks=pytest.mark.slow)])
def test_files_and_uploads_tell_nothing_about_the_machine_or_the_program(options, tmp_path, mode):
    options |= {"mode": mode}
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
        "from tracker_adapters.testing.contract import INFO, Batch, Scalar\n"
        "sink = WandbSink(**json.loads(sys.argv[1]))\n"
        "sink.open(INFO, None); sink.write(Batch.of([Scalar(name='x', value=1.0, step=0)])); sink.flush()\n"
        "sink.finish('finished'); sink.close()\n"
    )
    variables = {"WANDB_API_KEY": API_KEY, "WANDB_NOTES": SECRET, "MY_TOKEN": SECRET}
    command = [sys.executable, str(program), json.dumps(options), SECRET]
    with wandb_server() as server:
        variables["WANDB_BASE_URL"] = server.url
        subprocess.run(command, check=True, cwd=repository, env=os.environ | variables)
        if mode == "offline":
            server.sync(Path(options["target"], "wandb"))
    files = b"".join(path.read_bytes() for path in Path(options["target"]).rglob("*") if path.is_file())
    uploaded = repr((server.runs, server.artifacts, server.contents)).encode()
    assert [row["x"] for row in server.runs["contract"].history] == [1.0]
    for private in (SECRET, API_KEY, commit, str(repository), sys.executable):
        assert private.encode() not in files
        assert private.encode() not in uploaded
    machine = re.compile(rb"\b" + re.escape(platform.node().encode()) + rb"\b")  # a short name can be in a random word
    assert not machine.search(files)
    assert not machine.search(uploaded)
    (run,) = (record.run for record in records(run_folders(options)[0]) if record.WhichOneof("record_type") == "run")
    assert (run.host, run.git.commit) == ("", "")


@pytest.mark.slow
def test_the_users_own_run_is_untouched_and_gives_its_group(tmp_path):
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


def test_two_sinks_in_one_process_do_not_disturb_each_other(options, tmp_path, monkeypatch):
    monkeypatch.setenv("WANDB_SWEEP_ID", "of-the-user")
    before = dict(os.environ)
    other = WandbSink.resolve({"target": str(tmp_path / "other"), "run_id": "other"}, tmp_path)
    sinks = opened(options), opened(other)
    for sink in sinks:
        sink.write(Batch.of(one_of_each(tmp_path)))
        sink.flush()
    sinks[0].close()
    sinks[1].write(Batch.of(one_of_each(tmp_path)))
    sinks[1].flush()
    sinks[1].close()
    assert [len(read_back(one)) for one in (options, other)] == [9, 18]
    for one in (options, other):
        assert str(one["target"]) in _staged_table(one)
    assert dict(os.environ) == before
    assert not services()


@pytest.mark.slow
def test_memory_does_not_grow_with_the_run(options):
    script = """
import json, sys, psutil, numpy, tracker_adapters.testing.contract as contract
from tracker_adapters.batch import Batch, ScalarColumns
from tracker_adapters.sinks.wandb import WandbSink
sink = WandbSink(**json.loads(sys.argv[1]))
sink.open(contract.INFO, None)
rss = []
for first in range(0, 600_000, 10_000):
    seqs = numpy.arange(first, first + 10_000)
    names = [f"layer{number % 50}/norm" for number in range(10_000)]
    sink.write(Batch(first_seq=first + 1, last_seq=first + 10_000, scalars=ScalarColumns(
        seqs=seqs, names=names, steps=seqs // 50, times_ns=seqs * 1000, values=seqs / 7)))
    sink.flush()
    rss.append(psutil.Process().memory_info().rss)
print(json.dumps(rss))
sink.close()
"""
    done = in_python(script, json.dumps(options))
    assert done.returncode == 0, done.stderr
    rss = json.loads(done.stdout)
    assert max(rss) - rss[5] < 8 * 2**20


def _staged_table(options):
    found = records(run_folders(options)[0])
    artifacts = [record.artifact for record in found if record.WhichOneof("record_type") == "artifact"]
    (*_, table) = [artifact for artifact in artifacts if artifact.type == "run_table"]
    return str(table.manifest.contents[0].local_path)
