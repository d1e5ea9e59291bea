"""Runs at s3:// URLs, against a real S3 endpoint: written by a training, read elsewhere, under faults on the way."""

import os
import signal
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest
from click.testing import CliRunner
from fault_training import emitted_by
from faults import stored_counts, training
from s3_server import BUCKET, FAULTS, s3_endpoint
from tracker_adapters.errors import RunError, RunExistsError
from waiting import until

import stepscope
from stepscope.cli import main
from stepscope.runs.places import fetch_run

STEPS = 60
SECRET = b"zanzibar-s3-4711"


@pytest.fixture(scope="module")
def s3(tmp_path_factory):
    with s3_endpoint(tmp_path_factory.mktemp("s3")) as endpoint:
        yield endpoint


@pytest.fixture
def url(tmp_path):
    """A place that no other test has."""
    return f"s3://{BUCKET}/runs/{tmp_path.name}"


@pytest.fixture
def elsewhere(s3, tmp_path, monkeypatch):
    """Makes this process a machine of its own, with another cache."""
    s3.proxy.fault = None
    for name, value in s3.variables.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "elsewhere"))
    return tmp_path / "elsewhere"


def variables(s3, tmp_path):
    timeouts = '{"config_kwargs": {"read_timeout": 1, "connect_timeout": 1}}'  # in place of half a minute
    return {**s3.variables, "STEPSCOPE_CACHE": str(tmp_path / "cache"), "FSSPEC_S3": timeouts}


def counts_there(url):
    with stepscope.read_run(url) as record:
        counts: Counter[str] = Counter()
        for info in record.names("all"):
            counts[info.kind] += info.count
        assert record.info.status == "finished"
        return counts


def is_complete(s3, url):
    index = f"{url}/sealed.json"
    return s3.direct.exists(index) and b'"writer": null' in s3.direct.cat_file(index)


def uploading(pid):
    found = []
    for child in psutil.Process(pid).children(recursive=True):
        try:
            if "tracker_adapters.remote.upload" in child.cmdline():
                found.append(child)
        except psutil.Error:
            continue
    return found


def test_a_run_at_a_url_is_there_when_it_is_closed(s3, tmp_path, url, elsewhere):
    with training(tmp_path / "run", ["local"], steps=STEPS, at=url, environment=variables(s3, tmp_path)) as run:
        assert run.result()["complete"]
    assert counts_there(url) == emitted_by(STEPS)
    there = {name.removeprefix(url.removeprefix("s3://") + "/") for name in s3.direct.find(url)}
    assert {"run.json", "sealed.json", "local/scalars.csv", "store/rank_00000/delivery.db"} <= there
    with stepscope.read_run(url) as record:
        assert len(record.scalars("loss")) == STEPS
        assert len(record.images("weight/0")) == STEPS // 20
        assert not (record.path / "local").exists()  # nobody asked for it
    with pytest.raises(RunExistsError, match="already holds a run"):
        stepscope.open_run(url, sinks=[], exists="raise")
    with stepscope.open_run(url, sinks=[]) as second:
        second.scalar("loss", 1.0, step=0)
    assert second.info.name == f"{url.rpartition('/')[2]}-2"
    assert len(stepscope.read_run(f"{url}-2").scalars("loss")) == 1
    # The credentials reached no file, here and there.
    assert not [path for path in tmp_path.rglob("*") if path.is_file() and SECRET in path.read_bytes()]
    assert not [name for name in s3.direct.find(url) if SECRET in s3.direct.cat_file(name)]


