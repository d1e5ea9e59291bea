"""The MLflow sink and a real tracking server: what it serves, and the contract over HTTP."""

import json
import socket
import time
import urllib.request

import postgres
import pytest
from mlflow import MlflowClient
from mlflow_delivery import deliver
from mlflow_server import ServedContract, tracking_server
from readback_mlflow import artifact_paths, our_runs
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import INFO, one_of_each


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    with tracking_server(tmp_path_factory.mktemp("server")) as server:
        yield server


@pytest.mark.slow
@pytest.mark.skipif(postgres.why_not() is None, reason="PostgreSQL is here, behind a server with the same contract")
class TestMLflowSinkOverHTTP(ServedContract):
    pass


@pytest.mark.slow
def test_a_run_in_a_database_is_served(server, tmp_path):
    address = server.address
    options = MLflowSink.resolve({"target": server.database, "experiment": "in the database"}, tmp_path / "exp1")
    deliver(options, one_of_each(tmp_path))
    [run] = our_runs(options)
    url = f"{address}/api/2.0/mlflow/runs/get?run_id={run.info.run_id}"
    with urllib.request.urlopen(url, timeout=30) as response:
        served = json.load(response)["run"]
    assert served["info"]["run_name"] == INFO.name
    assert served["info"]["status"] == "FINISHED"
    assert [(m["key"], m["value"], m["step"]) for m in served["data"]["metrics"]] == [("scalar", 0.25, 3)]
    client = MlflowClient(address)
    paths = artifact_paths(client, run.info.run_id)
    assert "histograms/histogram.png" in paths
    for path in paths:
        url = f"{address}/get-artifact?path={urllib.request.quote(path)}&run_id={run.info.run_id}"
        with urllib.request.urlopen(url, timeout=30) as response:
            assert response.read()


@pytest.mark.slow
def test_a_server_that_is_down_is_an_error_soon(tmp_path):
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        sink = MLflowSink(**MLflowSink.resolve({"target": address}, tmp_path))
        started = time.monotonic()
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            sink.open(INFO, None)
        sink.close()
    assert time.monotonic() - started < 30
