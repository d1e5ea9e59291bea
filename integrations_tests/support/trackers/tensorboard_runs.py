"""Writes to TensorBoard's folders as delivery does, and starts TensorBoard on them."""

import re
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from tracker_adapters.artifacts import RunInfo
from tracker_adapters.batch import Batch
from tracker_adapters.sink import RunStatus
from tracker_adapters.sinks.tensorboard import TensorBoardSink
from tracker_adapters.testing.contract import INFO


def opened(folder: Path, token: bytes | None = None, info: RunInfo = INFO) -> TensorBoardSink:
    sink = TensorBoardSink(target=str(folder))
    sink.open(info, token)
    return sink


def carried(
    folder: Path, batch: Batch, token: bytes | None = None, *, info: RunInfo = INFO, status: RunStatus | None = None
) -> bytes:
    """Shows a batch, and how the run ended if it did; returns the token to go on from."""
    sink = opened(folder, token, info)
    sink.write(batch)
    token = sink.flush()
    if status is not None:
        sink.finish(status)
    sink.close()
    return token


@contextmanager
def tensorboard(runs: Path, *options: str) -> Iterator[str]:
    """Starts TensorBoard on a free port; yields its address."""
    command = [sys.executable, "-m", "tensorboard.main", "--logdir", str(runs), "--host", "127.0.0.1", "--port", "0"]
    with subprocess.Popen([*command, *options], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True) as server:
        assert server.stderr is not None
        try:
            addresses = (re.search(r"http://127\.0\.0\.1:\d+/", line) for line in server.stderr)
            yield next(match[0] for match in addresses if match)
        finally:
            server.terminate()
            try:
                server.wait(20)
            except subprocess.TimeoutExpired:  # on a busy machine it was seen to hang while it ends
                server.kill()