@pytest.mark.slow
@pytest.mark.parametrize(
    "order",
    [
        pytest.param((1, 0), id="rank 0 ends last"),
        pytest.param((0, 1), id="rank 0 ends first", marks=pytest.mark.slow),  # half a minute goes by meanwhile
    ],
)
@pytest.mark.usefixtures("elsewhere")
def test_ranks_at_a_url_are_merged_elsewhere(s3, tmp_path, url, monkeypatch, order):
    runs = [stepscope.open_run(url, sinks=[], rank=rank) for rank in (0, 1)]
    for rank, run in enumerate(runs):
        run.scalar("loss", rank + 1.0, step=3)
        run.histogram("outputs/0", np.full(rank + 1, 2.0), step=3)
    for rank in order:
        runs[rank].close()
    until(lambda: len([name for name in s3.direct.find(url) if name.endswith("segment_000000.db")]) == 2)
    until(lambda: is_complete(s3, url))
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "third"))
    with stepscope.read_run(url) as record:
        merged = stepscope.MergedRanks(record)
        loss = merged.scalars("loss")
        assert (loss.steps.tolist(), loss.values.tolist(), loss.ranks.tolist()) == ([3], [1.5], [2])
        assert merged.histogram("outputs/0", 3).count == 3


@pytest.mark.slow
@pytest.mark.usefixtures("elsewhere")
def test_each_machine_has_its_ranks_copied_and_a_second_one_takes_the_next_number(s3, tmp_path, url, monkeypatch):
    runs = {}
    for machine, ranks in enumerate([(0, 1), (2, 3)]):
        monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / f"machine_{machine}"))
        for local, rank in enumerate(ranks):
            for name, value in {"RANK": rank, "LOCAL_RANK": local, "WORLD_SIZE": 4, "GROUP_WORLD_SIZE": 2}.items():
                monkeypatch.setenv(name, str(value))
            runs[rank] = stepscope.open_run(url, sinks=[])
            runs[rank].scalar("loss", float(rank), step=0)
    for rank in (3, 2, 1, 0):
        assert runs[rank].close(timeout=120) or rank % 2
    monkeypatch.setenv("STEPSCOPE_CACHE", str(tmp_path / "third"))
    for place, ranks in {url: (0, 1), f"{url}-2": (2, 3)}.items():
        with stepscope.read_run(place) as record:
            assert (record.ranks, record.info.status) == (ranks, "finished")
            assert record.scalars("loss", rank="all").values.tolist() == [float(rank) for rank in ranks]


@pytest.mark.usefixtures("elsewhere")
def test_a_further_machine_that_resumes_says_that_it_is_not_copied(tmp_path, url, monkeypatch, capsys):
    for name, value in {"RANK": 2, "LOCAL_RANK": 0, "WORLD_SIZE": 4}.items():
        monkeypatch.setenv(name, str(value))
    with stepscope.open_run(url, sinks=[], resume=True) as run:
        run.scalar("loss", 1.0, step=0)
    assert f"the ranks of this machine are not copied to {url}" in capsys.readouterr().err
    assert [path.name for path in run.path.glob("store/rank_*")] == ["rank_00002"]


NATIVE = """
import sys
from torch.utils.tensorboard import SummaryWriter
writer = SummaryWriter(sys.argv[1], flush_secs=1)
writer.add_scalar("loss", 1.0, 0)
writer.flush()
print("writing", flush=True)
sys.stdin.readline()
try:
    for step in range(1, 500):
        writer.add_scalar("loss", 1.0, step)
        writer.flush()
    writer.close()
except Exception as error:
    print(f"SummaryWriter raised {type(error).__name__} in the training at step {step}")
else:
    print("SummaryWriter went on")
"""


NATIVE_TIMEOUT_S = 120


def native_summary_writer(s3, url, mode):
    """Does the same to TensorBoard's own client of S3; returns what it did."""
    variables = os.environ | s3.variables | {"S3_ENDPOINT": s3.variables["AWS_ENDPOINT_URL"]}
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.DEVNULL}
    with subprocess.Popen([sys.executable, "-c", NATIVE, f"{url}-native"], env=variables, text=True, **pipes) as writer:
        try:
            assert writer.stdout is not None
            assert writer.stdout.readline() == "writing\n"
            s3.proxy.fault = FAULTS[mode]
            return writer.communicate("\n", timeout=NATIVE_TIMEOUT_S)[0].strip()
        except subprocess.TimeoutExpired:
            return f"SummaryWriter blocks the training: no return after {NATIVE_TIMEOUT_S} s"
        finally:
            s3.proxy.fault = None
            writer.kill()


