"""Servers that tests start on 127.0.0.1 and stop again."""

import os
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path


def free_port() -> int:
    """Returns a port of 127.0.0.1 that nobody listens on."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


@contextmanager
def serving(
    command: Sequence[str],
    *,
    port: int,
    log: Path,
    path: str = "/",
    deadline_s: float = 120,
    environment: Mapping[str, str] | None = None,
) -> Iterator[str]:
    """Runs a server until the block ends; yields its address once ``path`` answers."""
    url = f"http://127.0.0.1:{port}"
    variables = os.environ | dict(environment or {})
    with log.open("ab") as stream:
        server = subprocess.Popen(command, stdout=stream, stderr=stream, env=variables, start_new_session=True)
    try:
        deadline = time.monotonic() + deadline_s
        while not _answers(url + path):
            assert time.monotonic() < deadline, f"{command[0]} does not answer: {log.read_text()}"
            assert not _ends_within(server, 0.02), f"{command[0]} ended: {log.read_text()}"
        yield url
    finally:
        if server.poll() is None:
            os.killpg(server.pid, signal.SIGTERM)
        if not _ends_within(server, 20):
            os.killpg(server.pid, signal.SIGKILL)
            server.wait()


def _ends_within(process: subprocess.Popen[bytes], timeout_s: float) -> bool:
    try:
        process.wait(timeout_s)
    except subprocess.TimeoutExpired:
        return False
    return True


def _answers(url: str) -> bool:
    try:
        with urllib.request.urlopen(url, timeout=5) as answer:
            return bool(answer.status == 200)
    except (urllib.error.URLError, OSError):
        return False
