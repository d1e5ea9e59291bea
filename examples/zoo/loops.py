"""The ordinary loop, for cases in which the loop is not the point, and how good a model is."""

from collections.abc import Callable
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch
from examples.zoo.datasets import Data

Loss = Callable[[torch.Tensor, torch.Tensor], torch.Tensor]


def fit(
    watch: Watch,
    model: nn.Module,
    optimizer: torch.optim.Optimizer,
    data: Data,
    *,
    steps: int,
    batch_size: int = 64,
    loss_function: Loss = functional.cross_entropy,
    scheduler: Any = None,
    validate_every: int = 0,
) -> None:
    """Trains in an ordinary loop; the scheduler steps with every batch."""
    session = watch(model, optimizer)
    for step, (inputs, targets) in enumerate(data.batches(batch_size, steps), 1):
        optimizer.zero_grad()
        outputs = model(inputs)
        loss = loss_function(outputs, targets)
        loss.backward()
        session.step(loss, inputs=inputs, outputs=outputs, targets=targets)
        optimizer.step()
        if scheduler is not None:
            scheduler.step()
        if validate_every and step % validate_every == 0:
            session.validation(held_out_loss(model, data, loss_function))


def predicted(model: nn.Module, inputs: torch.Tensor) -> torch.Tensor:
    """Returns the model's outputs in eval mode, without gradients."""
    was_training = model.training
    model.eval()
    with torch.no_grad():
        outputs = model(inputs)
    model.train(was_training)
    return outputs


def held_out_loss(model: nn.Module, data: Data, loss_function: Loss = functional.cross_entropy) -> float:
    """Returns the loss on held-out data."""
    return loss_function(predicted(model, data.test_inputs), data.test_targets).item()


def accuracy(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out samples whose largest output is at the target."""
    return (predicted(model, data.test_inputs).argmax(-1) == data.test_targets).float().mean().item()


def binary_accuracy(model: nn.Module, data: Data) -> float:
    """Returns the share of held-out samples whose logit has the right sign."""
    return ((predicted(model, data.test_inputs).squeeze(-1) > 0) == (data.test_targets > 0.5)).float().mean().item()


def r_squared(model: nn.Module, data: Data) -> float:
    """Returns the share of the held-out targets' variance that the model explains; -1 at least, NaN if it is NaN."""
    error = (predicted(model, data.test_inputs).view(-1) - data.test_targets.view(-1)).square().mean()
    return (1 - error / data.test_targets.var()).clamp(min=-1).item()