@pytest.mark.fault
@pytest.mark.parametrize(
    "mode", ["cut", *(pytest.param(mode, marks=pytest.mark.slow) for mode in ("refuse", "busy", "hole", "stall"))]
)
def test_an_endpoint_that_fails_for_a_while_costs_nothing(s3, tmp_path, url, elsewhere, mode, *, fault_report):
    before, last = s3.proxy.faults, STEPS - 1
    options: dict[str, Any] = {"at": url, "close_timeout": 1.0, "environment": variables(s3, tmp_path)}
    with training(tmp_path / "run", [], steps=STEPS, pauses=[5, last], **options) as run:
        run.wait_for_step(5)
        s3.proxy.fault = FAULTS[mode]
        run.go_on()
        run.wait_for_step(last)
        until(lambda: stored_counts(next((tmp_path / "cache" / "runs").iterdir())) == emitted_by(STEPS))
        run.go_on()
        result = run.result()
        assert not result["complete"]
        assert result["stored"] == result["emitted"]
        until(lambda: s3.proxy.faults > before)
        s3.proxy.fault = None
        seconds = until(lambda: is_complete(s3, url), 200)
    assert counts_there(url) == emitted_by(STEPS)
    native = native_summary_writer(s3, url, mode) if fault_report.wanted else ""
    fault_report.add(f"object store: {mode} while a run is copied", recovery_s=seconds, native=native)


@pytest.mark.slow
@pytest.mark.fault
def test_an_upload_that_is_killed_is_started_again(s3, tmp_path, url, elsewhere, fault_report):
    pauses = [10]
    with training(tmp_path / "run", [], steps=STEPS, pauses=pauses, at=url, environment=variables(s3, tmp_path)) as run:
        for step in pauses:
            run.wait_for_step(step)
            until(lambda: uploading(run.process.pid))
            for child in uploading(run.process.pid):
                child.kill()
                child.wait(60)
            run.go_on()
        assert run.result()["complete"]
    assert counts_there(url) == emitted_by(STEPS)
    fault_report.add("object store: the copying process killed", runs=len(pauses))


@pytest.mark.slow
@pytest.mark.fault
def test_a_killed_run_goes_on_on_another_machine(s3, tmp_path, url, elsewhere, fault_report):
    with training(tmp_path / "run", [], steps=STEPS, pauses=[20], at=url, environment=variables(s3, tmp_path)) as run:
        run.wait_for_step(20)
        (child,) = until_some(lambda: uploading(run.process.pid))
        # What was emitted in the last 100 ms may be lost with the process.
        until(lambda: stored_counts(next((tmp_path / "cache" / "runs").iterdir())) == emitted_by(21))
        run.process.send_signal(signal.SIGKILL)
        psutil.wait_procs([child], timeout=60)
    with stepscope.read_run(url) as record:
        assert record.info.status == "failed"
        assert record.scalars("loss").steps.tolist() == list(range(21))
    with stepscope.open_run(url, sinks=[], resume=True) as resumed:
        assert resumed.attempt == 2
        for step in range(21, 30):
            resumed.scalar("loss", 1.0, step=step)
    with stepscope.read_run(url) as record:
        assert record.scalars("loss").steps.tolist() == list(range(30))
        assert record.info.status == "finished"
    fault_report.add("object store: run killed, resumed on another machine")


def until_some(found):
    until(found)
    return found()


