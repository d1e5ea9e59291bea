"""Real tracking servers on 127.0.0.1, which tests start, restart and stop."""

import re
import sys
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import pytest
from mlflow_delivery import with_database
from readback_mlflow import read_back
from servers import free_port, serving
from tracker_adapters.sinks.mlflow import MLflowSink
from tracker_adapters.testing.contract import Shown, SinkContract

LEAN_SERVER = {"MLFLOW_DISABLE_TELEMETRY": "true", "MLFLOW_SERVER_ENABLE_JOB_EXECUTION": "false"}
"""The environment of a server without the processes for jobs, which take thrice as much of a processor as itself."""


class TrackingServer:
    """``mlflow server`` with its artifacts behind it; ``stop`` and ``start`` restart it at the same address."""

    def __init__(self, folder: Path, database: str) -> None:
        self.database = database
        self.port = free_port()
        self.address = f"http://127.0.0.1:{self.port}"
        self._folder = folder
        self._log = folder / "log"
        self._running = ExitStack()

    def start(self) -> None:
        """Starts the server and waits until it answers."""
        command = [sys.executable, "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(self.port)]
        command += ["--workers", "1", "--backend-store-uri", self.database]
        command += ["--serve-artifacts", "--artifacts-destination", str(self._folder / "artifacts")]
        self._running.enter_context(
            serving(command, port=self.port, log=self._log, path="/health", environment=LEAN_SERVER)
        )

    def stop(self) -> None:
        """Ends the server; whatever it is asked then is refused."""
        self._running.close()

    def requests(self) -> list[str]:
        """Returns method and path of each request so far; the server logs a request before it answers."""
        return re.findall(r'"([A-Z]+ [^ ?"]+)[^"]*" \d+', self._log.read_text())


@contextmanager
def tracking_server(folder: Path, database: str | None = None) -> Iterator[TrackingServer]:
    """Runs a tracking server until the block ends, on a SQLite database in ``folder`` unless another one is given."""
    server = TrackingServer(
        folder, database or with_database({"target": f"sqlite:///{folder / 'mlflow.db'}"})["target"]
    )
    server.start()
    try:
        yield server
    finally:
        server.stop()


class ServedContract(SinkContract):
    """The contract of the MLflow sink at the fixture ``server``: over HTTP, or at its database where it says so."""

    sink_class = MLflowSink
    asks = "address"

    @pytest.fixture(autouse=True)
    def _served(self, server):
        self._target = getattr(server, self.asks)

    def options(self, folder: Path) -> dict[str, Any]:
        return MLflowSink.resolve({"target": self._target, "experiment": str(folder)}, folder)

    def read_back(self, options: dict[str, Any]) -> list[Shown]:
        return read_back(options)
