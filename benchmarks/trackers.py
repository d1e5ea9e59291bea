"""Delivery beside the trackers' own clients, both sides in one run: what a call costs, and how much arrives a second.

Run: ``python benchmarks/trackers.py --json FILE`` on a quiet machine; it takes some minutes. docs/benchmarks.md says
how to read the table.
"""

import argparse
import json
import statistics
import tempfile
from collections.abc import Callable, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context
from pathlib import Path
from typing import Any

from delivery import (
    closing_side,
    emit_side,
    live_side,
    local_side,
    mlflow_side,
    stalled_side,
    store_side,
    tensorboard_side,
    wandb_side,
)
from watched.machine import machine


@dataclass(frozen=True)
class Goal:
    """A figure that is to be reached: at least ``least``, or at most ``most``."""

    title: str
    value: Callable[[Mapping[str, Any]], float]
    least: float | None = None
    most: float | None = None

    def line(self, found: Mapping[str, Any]) -> str:
        """Returns what was reached and what was to be."""
        value = self.value(found)
        bound = f"at least {self.least:g}" if self.least is not None else f"at most {self.most:g}"
        met = value >= self.least if self.least is not None else self.most is None or value <= self.most
        return f"{self.title:72}{value:14.2f}  {bound:18}{'' if met else 'MISSED'}"


def rate(part: str, side: str) -> Callable[[Mapping[str, Any]], float]:
    """The median rate of a side."""
    return lambda found: statistics.median(found[part][side])


def times(part: str, ours: str, theirs: str, *, from_part: str | None = None) -> Callable[[Mapping[str, Any]], float]:
    """How many times as fast our side is as theirs."""
    return lambda found: statistics.median(found[from_part or part][ours]) / statistics.median(found[part][theirs])


def call(side: str, figure: str) -> Callable[[Mapping[str, Any]], float]:
    """A figure of a call, in microseconds."""
    return lambda found: float(found["emit"][side][figure])


PARTS: dict[str, Callable[[Path], Any]] = {
    "emit": lambda folder: {
        name: {"median_us": one.median_us, "p99_us": one.p99_us}
        for name, one in emit_side.figures(emit_side.sides(folder)).items()
    },
    "stalled": stalled_side.sides,
    "closing": closing_side.sides,
    "tensorboard": tensorboard_side.sides,
    "mlflow": mlflow_side.sides,
    "wandb": wandb_side.sides,
    "local": local_side.sides,
    "live": live_side.sides,
    "store": store_side.sides,
}
GOALS = {
    "emit": [
        Goal("run.scalar, median, us", call("stepscope run.scalar", "median_us"), most=2.5),
        Goal("run.scalar, p99, us", call("stepscope run.scalar", "p99_us"), most=20),
        Goal("  every sink stalled, median, us", call("run.scalar, every sink stalled", "median_us"), most=2.5),
        Goal("  every sink stalled, p99, us", call("run.scalar, every sink stalled", "p99_us"), most=20),
    ],
    "stalled": [
        Goal("1,000,000 scalars and 2,000 images, all sinks stalled: MB", lambda f: f["stalled"]["memory_mb"], most=64),
        Goal("  artifacts lost", lambda f: f["stalled"]["lost"], most=0),
    ],
    "closing": [Goal("close() with every sink hanging: s over its deadline", lambda f: f["closing"]["over_s"], most=1)],
    "tensorboard": [
        Goal("scalars, x SummaryWriter", times("tensorboard", "stepscope, scalars", "SummaryWriter.add_scalar"), 6),
        Goal(
            "histograms of 1 M values, x SummaryWriter",
            times("tensorboard", "stepscope, histograms", "SummaryWriter.add_histogram"),
            4,
        ),
        Goal("images, x SummaryWriter", times("tensorboard", "stepscope, images", "SummaryWriter.add_image"), 2),
    ],
    "mlflow": [Goal("scalars, x mlflow.log_metric", times("mlflow", "stepscope", "mlflow.log_metric"), 25)],
    "wandb": [
        Goal(
            "1 name a step, x one-key run.log", times("wandb", "stepscope, 1 name a step", "run.log, 1 key a call"), 10
        ),
    ],
    "local": [Goal("CSV, rows a second", rate("local", "stepscope, CSV"), 500_000)],
    "live": [
        Goal(
            "first emit to last byte in TensorBoard, x SummaryWriter.add_scalar",
            times("tensorboard", "live run, tensorboard", "SummaryWriter.add_scalar", from_part="live"),
            6,
        ),
        Goal(
            "first emit to last byte in W&B, x one-key run.log",
            times("wandb", "live run, wandb", "run.log, 1 key a call", from_part="live"),
            10,
        ),
    ],
    "store": [
        Goal(
            "bytes a scalar, the largest of 1, 4 and 424 names a step",
            lambda f: max(f["store"]["bytes a scalar"]),
            most=60,
        ),
        Goal("10,000 points out of 10 million rows, cold, ms", rate("store", "one series, cold"), most=50),
        Goal("  warm, ms", rate("store", "one series, warm"), most=50),
    ],
}


def main() -> None:
    parser = argparse.ArgumentParser(description="Delivery beside the trackers' own clients.")
    parser.add_argument("--parts", default=",".join(PARTS), help="of " + ", ".join(PARTS))
    parser.add_argument("--json", type=Path, help="a file for everything measured")
    arguments = parser.parse_args()
    chosen = arguments.parts.split(",")
    if unknown := set(chosen) - PARTS.keys():
        parser.error(f"unknown parts {', '.join(sorted(unknown))}; expected some of {', '.join(PARTS)}")
    facts = machine()
    print(", ".join(f"{name} {value}" for name, value in facts.items() if value is not None), flush=True)
    found: dict[str, Any] = {}
    # A process for each part: the trackers' clients leave variables, hooks and threads behind.
    with ProcessPoolExecutor(1, mp_context=get_context("spawn"), max_tasks_per_child=1) as processes:
        for part in chosen:
            found[part] = processes.submit(measured, part).result()
            print_part(part, found[part])
    for part in chosen:
        for goal in GOALS[part]:
            try:
                print(goal.line(found))
            except KeyError:  # the other side belongs to a part that was not chosen
                continue
    if arguments.json:
        arguments.json.parent.mkdir(parents=True, exist_ok=True)
        arguments.json.write_text(json.dumps({"machine": facts, "parts": found}, indent=1) + "\n", encoding="utf-8")


def measured(part: str) -> Any:
    """Returns what a part's sides measured."""
    with tempfile.TemporaryDirectory() as folder:
        return PARTS[part](Path(folder))


def print_part(part: str, found: Mapping[str, Any]) -> None:
    """Prints what was measured: the median of the rounds, and their range."""
    print(f"\n{part}")
    for side, values in found.items():
        if isinstance(values, Mapping):
            text = ", ".join(f"{name} {value:.2f}" for name, value in values.items())
        elif isinstance(values, list):
            text = f"{statistics.median(values):14,.1f} ({min(values):,.1f} to {max(values):,.1f})"
        else:
            text = f"{values:14,.2f}"
        print(f"  {side:44}{text}", flush=True)
    print(flush=True)


if __name__ == "__main__":
    main()
