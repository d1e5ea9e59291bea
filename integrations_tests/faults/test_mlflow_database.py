"""A SQLite tracking database that somebody else has locked while a run trains."""

import contextlib
import sqlite3
import threading

import pytest
from faults import training
from mlflow_delivery import with_database
from mlflow_faults import assert_shown_exactly_once, wait_until_delivered
from mlflow_native import native_client
from tracker_adapters.sinks.mlflow import MLflowSink

pytestmark = [pytest.mark.fault, pytest.mark.slow]


@contextlib.contextmanager
def locked(database):
    """Holds SQLite's exclusive lock: others neither read nor write."""
    with contextlib.closing(sqlite3.connect(database, isolation_level=None, timeout=60)) as connection:
        connection.execute("BEGIN EXCLUSIVE")
        yield
        connection.execute("ROLLBACK")


@pytest.mark.parametrize("seconds", [3.0, pytest.param(30.0, marks=pytest.mark.slow)])
def test_a_locked_database_is_waited_for(tmp_path, fault_report, seconds):
    folder = tmp_path / "run"
    options = with_database(MLflowSink.resolve({}, folder))
    database = options["target"].removeprefix("sqlite:///")
    with (
        native_client(options["target"]) as native,
        training(folder, [{"type": "mlflow", **options}], steps=60, pauses=[19, 39, 59]) as run,
    ):
        run.wait_for_step(19)
        wait_until_delivered(folder, 20)
        with locked(database):
            call = native.call("metric")
            run.go_on()
            run.wait_for_step(39)  # training goes on
            threading.Event().wait(seconds)  # for as long as the fault lasts
        recovery_s = wait_until_delivered(folder, 40)
        assert native.wait(call, 60)
        run.go_on()
        run.wait_for_step(59)
        run.go_on()
        assert run.result()["complete"]
    assert_shown_exactly_once(options, folder, 60)
    outcome = f"log_metric {native.outcome(call)}"
    fault_report.add(f"MLflow: SQLite database locked {seconds:g} s", recovery_s=recovery_s, native=outcome)


def test_a_database_locked_from_the_start_is_waited_for(tmp_path):
    """Opening fails at once, again and again, instead of holding the delivery process."""
    folder = tmp_path / "run"
    options = with_database(MLflowSink.resolve({}, folder))
    with training(folder, [{"type": "mlflow", **options, "deadline_s": 30}], steps=20, pauses=[19]) as run:
        with locked(options["target"].removeprefix("sqlite:///")):
            run.wait_for_step(19)
            threading.Event().wait(2.0)
        wait_until_delivered(folder, 20)
        run.go_on()
        assert run.result()["complete"]
    assert_shown_exactly_once(options, folder, 20)
