"""How long ``close`` takes when every sink hangs."""

import time
from pathlib import Path

import psutil
from tracker_adapters.testing import StalledSink

import stepscope

DEADLINES_S = (0.5, 2.0, 5.0)
SINKS = ("tensorboard", "mlflow", "wandb", "local")


def sides(folder: Path) -> dict[str, float]:
    """Closes runs whose delivery processes are all stopped, and whose sink in a thread does not return.

    Args:
        folder: Where the runs lie; empty.

    Returns:
        ``over_s``: by how much a close was longer than its deadline at most, for deadlines of 0.5, 2 and 5 s.
    """
    over = []
    for number, deadline in enumerate(DEADLINES_S):
        hanging = StalledSink()
        before = set(psutil.Process().children(recursive=True))
        run = stepscope.open_run(folder / str(number), sinks=[*SINKS, hanging])
        children = set(psutil.Process().children(recursive=True)) - before
        for child in children:
            child.suspend()
        for step in range(1000):
            run.scalar("loss", 0.5, step=step)
        start = time.perf_counter()
        run.close(deadline)
        over.append(time.perf_counter() - start - deadline)
        hanging.release.set()
        for child in children:
            child.kill()
    return {"over_s": max(over)}
