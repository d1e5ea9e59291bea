"""Compares ``measure`` with what users do today: histograms, a naive loop, and the floor of one pass for the norms.

Run: ``python benchmarks/measurement.py``. The sides take turns on the same tensors on one core, and each ratio is the
median over the turns of ours by theirs: absolute times drift between machines and minutes. ``add_histogram`` sorts
with NumPy, whose speed depends on the processor: the time of that sort alone is printed, so that ratios can be judged.
"""

import argparse
import json
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from torch.utils.tensorboard import SummaryWriter

from debuggers.measurement.measure import measure, prepare

SIZES = [10_000, 100_000, 1_000_000, 10_000_000]
NUMBERS = [20, 200, 2_000, 8_000]
SMALL = 1_000
GOAL_MS_A_MILLION, GOAL_US_A_TENSOR = 0.7, 8.0
OURS, AGAIN = "measure", "again"


def naive(tensors: list[torch.Tensor]) -> None:
    for tensor in tensors:
        for statistic in (torch.mean, torch.std, torch.min, torch.max, torch.norm):
            statistic(tensor).item()
        for mask in (tensor == 0, tensor.isnan(), tensor.isinf()):
            mask.sum().item()


def sides_of(tensors: list[torch.Tensor], board: SummaryWriter) -> dict[str, Callable[[], object]]:
    def histograms() -> None:
        for tensor in tensors:
            board.add_histogram("values", tensor, 0)

    return {
        OURS: lambda: measure(tensors).resolve(),
        AGAIN: lambda: measure(tensors).resolve(),  # the values are now in the cache, as far as they fit
        "add_histogram": histograms,
        "naive loop": lambda: naive(tensors),
        "_foreach_norm": lambda: torch._foreach_norm(tensors),
    }


def take_turns(sides: dict[str, Callable[[], object]], turns: int) -> dict[str, list[float]]:
    """Returns each side's seconds, turn by turn, after one turn that does not count."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    for turn in range(turns + 1):
        for name, action in sides.items():
            start = time.perf_counter()
            action()
            if turn:
                seconds[name].append(time.perf_counter() - start)
    return seconds


def measure_case(number: int, size: int, turns: int, board: SummaryWriter) -> dict[str, float]:
    tensors = [torch.randn(size) * 1e-3 for _ in range(number)]
    seconds = take_turns(sides_of(tensors, board), turns)
    row: dict[str, float] = {"tensors": number, "values_each": size}
    for name, spent in seconds.items():
        row[f"{name} ms"] = statistics.median(spent) * 1e3
        if name != OURS:
            ratios = [ours / theirs for ours, theirs in zip(seconds[OURS], spent, strict=True)]
            row[f"{OURS} / {name}"] = statistics.median(ratios)
    row["ms a million values"] = row[f"{OURS} ms"] / (number * size / 1e6)
    row["us a tensor"] = row[f"{OURS} ms"] * 1e3 / number
    return row


def sort_ms() -> float:
    blocks = np.random.default_rng(0).standard_normal((16, 65_536))
    start = time.perf_counter()
    np.sort(blocks, axis=1)
    return (time.perf_counter() - start) * 1e3 / blocks.size * 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of measure against what users do today.")
    parser.add_argument("--turns", type=int, default=20)
    turns = parser.parse_args().turns
    torch.manual_seed(0)
    torch.set_num_threads(1)
    print(f"kernel compiled or loaded in {prepare():.2f} s; one thread, {turns} turns")
    print(f"NumPy sorts one million float64 in {sort_ms():.1f} ms, in the blocks of numpy.histogram")
    with tempfile.TemporaryDirectory() as folder, SummaryWriter(folder) as board:
        rows = [measure_case(1, size, turns, board) for size in SIZES]
        rows += [measure_case(number, SMALL, max(3, turns * 200 // number), board) for number in NUMBERS]
    report(rows)


def report(rows: list[dict[str, float]]) -> None:
    theirs = [key.removeprefix(f"{OURS} / ") for key in rows[0] if " / " in key]
    print(f"{'tensors':>8}{'values':>10}{'ms':>10}{'ms/million':>12}{'us/tensor':>11}", end="")
    print("".join(f"{'/ ' + name:>18}" for name in theirs))
    for row in rows:
        print(f"{row['tensors']:8}{row['values_each']:10}{row[f'{OURS} ms']:10.3f}", end="")
        print(f"{row['ms a million values']:12.3f}{row['us a tensor']:11.2f}", end="")
        print("".join(f"{row[f'{OURS} / {name}']:18.3f}" for name in theirs))
    million, small = rows[SIZES.index(1_000_000)], rows[len(SIZES) + NUMBERS.index(2_000)]
    print(
        f"one million values: {million[f'{OURS} ms']:.3f} ms, {million[f'{AGAIN} ms']:.3f} ms when called again at once"
    )
    print(f"goal: {GOAL_MS_A_MILLION} ms")
    again = small[f"{AGAIN} ms"] * 1e3 / small["tensors"]
    print(f"2,000 tensors of {SMALL}: {small['us a tensor']:.2f} us a tensor, {again:.2f} us when called again at once")
    print(f"goal: {GOAL_US_A_TENSOR} us")
    print(json.dumps(rows))


if __name__ == "__main__":
    main()
