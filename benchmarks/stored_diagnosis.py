"""Tells what diagnosing a large run from its store takes, beside reading the same values in TensorBoard.

Run: ``python benchmarks/stored_diagnosis.py``. A network of many layers is trained until its run has a million values;
they are written to TensorBoard's event files, too. Then fresh processes take turns: ``stepscope diagnose``, and an
``EventAccumulator`` that keeps all values. Each prints wall and processor time, and the most memory that it held.
"""

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from statistics import median

import torch
from torch import nn
from torch.utils.tensorboard import SummaryWriter
from watched.data import digit_batches
from watched.machine import machine
from watched.models import ManyTensors

import stepscope
from stepscope.sessions.config import DebugConfig

WIDTH = 16
PEAK = """
import atexit, sys
def peak():
    held = next(line.split()[1] for line in open("/proc/self/status") if line.startswith("VmHWM"))
    print("peak", int(held) * 1024, file=sys.stderr)
atexit.register(peak)
"""
DIAGNOSE = """
from stepscope.cli import main
sys.argv[1:] = ["diagnose", sys.argv[1]]
main()
"""
READ = """
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator
events = EventAccumulator(sys.argv[1], size_guidance={"scalars": 0}).Reload()
print(sum(len(events.Scalars(tag)) for tag in events.Tags()["scalars"]))
"""


def train(folder: Path, layers: int, values: int) -> int:
    """Trains until the run has so many values; returns how many it has."""
    torch.manual_seed(0)
    model, batches = ManyTensors(layers, WIDTH), digit_batches(32, 32, 64)
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    steps = 2 * values // (5 * layers)
    config = DebugConfig(max_overhead=None)
    with (
        stepscope.open_run(folder, sinks=[]) as run,
        stepscope.watch(model, optimizer, run=run, config=config),
    ):
        for step in range(steps):
            inputs, targets = batches[step % len(batches)]
            optimizer.zero_grad()
            torch.autograd.backward(nn.functional.cross_entropy(model(inputs[:, :WIDTH]), targets))
            optimizer.step()
    with stepscope.read_run(folder) as record:
        return sum(map(len, record.many_scalars(names_of(record)).values()))


def names_of(record: stepscope.RunRecord) -> list[str]:
    """Returns the names of a run's scalars."""
    return [one.name for one in record.names() if one.kind == "scalar"]


def copy_to_events(run: Path, events: Path) -> None:
    """Writes every value of a run with torch's own writer."""
    with stepscope.read_run(run) as record, SummaryWriter(str(events)) as writer:
        for tag, series in record.many_scalars(names_of(record)).items():
            for step, value in zip(series.steps.tolist(), series.values.tolist(), strict=True):
                writer.add_scalar(tag, value, step)


def measure(code: str, folder: Path) -> tuple[float, float, float]:
    """Returns the seconds, the processor's seconds, and the MB that a program took."""
    command, before = [sys.executable, "-c", PEAK + code, str(folder)], os.times()
    began = time.perf_counter()
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    wall, after = time.perf_counter() - began, os.times()
    if done.returncode:
        sys.exit(done.stderr)
    spent = after.children_user + after.children_system - before.children_user - before.children_system
    return wall, spent, int(done.stderr.rpartition("peak ")[2]) / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="What diagnosing a large run from its store takes.")
    parser.add_argument("--layers", type=int, default=500)
    parser.add_argument("--values", type=int, default=1_000_000, help="about how many the run has")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    torch.set_num_threads(1)
    print(", ".join(f"{name} {value}" for name, value in machine().items() if value is not None), flush=True)
    with tempfile.TemporaryDirectory() as folder:
        run, events = Path(folder, "run"), Path(folder, "events")
        count = train(run, arguments.layers, arguments.values)
        copy_to_events(run, events)
        print(f"{count:,} values of {arguments.layers} layers")
        sides = {"stepscope diagnose": (DIAGNOSE, run), "TensorBoard's EventAccumulator": (READ, events)}
        found = [{name: measure(*side) for name, side in sides.items()} for _ in range(arguments.rounds)]
    print(f"{'':32}{'s':>8}{'CPU, s':>8}{'MB':>6}")
    for name in sides:
        wall, spent, memory = (median(one[name][place] for one in found) for place in range(3))
        print(f"{name:32}{wall:8.2f}{spent:8.2f}{memory:6.0f}")
    ours, theirs = (median(one[name][0] for one in found) for name in sides)
    print(f"{theirs / ours:.1f} times as long")


if __name__ == "__main__":
    main()
