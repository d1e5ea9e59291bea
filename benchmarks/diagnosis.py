"""Tells what collecting the evidence of a diagnosis adds to a step, by the kind of the step.

Run: ``python benchmarks/diagnosis.py``. Copies of one model step in turn, in blocks, on the same batches: plain,
watched without a diagnosis, and with it; the columns say what the last adds to the second. *told* says what it adds to
the last, in the mean, that the loop passes its loss, inputs, outputs and targets to ``session.step``. A second table
says what of it the rules take: detectors, in the mean of all steps, and what derives causes, once. Times are processor
time of the training thread, in one thread of torch, so that waiting for other processes does not count.
"""

import argparse
import copy
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any
from unittest.mock import patch

import numpy as np
import numpy.typing as npt
import torch
from torch import nn
from watched.data import Batch, digit_batches, text_batches
from watched.machine import machine
from watched.models import BATCH, LENGTH, VOCABULARY, ManyTensors, Transformer

import stepscope
from debuggers.signals.judge import SignalJudge
from debuggers.signals.sampled_steps import is_sampled
from stepscope.sessions.config import DebugConfig
from stepscope.sessions.schedule import Schedule

SIDES = ("plain", "without", "with", "told")
FIRST, BLOCK = 5, 25
"""Steps of the first block, and of each later one, the first of which does not count."""
SETTLED = 100
"""Steps of which none counts: they load code, and more of them are sampled than later."""
SHARES = {"ordinary": 0.96, "sampled": 0.02, "after": 0.02}
"""Kinds of steps, and their shares of a long training."""
TITLES = "".join(
    f"{title:>{width}}"
    for title, width in zip(
        ("plain", "ordinary", "sampled", "the next", "mean", "% of plain", "told", "% of plain"),
        (9, 10, 10, 10, 8, 12, 8, 12),
        strict=True,
    )
)


@dataclass(frozen=True)
class Case:
    """What is trained.

    Attributes:
        build: Makes the model.
        batches: Makes the batches.
        steps: Steps of each side.
    """

    build: Callable[[], nn.Module]
    batches: Callable[[], list[Batch]]
    steps: int


def two_layers() -> nn.Module:
    """64, 128 and 10 units: 9,610 parameters."""
    return nn.Sequential(nn.Linear(64, 128), nn.ReLU(), nn.Linear(128, 10))


CASES = {
    "2 layers": Case(two_layers, lambda: digit_batches(32, 32, 64), 6000),
    "50 layers": Case(lambda: ManyTensors(50, 64), lambda: digit_batches(32, 32, 64), 2500),
    "transformer": Case(Transformer, lambda: text_batches(16, VOCABULARY, BATCH, LENGTH), 350),
}


class Side:
    """A copy of the model, and the session that watches it if any."""

    def __init__(self, name: str, model: nn.Module, folder: str, stack: ExitStack) -> None:
        self.model = copy.deepcopy(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=0.01)
        self.times_ns: list[int] = []
        self._session: Any = None
        self._tells = name == "told"
        if name != "plain":
            config = DebugConfig(schedule=Schedule(every=10), max_overhead=None, diagnosis=name != "without")
            run = stack.enter_context(stepscope.open_run(f"{folder}/{name}", sinks=[]))
            self._session = stack.enter_context(stepscope.watch(self.model, self.optimizer, run=run, config=config))

    @contextmanager
    def idle(self) -> Iterator[None]:
        """Keeps the session from seeing the steps of others."""
        if self._session is None:
            yield
        else:
            with self._session.paused():
                yield

    def report(self) -> None:
        """Derives the causes of what has been seen until now."""
        self._session.report()

    def step(self, batch: Batch) -> None:
        """Trains on a batch."""
        start = time.thread_time_ns()
        inputs, targets = batch
        self.optimizer.zero_grad()
        outputs = self.model(inputs).flatten(0, -2)
        loss = nn.functional.cross_entropy(outputs, targets)
        torch.autograd.backward(loss)
        if self._tells:
            self._session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        self.optimizer.step()
        self.times_ns.append(time.thread_time_ns() - start)


