"""Compares a stability step (detection, norms and clipping) with ``clip_grad_norm_`` alone.

Run: ``python benchmarks/stability_step.py``. Norm clipping on the gradients of one model, then each other type on many
values, percentile clipping among them. The sides take turns on the same gradients, and each ratio is the median over
the turns: absolute times drift between machines and minutes.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable

import numpy as np
import torch
from torch import nn
from watched.models import BATCH, LENGTH, VOCABULARY, Transformer

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

GOAL = 1.3
PERCENTILE_GOAL = 2.0
TENSORS = 16


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


def report(case: str, seconds: dict[str, list[float]]) -> None:
    """Prints each side beside ``clip_grad_norm_``."""
    base = seconds["clip_grad_norm_"]
    for name, values in seconds.items():
        ratio = statistics.median(value / other for value, other in zip(values, base, strict=True))
        print(f"{case:16} {name:26} {statistics.median(values) * 1e3:6.2f} ms  {ratio:5.2f} x")


def main() -> None:
    parser = argparse.ArgumentParser(description="Cost of a stability step against clip_grad_norm_ alone.")
    parser.add_argument("--turns", type=int, default=200)
    parser.add_argument("--values", type=int, default=10_000_000, help="how many values the other types clip")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    norm_clipping(arguments.turns)
    other_types(max(2, arguments.turns // 5), arguments.values)


def norm_clipping(turns: int) -> None:
    """Below and above the bound, with and without an emitter."""
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
            report(case, compare(sides, restore, turns))


def other_types(turns: int, values: int) -> None:
    """Every other type beside norm clipping, all of which change the gradients, and how exact the percentile is."""
    model = nn.ParameterList(nn.Parameter(torch.randn(max(1, values // TENSORS // 64), 64)) for _ in range(TENSORS))
    optimizer = torch.optim.SGD(model.parameters())
    kept = [torch.randn_like(parameter) for parameter in model]
    for parameter, gradient in zip(model, kept, strict=True):
        parameter.grad = gradient.clone()

    def restore() -> None:
        torch._foreach_copy_([parameter.grad for parameter in model], kept)

    configs = {
        "value": GradientClippingConfig(clipping_type="value", clip_value=2.0),
        "global_norm": GradientClippingConfig(clipping_type="global_norm", max_norm=1e-3),
        "layer_wise": GradientClippingConfig(clipping_type="layer_wise", layer_thresholds={"*": 1e-3}),
        "agc": GradientClippingConfig(clipping_type="agc"),
        "percentile": GradientClippingConfig(clipping_type="percentile"),
    }
    managers = {name: NumericalStabilityManager(config, NaNHandlingConfig()) for name, config in configs.items()}
    sides: dict[str, Callable[[], object]] = {
        "clip_grad_norm_": lambda: torch.nn.utils.clip_grad_norm_(model.parameters(), 1e-3)
    }
    for name, manager in managers.items():
        sides[name] = lambda manager=manager: manager.step(model, 0.5, optimizer)
    print(f"{TENSORS} gradients of {sum(one.numel() for one in kept) / 1e6:.2f} million values")
    print(f"goal for percentile: at most {PERCENTILE_GOAL} x")
    report("clipped", compare(sides, restore, turns))
    restore()
    threshold = managers["percentile"].step(model, 0.5, optimizer)["clipping_stats"]["threshold"]
    assert threshold is not None
    exact = np.percentile(
        np.abs(np.concatenate([one.numpy().ravel() for one in kept])), configs["percentile"].percentile
    )
    print(f"percentile threshold {threshold:.4g}, exact {exact:.4g}: {abs(threshold / exact - 1) * 100:.2f} % off")


if __name__ == "__main__":
    main()
