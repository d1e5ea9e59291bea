"""Steps a plain and a watched copy of one model in turn, and keeps the times of every pair."""

import copy
import resource
import sys
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import Any

import psutil
import torch
from torch import nn

from watched.cases import Case
from watched.data import Batch
from watched.our_sides import RUN_FOLDER
from watched.sides import Side

LEAST_PAIRS = 5
"""Pairs that are stepped however long they take."""
QUIET_PAIRS = 40
"""Unwatched pairs before, and as many after, at most."""


class Trainee:
    """A model with its optimizer; ``step`` is what is timed."""

    def __init__(self, model: nn.Module, optimizer: torch.optim.Optimizer) -> None:
        self.model = model
        self.optimizer = optimizer
        self.after_backward: Callable[[int, float], object] = lambda step, loss: None

    def step(self, number: int, batch: Batch) -> float:
        """Trains on a batch and returns the milliseconds that it took."""
        start = time.perf_counter()
        inputs, targets = batch
        self.optimizer.zero_grad()
        loss = nn.functional.cross_entropy(self.model(inputs).flatten(0, -2), targets)
        torch.autograd.backward(loss)
        self.after_backward(number, loss.item())
        self.optimizer.step()
        return (time.perf_counter() - start) * 1e3


class Pairs:
    """A plain and a watched copy of a model; which one goes first changes from pair to pair."""

    def __init__(self, case: Case) -> None:
        torch.manual_seed(0)
        self.batches = case.batches()
        model = case.build()
        copied = copy.deepcopy(model)
        self.plain, self.watched = Trainee(model, case.optimizer(model)), Trainee(copied, case.optimizer(copied))
        self.paused: Callable[[], AbstractContextManager[None]] = nullcontext
        self._steps = 0

    def step(self) -> tuple[float, float]:
        """Steps both on the same batch and returns their milliseconds, the plain one's first."""
        number, batch = self._steps, self.batches[self._steps % len(self.batches)]
        self._steps += 1
        watched_first = number % 2 == 0
        watched = self.watched.step(number, batch) if watched_first else 0.0
        with self.paused():
            plain = self.plain.step(number, batch)
        return plain, watched if watched_first else self.watched.step(number, batch)

    def same_weights(self) -> bool:
        """Whether the watched model was trained to the very same bits."""
        pairs = zip(self.plain.model.parameters(), self.watched.model.parameters(), strict=True)
        return all(torch.equal(plain, watched) for plain, watched in pairs)


def measure_side(case: Case, side: Side, folder: Path, pairs: int, seconds: float) -> dict[str, Any]:
    """Steps the pairs of one side and returns its times and sizes, as JSON can hold them.

    Args:
        case: What is trained.
        side: Who watches.
        folder: Where the side writes; empty.
        pairs: Pairs that count, at most.
        seconds: No pair begins later than this, except the first few.
    """
    trained = Pairs(case)
    sizes = [parameter.numel() for parameter in trained.plain.model.parameters()]
    # Unwatched pairs before and after show how far the side slowed down the plain steps too; before alone would show
    # how the machine's speed drifts.
    rest = max(case.warmup, min(pairs // 4, QUIET_PAIRS))
    quiet = [trained.step() for _ in range(case.warmup + rest)][case.warmup :]
    peak_mb = [_peak_mb()]
    with side(trained.watched.model, trained.watched.optimizer, folder) as watching:
        trained.watched.after_backward, trained.paused = watching.after_backward, watching.paused
        peak_mb.append(_peak_mb())
        for _ in range(case.warmup):
            trained.step()
        times: list[tuple[float, float]] = []
        start, children_start = time.perf_counter(), _children_cpu_s()
        while len(times) < pairs and (len(times) < LEAST_PAIRS or time.perf_counter() - start < seconds):
            times.append(trained.step())
        duration, children = time.perf_counter() - start, _children_cpu_s() - children_start
        peak_mb.append(_peak_mb())
        same, lag, own_share = trained.same_weights(), watching.lag(), watching.own_share()
        ended = time.perf_counter()
    drain_s = time.perf_counter() - ended
    trained.watched.after_backward, trained.paused = lambda step, loss: None, nullcontext
    quiet += [trained.step() for _ in range(rest)]
    return {
        "tensors": len(sizes),
        "values": sum(sizes),
        "quiet_ms": [(plain + watched) / 2 for plain, watched in quiet],
        "plain_ms": [plain for plain, _ in times],
        "watched_ms": [watched for _, watched in times],
        "children_cores": children / duration,
        "attached_mb": peak_mb[1] - peak_mb[0],
        "grown_mb": peak_mb[2] - peak_mb[1],
        "own_share": own_share,
        "lag": lag,
        "drain_s": drain_s,
        "same_weights": same,
        "stored_bytes_a_histogram": _stored_bytes_a_histogram(folder / RUN_FOLDER),
    }


def _peak_mb() -> float:
    """The largest resident memory that this process has had so far."""
    try:
        lines = Path("/proc/self/status").read_text(encoding="ascii").splitlines()
    except FileNotFoundError:  # no Linux; on Linux ru_maxrss would begin with the parent's peak
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / (1 << 20 if sys.platform == "darwin" else 1 << 10)
    return next(int(line.split()[1]) for line in lines if line.startswith("VmHWM:")) / 1024


def _children_cpu_s() -> float:
    """Processor time of the processes that the side has started, in seconds."""
    total = 0.0
    for child in psutil.Process().children(recursive=True):
        try:
            times = child.cpu_times()
        except psutil.NoSuchProcess:
            continue
        total += times.user + times.system
    return total


def _stored_bytes_a_histogram(run: Path) -> float | None:
    """What a histogram takes in the run store, with everything that lies beside it: scalars, indices, names."""
    if not run.exists():
        return None
    import stepscope

    record = stepscope.read_run(run)
    histograms = sum(entry.count for entry in record.names() if entry.kind == "histogram")
    size = sum(path.stat().st_size for path in (run / "store").rglob("*") if path.is_file())
    return size / histograms if histograms else None
