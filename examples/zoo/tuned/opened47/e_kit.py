"""What this letter's cases share: data as one class, and a short loop."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn

from examples.zoo import samples
from examples.zoo.cases import Watch
from examples.zoo.datasets import Data

Step = Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]


def paired(pair: samples.Pair) -> Data:
    """Returns two datasets of two columns as one."""
    return Data(*pair[0].tensors, *pair[1].tensors)


def letters(seed: int) -> Data:
    """Names of letters (N, 24), padded with 0, and their script."""
    return paired(samples.names(seed))


def numerals(seed: int, *shape: int) -> Data:
    """Standardised digits in a shape, such as 1, 8, 8, and their numbers."""
    data = paired(samples.numerals(seed))
    return Data(data.inputs.view(-1, *shape), data.targets, data.test_inputs.view(-1, *shape), data.test_targets)


def themselves(data: Data) -> Data:
    """Returns inputs that are their own targets."""
    return Data(data.inputs, data.inputs, data.test_inputs, data.test_inputs)


def loop(
    watch: Watch, model: nn.Module, optimizer: Any, data: Data, step: Step, *, steps: int, size: int = 64,
    scheduler: Any = None,
) -> None:  # fmt: skip
    """Trains with ``step``, which returns the loss and the outputs of a batch."""
    session = watch(model, optimizer)
    for inputs, targets in data.batches(size, steps):
        optimizer.zero_grad()
        loss, outputs = step(inputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