def test_the_commands_take_urls_and_upload_what_was_left(s3, tmp_path, url, elsewhere):
    with stepscope.open_run(tmp_path / "local", sinks=[]) as run:
        run.scalar("loss", 1.5, step=3)
    uploaded = CliRunner().invoke(main, ["upload", str(tmp_path / "local"), url])
    assert uploaded.exit_code == 0, uploaded.output
    assert f"is at {url}" in uploaded.output
    listed = CliRunner().invoke(main, ["ls", url])
    assert "loss" in listed.output
    assert (fetch_run(url) / "run.json").exists()
    exported = CliRunner().invoke(main, ["export", url, "--format", "csv", "--output", str(tmp_path / "out")])
    assert exported.exit_code == 0, exported.output
    assert "1.5" in (tmp_path / "out" / "scalars.csv").read_text()
    missing = CliRunner().invoke(main, ["ls", f"s3://{BUCKET}/nothing"])
    assert (missing.exit_code, missing.output.count("\n")) == (2, 1)
    assert "holds no stepscope run" in missing.output


def test_a_bucket_that_is_not_there_is_said_at_the_callers_line(elsewhere):
    with pytest.raises(RunError, match=r"cannot write to s3://no-such-bucket/run: .*expected a place that exists"):
        stepscope.open_run("s3://no-such-bucket/run", sinks=[])
    assert not list(elsewhere.rglob("run.json"))


@pytest.mark.slow
def test_a_place_that_never_answers_is_given_up_at_the_callers_line(s3, url, elsewhere, monkeypatch):
    monkeypatch.setattr("tracker_adapters.remote.opening.OPEN_TIMEOUT_S", 4.0)
    s3.proxy.fault = FAULTS["hole"]
    try:
        with pytest.raises(RunError, match="does not respond within 4 s"):
            stepscope.open_run(url, sinks=[])
    finally:
        s3.proxy.fault = None


ALONE = """
import sys, threading, stepscope
with stepscope.open_run(sys.argv[1], sinks=["local"]) as run:
    run.scalar("loss", 1.0, step=0)
    print(sorted({"fsspec", "s3fs", "botocore"} & sys.modules.keys()), [one.name for one in threading.enumerate()])
"""


@pytest.mark.slow
def test_the_training_process_has_no_client_of_the_object_store(url, elsewhere):
    """It would bring threads, and a training process forks."""
    done = subprocess.run([sys.executable, "-c", ALONE, url], capture_output=True, text=True, timeout=120, check=False)
    assert (done.stdout.strip(), done.stderr) == ("[] ['MainThread', 'stepscope-store']", "")


NETWORK = """
import sys, stepscope
run = stepscope.open_run("shared/exp1", sinks=["local"])
for step in range(200):
    run.scalar("loss", 1.0 / (1 + step), step=step)
run.page(sys.argv[1], step=3)
assert run.close(60)
print(run.path)
"""


@pytest.mark.slow
def test_on_a_network_file_system_the_live_part_is_local_and_the_rest_is_copied(tmp_path):
    (tmp_path / "page_0.pkl").write_bytes(b"page")
    environment = os.environ | {"STEPSCOPE_LOCAL_STORE": "always", "STEPSCOPE_CACHE": str(tmp_path / "cache")}
    command = [sys.executable, "-c", NETWORK, str(tmp_path / "page_0.pkl")]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr.count("is written in") == 1
    folder = tmp_path / "shared" / "exp1"
    assert Path(done.stdout.strip()).is_relative_to(tmp_path / "cache")
    assert not list(folder.rglob("*-wal"))
    assert len((folder / "local" / "scalars.csv").read_text().splitlines()) == 201
    with stepscope.read_run(folder) as record:
        assert len(record.scalars("loss")) == 200
        assert record.pages()[0].path.read_bytes() == b"page"
        assert record.info.status == "finished"
    again = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120, check=False
    )
    assert again.returncode == 0, again.stderr
    assert f"{folder.as_uri()} already holds a run" in again.stderr
    assert len((folder.with_name("exp1-2") / "local" / "scalars.csv").read_text().splitlines()) == 201
