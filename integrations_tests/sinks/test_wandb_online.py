"""The W&B sink online, through the SDK and its service process: it ends in time, and starts anew after a bad end."""

import json
import signal
import threading
import time
from dataclasses import replace

import pytest
from tracker_adapters.errors import StartOver
from tracker_adapters.sinks.wandb import WandbSink, sdk_run
from tracker_adapters.testing.contract import INFO
from waiting import until
from wandb_runs import batch, carried, opened, services


@pytest.fixture
def options(server_of_wandb, tmp_path):
    return WandbSink.resolve({"mode": "online", "project": "p"}, tmp_path / "run")


def test_after_a_clean_end_it_goes_on_in_the_same_run(server_of_wandb, options):
    token = None
    for step in range(2):
        token = carried(options, batch(step), token)
    assert [row["step"] for row in server_of_wandb.runs["contract"].history] == [0, 1]
    assert not services()


def test_what_a_run_says_of_itself_later_is_uploaded(server_of_wandb, options):
    sink = opened(options)
    sink.write(batch(0))
    sink.flush()
    sink.describe(replace(INFO, name="renamed", config={"lr": 0.5}, tags=("t1", "t2"), environment={"commit": "0123"}))
    sink.write(batch(1))
    token = sink.flush()
    sink.finish("finished")
    sink.close()
    run = server_of_wandb.runs["contract"]
    assert (run.about["displayName"], run.about["tags"]) == ("renamed", ["t1", "t2"])
    assert json.loads(run.about["config"])["lr"]["value"] == 0.5
    assert [row["step"] for row in run.history] == [0, 1]
    carried(options, batch(2), token)  # its position was noted: it goes on in the same run
    assert [row["step"] for row in run.history] == [0, 1, 2]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")  # in the SDK's own threads
def test_a_killed_service_is_an_error_and_a_new_run_takes_over(server_of_wandb, options):
    threads = set(threading.enumerate())
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
    assert time.monotonic() - started < sdk_run.STOP_TIMEOUT_S
    until(lambda: set(threading.enumerate()) <= threads)
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, token)
    sink = opened(options)
    for step in (0, 1):
        sink.write(batch(step))
    sink.flush()
    sink.finish("finished")
    sink.close()
    assert [row["step"] for row in server_of_wandb.runs["contract.2"].history] == [0, 1]
    assert not services()


def test_a_service_that_hangs_is_killed_at_the_deadline(options, monkeypatch):
    monkeypatch.setattr(sdk_run, "STOP_TIMEOUT_S", 0.5)
    sink = opened(options)
    sink.write(batch(0))
    token = sink.flush()
    threads = set(threading.enumerate())
    services()[0].send_signal(signal.SIGSTOP)
    started = time.monotonic()
    sink.close()
    assert time.monotonic() - started < 25  # of 30 unless told otherwise
    assert not services()
    # The thread that waited for the service ends once the service has gone.
    until(lambda: set(threading.enumerate()) <= threads)
    with pytest.raises(StartOver):
        WandbSink(**options).open(INFO, token)
