"""The MLflow sink and a real tracking server: what it serves, and the contract over HTTP."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from mlflow import MlflowClient
from readback_mlflow import artifact_paths, our_runs, read_back
from tracker_adapters.batch import Batch
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import INFO, Shown, SinkContract, one_of_each

DEADLINE_S = 90


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, str]]:
    """A tracking server on a SQLite database; yields the database's URI and the server's address."""
    folder = tmp_path_factory.mktemp("server")
    database = f"sqlite:///{folder / 'mlflow.db'}"
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
    command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port), "--workers", "1"]
    command += ["--backend-store-uri", database, "--artifacts-destination", str(folder / "artifacts")]
    environment = os.environ | {"MLFLOW_DISABLE_TELEMETRY": "true"}
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
    address = f"http://127.0.0.1:{port}"
    try:
        deadline = time.monotonic() + DEADLINE_S
        while not _answers(address):
            assert process.poll() is None, (folder / "log").read_text()
            assert time.monotonic() < deadline, (folder / "log").read_text()
            time.sleep(0.1)
        yield database, address
    finally:
        os.killpg(process.pid, signal.SIGTERM)
        process.wait(30)


def _answers(address: str) -> bool:
    try:
        with urllib.request.urlopen(f"{address}/health", timeout=2) as response:
            return bool(response.status == 200)
    except OSError:
        return False


class TestMLflowSinkOverHTTP(SinkContract):
    sink_class = MLflowSink

    @pytest.fixture(autouse=True)
    def _served(self, server: tuple[str, str]) -> None:
        self.address = server[1]

    def options(self, folder: Path) -> dict[str, Any]:
        return MLflowSink.resolve({"target": self.address, "experiment": str(folder)}, folder)

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        return read_back(options)


def test_a_run_in_a_database_is_served(server: tuple[str, str], tmp_path: Path) -> None:
    database, address = server
    options = MLflowSink.resolve({"target": database, "experiment": "in the database"}, tmp_path / "exp1")
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
