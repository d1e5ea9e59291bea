"""The MLflow sink and a real tracking server: what it serves, and the contract over HTTP."""

from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from mlflow_server import TrackingServer, tracking_server
from readback_mlflow import artifact_paths, our_runs, read_back
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import INFO, Shown, SinkContract, one_of_each


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TrackingServer]:
    with tracking_server(tmp_path_factory.mktemp("server")) as server:
        yield server


class TestMLflowSinkOverHTTP(SinkContract):
    sink_class = MLflowSink

    @pytest.fixture(autouse=True)
    def _served(self, server: TrackingServer) -> None:
        self.address = server.address

    def options(self, folder: Path) -> dict[str, Any]:
        return MLflowSink.resolve({"target": self.address, "experiment": str(folder)}, folder)

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        return read_back(options)


def test_a_run_in_a_database_is_served(server: TrackingServer, tmp_path: Path) -> None:
    address = server.address
    options = MLflowSink.resolve({"target": server.database, "experiment": "in the database"}, tmp_path / "exp1")
    sink = MLflowSink(**options)
    sink.open(INFO, None)
    sink.write(Batch.of(one_of_each(tmp_path)))
    sink.flush()
    sink.finish("finished")
    sink.close()
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


def test_a_server_that_is_down_is_an_error_soon(tmp_path: Path) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        address = f"http://127.0.0.1:{probe.getsockname()[1]}"
        sink = MLflowSink(**MLflowSink.resolve({"target": address}, tmp_path))
        started = time.monotonic()
        with pytest.raises(Exception, match=r"127\.0\.0\.1"):
            sink.open(INFO, None)
        sink.close()
    assert time.monotonic() - started < 30
