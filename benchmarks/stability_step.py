"""Compares a stability step (detection, norms and norm clipping) with ``clip_grad_norm_`` alone.

Run: ``python benchmarks/stability_step.py``. The sides take turns on the same gradients of one model, and each ratio
is the median over the turns: absolute times drift between machines and minutes.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import torch
from torch import nn
from watched.models import BATCH, LENGTH, VOCABULARY, Transformer

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

GOAL = 1.3


def backward(model: nn.Module) -> torch.Tensor:
    tokens = torch.randint(VOCABULARY, (BATCH, LENGTH))
    loss = nn.functional.cross_entropy(model(tokens).flatten(0, 1), tokens.flatten())
    torch.autograd.backward(loss)
    return loss.detach()


def timed(action: Callable[[], object]) -> float:
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def compare(sides: dict[str, Callable[[], object]], restore: Callable[[], None], turns: int) -> dict[str, list[float]]:
    """Returns each side's seconds, turn by turn; the sides' order changes from turn to turn."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(turns + 10):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            restore()
            spent = timed(sides[name])
            if turn >= 10:
                seconds[name].append(spent)
    return seconds


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of a stability step against clip_grad_norm_ alone.")
    parser.add_argument("--turns", type=int, default=200)
    turns = parser.parse_args().turns
    torch.manual_seed(0)
    model = Transformer()
    loss = backward(model)
    optimizer = torch.optim.AdamW(model.parameters())
    gradients = [parameter.grad for parameter in model.parameters() if parameter.grad is not None]
    kept = [gradient.clone() for gradient in gradients]
    size = sum(gradient.numel() for gradient in gradients)
    print(f"{len(gradients)} gradients of {size / 1e6:.2f} million values, {torch.get_num_threads()} threads")
    print(f"goal: at most {GOAL} x")

    def restore() -> None:
        torch._foreach_copy_(gradients, kept)

    with tempfile.TemporaryDirectory() as folder, stepscope.open_run(folder + "/run", sinks=[]) as run:
        for case, max_norm in (("clipped", 1e-3), ("below the bound", 1e6)):
            clipping, handling = GradientClippingConfig(max_norm=max_norm), NaNHandlingConfig()
            silent = NumericalStabilityManager(clipping, handling)
            emitting = NumericalStabilityManager(clipping, handling, emitter=run.scoped(case))
            sides = {
                "clip_grad_norm_": lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), max_norm),  # noqa: B023
                "stability step": lambda: silent.step(model, loss, optimizer),  # noqa: B023
                "stability step, emitting": lambda: emitting.step(model, loss, optimizer),  # noqa: B023
            }
            seconds = compare(sides, restore, turns)
            base = seconds["clip_grad_norm_"]
            for name, values in seconds.items():
                ratio = statistics.median(value / other for value, other in zip(values, base, strict=True))
                print(f"{case:16} {name:26} {statistics.median(values) * 1e3:6.2f} ms  {ratio:5.2f} x")


if __name__ == "__main__":
    main()
