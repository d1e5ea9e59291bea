"""Runs a function in a new process, to simulate a crash or to inspect what another process has left."""

import multiprocessing
from collections.abc import Callable
from typing import Any

_DEADLINE_S = 120.0


def call_spawned(target: Callable[..., None], *args: Any) -> tuple[Any, int | None]:
    """Calls ``target(*args, sender)`` in a new process that inherits nothing.

    Returns:
        What it sent, and the exit code of its process: -9 after SIGKILL, None if it has not ended.
    """
    context = multiprocessing.get_context("spawn")
    receiver, sender = context.Pipe(duplex=False)
    process = context.Process(target=target, args=(*args, sender))
    process.start()
    sender.close()
    assert receiver.poll(_DEADLINE_S), f"{target.__name__} sent nothing for {_DEADLINE_S:g} s"
    received = receiver.recv()
    process.join(_DEADLINE_S)
    return received, process.exitcode