def measure(case: Case, steps: int) -> tuple[dict[str, npt.NDArray[np.float64]], npt.NDArray[np.bool_], bool]:
    """Returns the microseconds of each side's steps, which of them count, and whether all weights are the same."""
    torch.manual_seed(0)
    model, batches = case.build(), case.batches()
    ends = [*range(FIRST, steps, BLOCK), steps]
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        sides = {name: Side(name, model, folder, stack) for name in SIDES}
        for number, (start, end) in enumerate(zip([0, *ends], ends, strict=False)):
            turn = number % len(SIDES)
            for name in (*SIDES[turn:], *SIDES[:turn]):
                with ExitStack() as others:
                    for other in SIDES:
                        if other != name:
                            others.enter_context(sides[other].idle())
                    for step in range(start, end):
                        sides[name].step(batches[step % len(batches)])
        weights = [list(side.model.parameters()) for side in sides.values()]
        same = all(torch.equal(*pair) for one in weights[1:] for pair in zip(weights[0], one, strict=True))
    counts = np.arange(steps) >= SETTLED
    counts[[end for end in ends if end < steps]] = False  # a session has begun anew
    return {name: np.array(side.times_ns) / 1e3 for name, side in sides.items()}, counts, same


def kinds(steps: int) -> dict[str, npt.NDArray[np.bool_]]:
    """Returns which steps are sampled, which come right after one, and which are neither."""
    sampled = np.array([is_sampled(step) for step in range(steps)])
    after = np.roll(sampled, 1) & ~sampled
    return {"ordinary": ~(sampled | after), "sampled": sampled, "after": after}


def line(name: str, case: Case, steps: int) -> str:
    """Returns a line of the table: medians, and the mean of a long training."""
    times, counts, same = measure(case, steps)
    plain = float(np.median(times["plain"][counts]))

    def added(side: str, base: str) -> dict[str, float]:
        return {
            kind: float(np.median(times[side][counts & chosen]) - np.median(times[base][counts & chosen]))
            for kind, chosen in kinds(steps).items()
        }

    diagnosed = added("with", "without")
    shown = "".join(f"{diagnosed[kind]:+10.0f}" for kind in SHARES)
    means = [sum(one[kind] * share for kind, share in SHARES.items()) for one in (diagnosed, added("told", "with"))]
    shown += "".join(f"{mean:+8.0f}{mean / plain * 100:12.2f}" for mean in means)
    return f"{name:14}{plain:9.0f}{shown}{'' if same else '  OTHER WEIGHTS'}"


def judged(case: Case, steps: int) -> tuple[float, float]:
    """Returns the microseconds that detectors take in a step, in the mean, and the milliseconds of deriving causes."""
    spent_ns = [0]

    def timed(method: Callable[..., None]) -> Callable[..., None]:
        def call(*arguments: Any) -> None:
            start = time.thread_time_ns()
            method(*arguments)
            spent_ns[0] += time.thread_time_ns() - start

        return call

    torch.manual_seed(0)
    batches = case.batches()
    with tempfile.TemporaryDirectory() as folder, ExitStack() as stack:
        for name in ("see", "see_one", "see_tensors"):
            stack.enter_context(patch.object(SignalJudge, name, timed(getattr(SignalJudge, name))))
        side = Side("with", case.build(), folder, stack)
        for step in range(steps):
            if step == SETTLED:
                spent_ns[0] = 0
            side.step(batches[step % len(batches)])
        side.report()
        start = time.thread_time_ns()
        side.report()
        derived_ns = time.thread_time_ns() - start
    return spent_ns[0] / (steps - SETTLED) / 1e3, derived_ns / 1e6


def main() -> None:
    parser = argparse.ArgumentParser(description="What the evidence of a diagnosis costs a step.")
    parser.add_argument("--cases", default=",".join(CASES), help=f"of {', '.join(CASES)}; by default all")
    parser.add_argument("--steps", type=int, help=f"steps of each side, more than {SETTLED + BLOCK}")
    arguments = parser.parse_args()
    if unknown := set(arguments.cases.split(",")) - CASES.keys():
        parser.error(f"unknown cases {', '.join(sorted(unknown))}; expected some of {', '.join(CASES)}")
    if arguments.steps is not None and arguments.steps <= SETTLED + BLOCK:
        parser.error(f"--steps is {arguments.steps}; expected more than {SETTLED + BLOCK}")
    torch.set_num_threads(1)
    print(", ".join(f"{name} {value}" for name, value in machine().items() if value is not None), flush=True)
    print(f"{'µs a step':14}{TITLES}")
    chosen = {name: CASES[name] for name in arguments.cases.split(",")}
    for name, case in chosen.items():
        print(line(name, case, arguments.steps or case.steps), flush=True)
    print(f"{'of these':14}{'detectors, µs a step':>22}{'a report with causes, ms':>26}")
    for name, case in chosen.items():
        detectors, causes = judged(case, arguments.steps or case.steps)
        print(f"{name:14}{detectors:22.1f}{causes:26.1f}", flush=True)


if __name__ == "__main__":
    main()
