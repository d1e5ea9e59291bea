"""What the ranks of a job do, in a module that a spawned process can import."""

import os
from pathlib import Path

import stepscope


def record_as_rank(path: Path, rank: int, crashes: bool) -> None:
    """Opens the run as the rank, records one scalar, and ends, or dies without a word."""
    run = stepscope.open_run(path, sinks=[], rank=rank)
    run.scalar("loss", rank, step=0)
    run.flush_store()
    if crashes:
        os._exit(1)
    run.close()
