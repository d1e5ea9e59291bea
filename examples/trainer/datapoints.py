"""What training and evaluation do alike with datapoints: predict, score, average."""

from collections.abc import Callable
from typing import Any

import torch


def predict(
    dp: dict[str, Any],
    model: torch.nn.Module,
    metric: Callable[[dict[str, Any]], dict[str, torch.Tensor]],
    device: torch.device,
) -> None:
    """Adds ``outputs`` and ``scores`` to a batch with ``inputs`` and ``labels``, on the device."""
    for name in ("inputs", "labels"):
        dp[name] = dp[name].to(device)
    dp["outputs"] = model(dp["inputs"])
    dp["scores"] = metric(dp)


def mean_scores(batches: list[dict[str, torch.Tensor]]) -> dict[str, float]:
    """Returns the mean of each score over the datapoints of all batches."""
    return {name: torch.cat([scores[name] for scores in batches]).float().mean().item() for name in batches[0]}
