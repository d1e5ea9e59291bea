"""Tells what a session adds to a call of torch's losses, and to a batch of a validation whose loss it learns.

Run: ``python benchmarks/loss_calls.py``. Calls with and without observation take turns in short blocks on the same
tensors; the column *adds* is the difference of the medians. Times are processor time of the calling thread, in one
thread of torch, so that waiting for other processes does not count.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from contextlib import nullcontext
from typing import Any

import torch
from torch import nn
from watched.machine import machine

import stepscope
from debuggers.observed_training.loss_calls import LossObservation

ROWS, INPUTS, CLASSES = 64, 256, 10
CALLS = 20
"""Calls in a block, whose time is divided by their number: one takes little longer than to read the clock."""


def losses() -> dict[str, Callable[[], torch.Tensor]]:
    """Returns calls of the losses whose functions are replaced, by the name of the function."""
    logits = torch.randn(ROWS, CLASSES, requires_grad=True)
    classes = torch.randint(CLASSES, (ROWS,))
    values, goals = torch.rand(ROWS, CLASSES, requires_grad=True), torch.rand(ROWS, CLASSES)
    functions = nn.functional
    return {
        "cross_entropy": lambda: functions.cross_entropy(logits, classes),
        "nll_loss": lambda: functions.nll_loss(logits, classes),
        "mse_loss": lambda: functions.mse_loss(values, goals),
        "l1_loss": lambda: functions.l1_loss(values, goals),
        "smooth_l1_loss": lambda: functions.smooth_l1_loss(values, goals),
        "huber_loss": lambda: functions.huber_loss(values, goals),
        "binary_cross_entropy": lambda: functions.binary_cross_entropy(values, goals),
        "binary_cross_entropy_with_logits": lambda: functions.binary_cross_entropy_with_logits(logits, goals),
    }


def added_us(call: Callable[[], Any], blocks: int, observed: Callable[[], Any], rest: Callable[[], Any]) -> list[float]:
    """Returns the medians of a call without and with observation, in microseconds.

    Args:
        call: What is timed.
        blocks: Blocks of each side.
        observed: Makes a context in which the calls are observed.
        rest: Makes one in which they are not.
    """
    times: tuple[list[float], list[float]] = ([], [])
    for _ in range(blocks):
        for side, context in enumerate((rest, observed)):
            with context():
                call()
                start = time.thread_time_ns()
                for _ in range(CALLS):
                    call()
                times[side].append((time.thread_time_ns() - start) / CALLS / 1e3)
    return [statistics.median(side) for side in times]


class _Observed:
    """Observes losses as a session does, but for what becomes of them."""

    def __enter__(self) -> None:
        self._observation = LossObservation(lambda kind, outputs, mean: None)

    def __exit__(self, *error: object) -> None:
        self._observation.remove()


def line(name: str, plain: float, observed: float) -> str:
    """Returns a line of the table."""
    return f"{name:36}{plain:10.1f}{observed - plain:+10.1f}"


def validation(blocks: int, *, with_loss: bool) -> list[float]:
    """Returns what a batch of a validation takes, without and with a session: the model's call, and its loss."""
    model = nn.Sequential(nn.Linear(INPUTS, 128), nn.ReLU(), nn.Linear(128, CLASSES))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    inputs, classes = torch.randn(ROWS, INPUTS), torch.randint(CLASSES, (ROWS,))

    def train() -> None:
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs + 1), classes).backward()
        optimizer.step()

    def validate() -> None:
        with torch.no_grad():
            outputs = model(inputs)
            if with_loss:
                nn.functional.cross_entropy(outputs, classes)

    with (
        tempfile.TemporaryDirectory() as folder,
        stepscope.open_run(f"{folder}/run", sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run) as session,
    ):
        train()  # tells which loss is the training's
        return added_us(validate, blocks, nullcontext, session.paused)  # paused, the session sees nothing


def main() -> None:
    parser = argparse.ArgumentParser(description="What observing torch's losses costs a call.")
    parser.add_argument("--blocks", type=int, default=300, help="blocks of 20 calls of each side")
    blocks = parser.parse_args().blocks
    if blocks < 1:
        parser.error(f"--blocks is {blocks}; expected at least 1")
    torch.set_num_threads(1)
    torch.manual_seed(0)
    print(", ".join(f"{name} {value}" for name, value in machine().items() if value is not None))
    print(f"{'µs a call':36}{'plain':>10}{'adds':>10}")
    for name, call in losses().items():
        print(line(f"{name}, training", *added_us(call, blocks, _Observed, nullcontext)), flush=True)
    without_gradients = torch.no_grad()(losses()["cross_entropy"])
    print(line("cross_entropy, without gradients", *added_us(without_gradients, blocks, _Observed, nullcontext)))
    print(line("a validation's batch, no loss", *validation(blocks // 10 or 1, with_loss=False)))
    print(line("a validation's batch", *validation(blocks // 10 or 1, with_loss=True)))


if __name__ == "__main__":
    main()
