"""What the tests of the W&B sink share: opening it, its service processes, other Python processes."""

import os
import subprocess
import sys
from typing import Any

import psutil
from readback_wandb import read_back
from tracker_adapters.artifacts import Scalar
from tracker_adapters.batch import Batch
from tracker_adapters.sink import RunStatus
from tracker_adapters.sinks.wandb import WandbSink
from tracker_adapters.testing.contract import INFO


def opened(options: dict[str, Any], token: bytes | None = None) -> WandbSink:
    sink = WandbSink(**options)
    sink.open(INFO, token)
    return sink


def carried(
    options: dict[str, Any], shown: Batch, token: bytes | None = None, *, status: RunStatus | None = "finished"
) -> bytes:
    """Shows a batch, and that the run ended unless ``status`` is None; returns the token to go on from."""
    sink = opened(options, token)
    sink.write(shown)
    token = sink.flush()
    if status is not None:
        sink.finish(status)
    sink.close()
    return token


def batch(step: int) -> Batch:
    return Batch.of([Scalar(name="loss", value=step / 2, step=step)], first_seq=step + 1)


def steps_shown(options: dict[str, Any]) -> list[int]:
    return [seen.step for seen in read_back(options)]


def services() -> list[psutil.Process]:
    return [child for child in psutil.Process().children() if child.name().startswith("wandb-core")]


def in_python(script: str, *arguments: object, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-c", script, *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)
