"""Tells what ``watch`` adds to very short steps, in microseconds, and how many of them it measures.

Run: ``python benchmarks/small_step.py``. A plain and a watched copy of a two-layer network (64, 128, 10) step in turn,
in blocks, on the same digits, in one thread; a step takes 0.1 to 0.3 ms.
"""

import argparse
import copy
import tempfile
import time
from contextlib import nullcontext
from typing import get_args

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from watched.data import Batch, digit_batches
from watched.machine import machine

import stepscope
from stepscope.sessions.config import Preset

WARM_UP = 100
BLOCK = 25
"""Steps that a side takes in a row: a session that was paused begins anew with the first of them."""
TITLES = f"{'µs a step':12}{'plain':>9}{'unmeasured':>12}{'measured':>12}{'mean of all':>13}"
COVERAGE = f"{'measured %':>12}{'checked %':>13}{'same weights':>14}"


def step(model: nn.Module, optimizer: torch.optim.Optimizer, batch: Batch) -> float:
    """Trains on a batch and returns the microseconds that it took."""
    start = time.perf_counter()
    inputs, targets = batch
    optimizer.zero_grad()
    torch.autograd.backward(nn.functional.cross_entropy(model(inputs), targets))
    optimizer.step()
    return (time.perf_counter() - start) * 1e6


def measure(preset: Preset, steps: int) -> str:
    """Returns a line of the table: medians of the pairs' differences, beside their mean."""
    torch.manual_seed(0)
    plain = nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))
    watched = copy.deepcopy(plain)
    sides = [(model, torch.optim.SGD(model.parameters(), lr=0.01)) for model in (plain, watched)]
    batches = digit_batches(32, 32, 64)
    times = np.empty((steps, 2))
    with tempfile.TemporaryDirectory() as folder:
        with (
            stepscope.open_run(f"{folder}/run", sinks=[]) as run,
            stepscope.watch(*sides[1], run=run, config=preset) as session,
        ):
            for first in range(0, steps, BLOCK):
                for side in (0, 1) if first // BLOCK % 2 else (1, 0):
                    with nullcontext() if side else session.paused():  # else it sees the other copy's passes
                        for number in range(first, min(first + BLOCK, steps)):
                            times[number, side] = step(*sides[side], batches[number % len(batches)])
        record = stepscope.read_run(f"{folder}/run")
        seen = record.scalars("total_norm/gradients").steps
        measured = np.isin(np.arange(steps), record.scalars("gradient_norm/0.weight").steps)
    added, numbers = times[:, 1] - times[:, 0], np.arange(steps)
    counts = (numbers >= WARM_UP) & (numbers % BLOCK > 0)
    same = all(map(torch.equal, plain.parameters(), watched.parameters()))
    return (
        f"{preset:12}{np.median(times[counts, 0]):9.0f}{_median(added[counts & ~measured]):>12}"
        f"{_median(added[counts & measured]):>12}{added[counts].mean():13.0f}"
        f"{measured.mean() * 100:12.1f}{len(seen) / steps * 100:13.1f}{'yes' if same else 'NO':>14}"
    )


def _median(values: npt.NDArray[np.float64]) -> str:
    return f"+{np.median(values):.0f}" if len(values) else "-"


def main() -> None:
    parser = argparse.ArgumentParser(description="What watching a very short training step costs.")
    parser.add_argument("--steps", type=int, default=5000, help="pairs for each preset, more than 100")
    steps = parser.parse_args().steps
    if steps <= WARM_UP:
        parser.error(f"--steps is {steps}; expected more than {WARM_UP}")
    torch.set_num_threads(1)
    print(", ".join(f"{name} {value}" for name, value in machine().items() if value is not None), flush=True)
    print(TITLES + COVERAGE)
    for preset in get_args(Preset):
        print(measure(preset, steps), flush=True)


if __name__ == "__main__":
    main()
