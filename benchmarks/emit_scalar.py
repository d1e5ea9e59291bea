"""What one scalar costs the training loop: ``run.scalar`` beside what users call today, in one process.

Every round times each side once, in turn, so that a machine that slows down slows all of them.
"""

import json
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path

import stepscope

ROUNDS = 20
CALLS = 500
MLFLOW_CALLS = 5  # one takes milliseconds


def main() -> None:
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = prepare(Path(folder), stack)
        durations: dict[str, list[float]] = {name: [] for name in sides}
        step = 0
        for _ in range(ROUNDS):
            for name, emit in sides.items():
                calls = MLFLOW_CALLS if name == "mlflow.log_metric" else CALLS
                for _ in range(calls):
                    step += 1
                    start = time.perf_counter_ns()
                    emit(step)
                    durations[name].append((time.perf_counter_ns() - start) / 1e3)
        report(durations)


def prepare(folder: Path, stack: ExitStack) -> dict[str, Callable[[int], object]]:
    import mlflow
    import wandb
    from torch.utils.tensorboard import SummaryWriter

    run = stack.enter_context(stepscope.open_run(folder / "run", sinks=["tensorboard", "local"]))
    board = SummaryWriter(str(folder / "board"))
    stack.callback(board.close)
    mlflow.set_tracking_uri(f"sqlite:///{folder}/mlflow.db")
    mlflow.create_experiment("benchmark", artifact_location=(folder / "mlartifacts").as_uri())
    mlflow.set_experiment("benchmark")
    stack.enter_context(mlflow.start_run())
    tracked = wandb.init(mode="offline", dir=str(folder), settings=wandb.Settings(silent=True))
    stack.callback(tracked.finish)
    return {
        "stepscope run.scalar": lambda step: run.scalar("loss", 0.5, step=step),
        "SummaryWriter.add_scalar": lambda step: board.add_scalar("loss", 0.5, step),
        "wandb.log": lambda step: tracked.log({"loss": 0.5}, step=step),
        "mlflow.log_metric": lambda step: mlflow.log_metric("loss", 0.5, step=step),
    }


def report(durations: dict[str, list[float]]) -> None:
    ours = statistics.median(durations["stepscope run.scalar"])
    rows = {}
    print(f"{'one scalar, microseconds':28}{'median':>10}{'p99':>10}{'ratio of medians':>18}")
    for name, values in durations.items():
        median, p99 = statistics.median(values), statistics.quantiles(values, n=100)[98]
        rows[name] = {"median_us": median, "p99_us": p99, "ratio": median / ours}
        print(f"{name:28}{median:10.2f}{p99:10.2f}{median / ours:17.1f}x")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
