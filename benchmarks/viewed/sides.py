"""Viewers as processes: each is started cold, asked for the first chart, for other charts, and for its memory."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psutil

from viewed.others_data import EXPERIMENT, RUN

READY_WITHIN_S = 900.0
_TRACKIO = "import sys; from trackio.cli import main; sys.argv[1:] = ['show', '--project', 'bench']; main()"
_PAUSE_S = 0.02
_ASK = {"Content-Type": "application/json"}


@dataclass(frozen=True)
class Server:
    """A viewer that was started: its address, and what it runs in."""

    root: str
    process: subprocess.Popen[bytes]
    started_s: float

    def ask(self, path: str, body: Any = None) -> bytes:
        """Returns what an address answers; raises OSError where it does not."""
        content = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.root + path, data=content, headers=_ASK if body is not None else {})
        with urllib.request.urlopen(request, timeout=300) as answer:
            found: bytes = answer.read()
        return found

    def until(self, ask: Callable[[], Any]) -> Any:
        """Asks until the answer is true; returns it."""
        while time.perf_counter() - self.started_s < READY_WITHIN_S:
            with suppress(OSError, ValueError, KeyError, IndexError, urllib.error.URLError):
                if found := ask():
                    return found
            if self.process.poll() is not None:
                raise RuntimeError(f"{self.process.args} ended with code {self.process.returncode}")
            time.sleep(_PAUSE_S)
        raise RuntimeError(f"{self.process.args} did not answer within {READY_WITHIN_S} s")

    def memory_mb(self) -> float:
        """Returns the memory of the server and of all that it has started."""
        own = psutil.Process(self.process.pid)
        return sum(one.memory_info().rss for one in [own, *own.children(recursive=True)]) / 1e6


@dataclass(frozen=True)
class Side:
    """A viewer.

    Attributes:
        command: Of a folder with its data and a port, the command.
        first: Waits for the first chart, with all of its steps; returns what further questions need.
        chart: Asks for the chart of a name.
    """

    command: Callable[[Path, int], list[str]]
    first: Callable[[Server, int], Any]
    chart: Callable[[Server, Any, str], bytes]


@contextmanager
def started(side: Side, folder: Path) -> Iterator[Server]:
    """Starts a viewer until the block ends; what its files have in the machine's memory is given up before."""
    _forget_files(folder)
    with socket.socket() as probe, tempfile.TemporaryFile() as log:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        probe.close()
        environment = os.environ | {
            "TRACKIO_DIR": str(folder),
            "GRADIO_SERVER_PORT": str(port),
            "GRADIO_NUM_PORTS": "1",
        }
        begun = time.perf_counter()
        command = side.command(folder, port)
        process = subprocess.Popen(command, stdout=log, stderr=log, env=environment, start_new_session=True)
        try:
            yield Server(f"http://127.0.0.1:{port}/", process, begun)
        finally:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _forget_files(folder: Path) -> None:
    for path in folder.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            os.close(descriptor)


def _ours_first(server: Server, steps: int) -> str:
    key: str = server.until(lambda: json.loads(server.ask("api/runs"))["runs"][0]["key"])
    server.ask("")
    server.ask(f"api/names?run={key}")
    server.ask(f"api/verdict?run={key}")
    _ours_chart(server, key, "loss")
    return key


def _ours_chart(server: Server, key: str, name: str) -> bytes:
    return server.ask(f"api/series?run={key}&width=600&name={urllib.parse.quote(name)}")


def _tensorboard_chart(server: Server, key: Any, name: str) -> bytes:
    return server.ask(f"data/plugin/scalars/scalars?run={RUN}&tag={urllib.parse.quote(name)}")


def _tensorboard_first(server: Server, steps: int) -> None:
    server.until(lambda: json.loads(_tensorboard_chart(server, None, "loss"))[-1][1] == steps - 1)


def _mlflow_first(server: Server, steps: int) -> str:
    def found() -> str:
        named = server.ask(f"api/2.0/mlflow/experiments/get-by-name?experiment_name={EXPERIMENT}")
        body = {"experiment_ids": [json.loads(named)["experiment"]["experiment_id"]]}
        return str(json.loads(server.ask("api/2.0/mlflow/runs/search", body))["runs"][0]["info"]["run_id"])

    key: str = server.until(found)
    _mlflow_chart(server, key, "loss")
    return key


def _mlflow_chart(server: Server, key: str, name: str) -> bytes:
    query = urllib.parse.urlencode({"run_ids": key, "metric_key": name, "max_results": 320})
    return server.ask(f"ajax-api/2.0/mlflow/metrics/get-history-bulk-interval?{query}")


def _trackio_first(server: Server, steps: int) -> None:
    body = {"project": "bench", "runs": [{"name": "large", "run": "large", "id": None, "run_id": None}]}
    server.until(lambda: server.ask("api/get_logs_batch", body))


def _trackio_chart(server: Server, key: Any, name: str) -> bytes:
    body = {"project": "bench", "run": "large", "metric_name": name, "max_points": 600}
    return server.ask("api/get_metric_values", body)


def _module(*words: str) -> list[str]:
    return [sys.executable, "-m", *words]


SIDES = {
    "stepscope": Side(
        lambda folder, port: _module("stepscope", "view", str(folder), "--port", str(port), "--no-browser"),
        _ours_first,
        _ours_chart,
    ),
    "tensorboard": Side(
        lambda folder, port: _module("tensorboard.main", "--logdir", str(folder), "--port", str(port)),
        _tensorboard_first,
        _tensorboard_chart,
    ),
    "mlflow": Side(
        lambda folder, port: _module(
            "mlflow", "server", "--backend-store-uri", f"sqlite:///{folder / 'mlflow.db'}", "--port", str(port),
            "--workers", "1",
        ),
        _mlflow_first,
        _mlflow_chart,
    ),
    "trackio": Side(
        lambda folder, port: [sys.executable, "-c", _TRACKIO],
        _trackio_first,
        _trackio_chart,
    ),
}  # fmt: skip
