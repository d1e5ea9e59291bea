"""What one scalar costs the training loop: ``run.scalar`` beside what users call today, in one process."""

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import psutil
from tracker_adapters.testing import StalledSink

import stepscope

Durations = dict[str, list[float]]
MLFLOW_CALLS = 5  # one takes milliseconds
BLOCK = [f"grad/{number}" for number in range(50)]


@dataclass(frozen=True)
class Figures:
    """Median and 99th percentile of one call, in microseconds."""

    median_us: float
    p99_us: float


def sides(folder: Path, *, rounds: int = 20, calls: int = 500) -> Durations:
    """Times each side once a round, in turn, so that a machine that slows down slows all of them.

    Args:
        folder: Where all of them write; empty.
        rounds: How often.
        calls: In a round; 5 of MLflow, where one takes milliseconds.

    Returns:
        The duration of each call in microseconds, by side. ``in a training loop`` has a matrix product before each
        call, which empties the caches; ``every sink stalled`` has stopped delivery processes and a sink that hangs in
        a thread; ``run.scalars, 50 names`` is one call for 50 scalars.
    """
    with ExitStack() as stack:
        emits = prepare(folder, stack)
        durations: Durations = {name: [] for name in emits}
        step = 0
        for _ in range(rounds):
            for name, emit in emits.items():
                for _ in range(MLFLOW_CALLS if name == "mlflow.log_metric" else calls):
                    step += 1
                    if name.endswith("in a training loop"):
                        work()
                    start = time.perf_counter_ns()
                    emit(step)
                    durations[name].append((time.perf_counter_ns() - start) / 1e3)
    return durations


def figures(durations: Durations) -> dict[str, Figures]:
    """Returns the median and the 99th percentile of each side."""
    return {
        name: Figures(statistics.median(values), statistics.quantiles(values, n=100)[98])
        for name, values in durations.items()
    }


def prepare(folder: Path, stack: ExitStack) -> dict[str, Callable[[int], object]]:
    import mlflow
    import wandb
    from torch.utils.tensorboard import SummaryWriter

    run = stack.enter_context(stepscope.open_run(folder / "run", sinks=["tensorboard", "local"]))
    stalled = stack.enter_context(stalled_run(folder / "stalled"))
    board = SummaryWriter(str(folder / "board"))
    stack.callback(board.close)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    stack.callback(mlflow.set_tracking_uri, None)
    mlflow.create_experiment("benchmark", artifact_location=(folder / "mlartifacts").as_uri())
    mlflow.set_experiment("benchmark")
    stack.enter_context(mlflow.start_run())
    tracked = wandb.init(mode="offline", dir=str(folder), settings=wandb.Settings(silent=True))
    stack.callback(tracked.finish)
    values = np.random.default_rng(0).random(len(BLOCK))
    return {
        "stepscope run.scalar": lambda step: run.scalar("loss", 0.5, step=step),
        "run.scalar in a training loop": lambda step: run.scalar("loss/loop", 0.5, step=step),
        "run.scalar, every sink stalled": lambda step: stalled.scalar("loss", 0.5, step=step),
        "run.scalars, 50 names": lambda step: run.scalars(BLOCK, values, step=step),
        "SummaryWriter.add_scalar": lambda step: board.add_scalar("loss", 0.5, step),
        "wandb.log": lambda step: tracked.log({"loss": 0.5}, step=step),
        "mlflow.log_metric": lambda step: mlflow.log_metric("loss", 0.5, step=step),
    }


@contextmanager
def stalled_run(folder: Path) -> Iterator[stepscope.Run]:
    """Opens a run whose sinks all stand still; they go on and take what waits when the block ends."""
    hanging = StalledSink()
    before = set(psutil.Process().children())
    run = stepscope.open_run(folder, sinks=["tensorboard", "local", hanging])
    run.scalar("first", 0.0, step=0)
    if not hanging.entered.wait(60):
        raise RuntimeError("no delivery within a minute")
    processes = [child for child in psutil.Process().children() if child not in before]
    for process in processes:
        process.suspend()
    try:
        yield run
    finally:
        hanging.release.set()
        for process in processes:
            process.resume()
        run.close(600)


def work() -> float:
    """About a tenth of a millisecond of arithmetic."""
    return float((_MATRIX @ _MATRIX).sum())


_MATRIX = np.random.default_rng(0).random((128, 128))
