"""Probes that train a copy: fit one batch, and a sweep of the learning rate."""

import math
from typing import Any

from debuggers.probes.batch import ProbedBatch
from debuggers.probes.copies import TrainingCopy

ROWS = 16
LOWEST, HIGHEST = 1e-6, 10.0
"""The learning rates of the sweep (Smith, "Cyclical learning rates", 2017, does it from small to too large)."""
DIVERGED = 4.0
"""The sweep ends at so many times the lowest loss, as in fastai's ``lr_find``."""
FITTED = 0.5
"""A batch fits if the loss falls to this share (stepscope's own choice)."""


def fit_one_batch(batch: ProbedBatch, copy: TrainingCopy, steps: int) -> dict[str, Any]:
    """Trains on 16 rows, without dropout: a model that can learn fits them."""
    few = batch.rows(ROWS)
    copy.without_dropout()
    losses = [copy.step(few) for _ in range(steps)]
    losses.append(float(few.call(copy.model).loss.detach()))
    first, last = losses[0], losses[-1]
    fits = math.isfinite(last) and last <= first - (1 - FITTED) * abs(first)
    text = f"trained on one batch of at most {ROWS} for {steps} steps, the loss goes from {first:.4g} to {last:.4g}"
    return {"first": first, "last": last, "fits": fits, "steps": steps, "evidence": text}


def learning_rate(batch: ProbedBatch, copy: TrainingCopy, steps: int) -> dict[str, Any]:
    """Trains with a learning rate that grows from step to step; suggests a tenth of the one with the lowest loss."""
    assert copy.optimizer is not None
    copy.without_dropout()
    current = [float(group["lr"]) for group in copy.optimizer.param_groups]
    highest = max(current)
    if not highest:
        raise ValueError("the optimizer's learning rate is 0, so that of its groups cannot be varied together")
    rates = [LOWEST * (HIGHEST / LOWEST) ** (number / max(1, steps - 1)) for number in range(steps)]
    losses: list[float] = []
    diverges: float | None = None
    for rate in rates:
        for group, own in zip(copy.optimizer.param_groups, current, strict=True):
            group["lr"] = rate * own / highest
        loss = copy.step(batch)
        if not math.isfinite(loss) or (losses and loss - min(losses) > (DIVERGED - 1) * abs(losses[0])):
            diverges = rate
            break
        losses.append(loss)
    # A step's loss is the result of the rates before it.
    lowest = min(range(len(losses)), key=losses.__getitem__, default=0)
    falls = lowest > 0 and losses[lowest] < losses[0] - 0.01 * abs(losses[0])
    best = rates[max(0, lowest - 1)]
    suggested = best / 10 if falls else None
    what = f"falls to {losses[lowest]:.4g} at {best:.2g}" if falls else "does not fall at any"
    end = "" if diverges is None else f", and it diverges at {diverges:.2g}"
    text = f"over learning rates from {LOWEST:g} to {HIGHEST:g} the loss {what}{end}; the training's is {highest:.3g}"
    return {"suggested": suggested, "current": highest, "lowest_at": best, "diverges_at": diverges, "evidence": text}
