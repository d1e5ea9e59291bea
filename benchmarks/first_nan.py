"""What it costs to be able to name the first NaN: the watch at each step, and the replay of a step that went wrong.

Run: ``python benchmarks/first_nan.py``. Copies of one transformer train in turn on the same batches, and each cost is
the median over the turns of the difference to the plain copy's step: absolute times drift between machines and minutes.
Beside it stands what PyTorch has, ``torch.autograd.detect_anomaly``.
"""

import argparse
import copy
import statistics
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
from torch import nn
from watched.models import BATCH, LENGTH, VOCABULARY, Transformer

from debuggers.first_nan.flight_recorder import NonFiniteWatch
from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.first_nan.replay import replay_closure

GOAL_SHARE, GOAL_STEPS = 0.03, 20
WARMUP = 3


class Trained:
    """A copy of the model that trains; ``around`` surrounds its steps, and ``after`` is called at their ends."""

    def __init__(self, model: nn.Module) -> None:
        self.model = copy.deepcopy(model)
        self.optimizer = torch.optim.AdamW(self.model.parameters())
        self.around: Callable[[], AbstractContextManager[object]] = nullcontext
        self.after: Callable[[int], object] = lambda number: None

    def loss(self, tokens: torch.Tensor) -> torch.Tensor:
        """Returns the loss of a batch."""
        return nn.functional.cross_entropy(self.model(tokens).flatten(0, 1), tokens.flatten())

    def step(self, number: int, tokens: torch.Tensor) -> float:
        """Trains on a batch and returns the seconds that it took."""
        start = time.perf_counter()
        with self.around():
            self.optimizer.zero_grad()
            torch.autograd.backward(self.loss(tokens))
        self.after(number)
        self.optimizer.step()
        return time.perf_counter() - start


def sides(model: nn.Module) -> dict[str, Trained]:
    """Makes the copies."""
    found = {name: Trained(model) for name in ("plain", "watch", "watch and capture", "detect_anomaly")}
    found["watch"].after = NonFiniteWatch(found["watch"].model).end_step
    both = found["watch and capture"]
    watch, capture = NonFiniteWatch(both.model), ForwardCapture(both.model)
    both.after = lambda number: (watch.end_step(number), capture.release())
    found["detect_anomaly"].around = torch.autograd.detect_anomaly
    return found


def replay_seconds(side: Trained, tokens: torch.Tensor, place: str) -> tuple[float, str]:
    """Poisons the row of a token of the batch, and returns how long a replay takes, and what it names."""
    with torch.no_grad():
        side.model.get_parameter(place)[tokens.flatten()[0]] = torch.nan
    start = time.perf_counter()
    origin = replay_closure(side.model, lambda: side.loss(tokens)).origin
    return time.perf_counter() - start, "nothing" if origin is None else origin.title


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of the watch for the first NaN, and of the replay.")
    parser.add_argument("--turns", type=int, default=60)
    parser.add_argument("--tiny", action="store_true", help="a small model, to see that everything runs")
    options = parser.parse_args()
    torch.manual_seed(0)
    model = Transformer(50, 32, 2) if options.tiny else Transformer()
    copies, vocabulary = sides(model), 50 if options.tiny else VOCABULARY
    seconds: dict[str, list[float]] = {name: [] for name in copies}
    names = list(copies)
    for turn in range(options.turns + WARMUP):
        tokens = torch.randint(vocabulary, (BATCH, LENGTH))
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            spent = copies[name].step(turn, tokens)
            if turn >= WARMUP:
                seconds[name].append(spent)
    plain = statistics.median(seconds["plain"])
    leaves = sum(not list(module.children()) for module in model.modules())
    print(f"{leaves} leaf modules, {torch.get_num_threads()} threads; a plain step takes {plain * 1e3:.1f} ms")
    for name in names[1:]:
        added = statistics.median(ours - base for ours, base in zip(seconds[name], seconds["plain"], strict=True))
        goal = f" (goal: at most {GOAL_SHARE:.0%})" if "watch" in name else ""
        print(f"{name:20} {added * 1e3:+8.2f} ms a step, {added / plain:+8.1%}{goal}")
    places = ["embedding.weight", "head.weight"]
    for place in places:
        spent, found = replay_seconds(copies["plain"], tokens, place)
        print(f"replay, NaN in {place:18} {spent / plain:6.1f} steps (goal: under {GOAL_STEPS}); {found}")
        with torch.no_grad():
            copies["plain"].model.get_parameter(place).nan_to_num_()


if __name__ == "__main__":
    main()
