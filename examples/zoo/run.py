"""Runs the zoo and prints how often the diagnosis is right: ``python -m examples.zoo.run``."""

import argparse
import json
import logging
import math
import os
import sys
import warnings
from collections.abc import Iterable
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack, redirect_stderr
from dataclasses import asdict, dataclass
from io import StringIO
from multiprocessing import get_context
from pathlib import Path

import torch

import stepscope
from examples.zoo.cases import PARTS, Case, cases
from examples.zoo.faults import FAULTS, UnsuitedError, planted
from examples.zoo.table import table
from examples.zoo.watching import MODES, Mode, Watcher


@dataclass(frozen=True)
class Task:
    """One training to run."""

    case: str
    part: str
    variant: str
    mode: Mode
    seed: int
    evidence: str = ""
    fault: str = ""


@dataclass(frozen=True)
class Outcome:
    """What came of it.

    Attributes:
        case, family, variant, mode, seed: Which training it was.
        label: The code of what is wrong; empty for a repaired or healthy training.
        also: Codes that are true as well.
        quality: What the training reached.
        causes: Codes and confidences, most likely first.
        health: The verdict's word.
        error: The exception that ended it.
    """

    case: str
    family: str
    variant: str
    mode: str
    seed: int
    label: str
    also: tuple[str, ...]
    quality: float
    causes: tuple[tuple[str, float], ...]
    health: str
    error: str = ""


def start_worker() -> None:
    """Prepares a process that runs trainings: one thread of torch, and no words beside the table."""
    torch.set_num_threads(1)
    warnings.simplefilter("ignore")
    logging.getLogger("stepscope").setLevel(logging.ERROR)


def run_task(task: Task) -> Outcome | None:
    """Runs one training; returns None where a fault was to be planted that it cannot have, or that harms it not."""
    case = next(one for one in cases(task.part) if one.name == task.case)
    run = None
    if task.evidence and task.mode != "unwatched":
        name = f"{case.name.replace('/', '.')}-{task.fault or task.variant}-{task.mode}-{task.seed}"
        run = stepscope.open_run(Path(task.evidence) / name, sinks=[])
    watcher, quality, error = Watcher(task.mode, run), -math.inf, ""
    with redirect_stderr(StringIO()), ExitStack() as undo:  # what sessions say is in the table
        watch = planted(FAULTS[task.fault], watcher.watch, undo) if task.fault else watcher.watch
        try:
            quality = case.run(watch, task.variant, task.seed)
        except UnsuitedError:
            quality = math.inf
        except Exception as failure:
            error = f"{type(failure).__name__}: {failure}"
        watcher.close()
        if run is not None:
            run.close()
    if task.fault and quality >= case.margin:
        return None
    name, family, codes = case.name, case.family, (case.cause, *case.also) if task.variant == "sick" else ("",)
    if task.fault:
        name, family, codes = f"{name} + {task.fault}", task.fault, FAULTS[task.fault].codes
    return Outcome(
        name, family, task.variant, task.mode, task.seed, codes[0], tuple(codes[1:]), quality,
        tuple(watcher.causes()), watcher.health(), error,
    )  # fmt: skip


def tasks_of(chosen: Iterable[Case], modes: Iterable[Mode], seeds: int, evidence: str = "") -> list[Task]:
    """Returns all variants of some cases, in each mode and with each seed."""
    return [
        Task(case.name, case.part, variant, mode, seed, evidence)
        for case in chosen
        for variant in case.variants
        for mode in modes
        for seed in range(seeds)
    ]


def planted_tasks(chosen: Iterable[Case], faults: Iterable[str], seeds: int, evidence: str = "") -> list[Task]:
    """Returns healthy cases with each of some faults planted, in unchanged loops.

    A loop would tell what it knows, which is not what is planted.
    """
    return [
        Task(case.name, case.part, "healthy", "unchanged", seed, evidence, fault)
        for fault in faults
        for case in chosen
        for seed in range(seeds)
    ]


def main(arguments: list[str] | None = None) -> None:
    """Runs what the command line asks for."""
    parser = argparse.ArgumentParser(prog="python -m examples.zoo.run", description=__doc__)
    parser.add_argument("names", nargs="*", help="parts of names of cases; all without one")
    parser.add_argument("--part", choices=PARTS, default="tuned")
    parser.add_argument("--mode", choices=MODES, action="append", help="default: unchanged and told")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--every", type=int, default=1, help="of so many cases one")
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--slow", action="store_true", help="also the cases that need processes of their own")
    parser.add_argument(
        "--fault", choices=[*FAULTS, "all"], action="append", help="planted into the healthy cases, in unchanged loops"
    )
    parser.add_argument("--json", default="", help="a file for all outcomes")
    parser.add_argument("--evidence", default="", help="a folder that keeps each training's run")
    options = parser.parse_args(arguments)
    if options.fault and options.mode not in (None, ["unchanged"]):
        parser.error(f"--fault is planted into unchanged loops, not into those of --mode {' '.join(options.mode)}")
    available = cases(options.part)
    if not available:
        parser.error(f"the part {options.part} has no case: examples/zoo/README.md says how a new half is made")
    chosen = [
        case
        for case in available
        if (options.slow or not case.slow) and (not options.names or any(name in case.name for name in options.names))
    ]
    if options.fault:
        chosen = [case for case in chosen if not case.cause]
    chosen = chosen[:: options.every]
    if not chosen:
        parser.error(f"no case has a name with one of {options.names}")
    if options.fault:
        faults = list(FAULTS) if "all" in options.fault else options.fault
        tasks = planted_tasks(chosen, faults, options.seeds, options.evidence)
    else:
        tasks = tasks_of(chosen, options.mode or ["unchanged", "told"], options.seeds, options.evidence)
    outcomes = []
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    with ProcessPoolExecutor(options.workers, mp_context=get_context("spawn"), initializer=start_worker) as pool:
        for number, outcome in enumerate(pool.map(run_task, tasks, chunksize=2), 1):
            if outcome is not None:
                outcomes.append(outcome)
            if sys.stderr.isatty():
                print(f"\r{number} of {len(tasks)}", end="", file=sys.stderr)
    if options.json:
        text = json.dumps([asdict(outcome) for outcome in outcomes], indent=1)
        Path(options.json).write_text(text, encoding="utf-8")
    print(table(outcomes))


if __name__ == "__main__":
    main()
