"""The MLflow sink and PostgreSQL, behind a tracking server and directly: the contract, limits, restarts, secrets."""

import socket
import traceback
from contextlib import closing

import psycopg2
import pytest
from mlflow_delivery import client_of, deliver, opened, scalars, the_run
from mlflow_server import ServedContract, tracking_server
from postgres import PASSWORD, postgres
from readback_mlflow import read_back
from tracker_adapters.artifacts import Alert, RunInfo, Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.errors import SinkError
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import TIME_NS, one_of_each

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with postgres() as database, tracking_server(tmp_path_factory.mktemp("server"), database) as server:
        yield server


class TestServedFromPostgres(ServedContract):
    pass


class TestPostgresDirectly(ServedContract):
    asks = "database"


@pytest.fixture
def options(server, tmp_path):
    return MLflowSink.resolve({"target": server.address, "experiment": str(tmp_path)}, tmp_path / "exp1")


def test_a_server_restarted_between_and_within_writes(server, options, tmp_path):
    """A write that meets no server fails, and doubles nothing when it is repeated."""
    parts = [one_of_each(tmp_path, step=step) for step in (1, 2, 3)]
    batches = [Batch.of(part, first_seq=1 + len(part) * number) for number, part in enumerate(parts)]
    sink = opened(options)
    sink.write(batches[0])
    token = sink.flush()
    sink.write(batches[1])  # committed by the server, and not by us
    server.stop()
    try:
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            sink.write(batches[2])
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            opened(options, token)
    finally:
        server.start()
    sink = opened(options, token)
    for batch in batches[1:]:
        sink.write(batch)
        sink.flush()
    sink.finish("finished")
    shown = sorted((seen.kind, seen.step) for seen in read_back(options))
    assert shown == sorted((artifact.kind, artifact.step) for part in parts for artifact in part)


def test_any_configuration_fits_into_requests_that_the_server_takes(options):
    """150 params of 6000 characters are 5 MB in JSON; a request takes 1 MB, and PostgreSQL no NUL character."""
    config = {f"p{number}": "ü" * 6000 for number in range(150)} | {"nul": "a\0b"}
    info = RunInfo(id="large", name="n" * 300, config=config, tags=tuple(f"t{number}" * 100 for number in range(120)))
    deliver(options, [Alert(name="a", message="nul \0 inside", step=1)], info)
    run = the_run(options)
    assert len(run.data.params) == 151
    assert set(run.data.params.values()) == {"ü" * 6000, "a\\0b"}
    assert sum(key.startswith("stepscope.tag.") for key in run.data.tags) == 120
    assert run.info.run_name.startswith("nnn")
    assert run.data.tags["stepscope.alert.a"].endswith("nul \\0 inside")


def test_names_that_take_six_bytes_a_letter_fit_into_requests_too(options):
    names = [f"{'ü' * 240}{number}" for number in range(1200)]
    deliver(options, [Scalar(name=name, value=1.0, step=0, time_ns=TIME_NS) for name in names])
    assert the_run(options).data.metrics == dict.fromkeys(names, 1.0)


def test_connections_that_the_database_ends_are_made_again(server, tmp_path):
    options = MLflowSink.resolve({"target": server.database, "experiment": str(tmp_path)}, tmp_path / "exp1")
    batches = [Batch.of(scalars("loss", [step]), first_seq=1 + step) for step in range(3)]
    sink = opened(options)
    sink.write(batches[0])
    token = sink.flush()
    with closing(psycopg2.connect(server.database.replace("+psycopg2", ""))) as admin:
        admin.autocommit = True
        admin.cursor().execute("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid()")
    for batch in batches[1:]:
        try:
            sink.write(batch)
        except Exception:  # as delivery does
            sink = opened(options, token)
            sink.write(batch)
        token = sink.flush()
    assert [seen.step for seen in read_back(options)] == [0, 1, 2]


def test_a_whole_replay_in_halves_doubles_nothing(options):
    """As bisection does it: the whole batch was taken, and comes again in two."""
    points = scalars("loss", range(2500))
    sink = opened(options)
    sink.write(Batch.of(points))
    sink = opened(options)
    for first, part in ((1, points[:1300]), (1301, points[1300:])):
        sink.write(Batch.of(part, first_seq=first))
    history = client_of(options).get_metric_history(the_run(options).info.run_id, "loss")
    assert [point.step for point in history] == list(range(2500))


def test_no_error_and_no_hint_shows_the_databases_password(server, tmp_path):
    options = MLflowSink.resolve({"target": server.database}, tmp_path)
    quoted = server.database.partition(":")[2].partition("@")[0].rpartition(":")[2]
    assert quoted not in MLflowSink.look(options)
    assert "127.0.0.1" in MLflowSink.look(options)
    wrong = server.database.replace("/mlflow", "/nowhere")
    with pytest.raises(SinkError, match="nowhere") as raised:
        opened(MLflowSink.resolve({"target": wrong}, tmp_path))
    shown = str(raised.value) + str(raised.value.__cause__)
    assert PASSWORD not in shown
    assert quoted not in shown


def test_no_error_shows_the_password_of_a_server(tmp_path):
    with socket.socket() as nobody:
        nobody.bind(("127.0.0.1", 0))
        address = f"http://user:hunter2secret@127.0.0.1:{nobody.getsockname()[1]}"
        options = MLflowSink.resolve({"target": address}, tmp_path)
        assert "hunter2secret" not in MLflowSink.look(options)
        with pytest.raises(SinkError, match=r"127\.0\.0\.1") as raised:
            opened(options)
    assert "hunter2secret" not in "".join(traceback.format_exception(raised.value))
