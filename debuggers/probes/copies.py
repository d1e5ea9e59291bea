"""Copies of a model and its optimizer, to train on without a trace."""

import copy
from collections import defaultdict
from typing import Any

from debuggers.instrumentation.joined_optimizers import JoinedOptimizers, members_of
from debuggers.probes.batch import ProbedBatch
from debuggers.torch_import import torch
from debuggers.torch_internals.modules import Dropout
from debuggers.utils import tensors_in


class TrainingCopy:
    """A deep copy of a model, with an optimizer of the same class and settings that has no state yet.

    Results of its forward passes that a module keeps, such as hidden states, are copied without their graph.

    Attributes:
        model: The copy.
        optimizer: None without an optimizer.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None = None) -> None:
        """Copies both."""
        members = members_of(optimizer)
        memo: dict[int, Any] = {id(one.state): defaultdict(dict) for one in members}
        memo |= {id(one): one.detach().clone() for one in _kept_results(model)}  # torch refuses to copy them
        self.model: torch.nn.Module = copy.deepcopy(model, memo)
        copies = copy.deepcopy(members, memo)
        for member, copied in zip(members, copies, strict=True):
            # Pickling an optimizer leaves out what its class keeps beside state and groups, as LBFGS does.
            for name, value in vars(member).items():
                if name not in vars(copied) and not callable(value) and "hook" not in name:
                    setattr(copied, name, copy.deepcopy(value, memo))
        self.optimizer: torch.optim.Optimizer | None = None
        if copies:
            self.optimizer = copies[0] if len(copies) == 1 else JoinedOptimizers(copies)

    def without_dropout(self) -> None:
        """Puts dropouts in eval mode."""
        for module in self.model.modules():
            if isinstance(module, Dropout):
                module.eval()

    def step(self, batch: ProbedBatch) -> float:
        """Takes one step and returns the loss before it."""
        if self.optimizer is None:
            raise ValueError("the session has no optimizer")
        losses: list[float] = []
        trained = [one for group in self.optimizer.param_groups for one in group["params"] if one.requires_grad]

        def closure() -> torch.Tensor:
            loss = batch.call(self.model).loss
            gradients = torch.autograd.grad(loss, trained, allow_unused=True)
            if all(gradient is None for gradient in gradients):
                raise ValueError("the loss does not depend on the parameters of the model that was passed to forward")
            for parameter, gradient in zip(trained, gradients, strict=True):
                parameter.grad = gradient
            losses.append(float(loss.detach()))
            return loss.detach()

        self.optimizer.step(closure)  # type: ignore[arg-type]
        return losses[0]


def _kept_results(model: torch.nn.Module) -> list[torch.Tensor]:
    values = [value for module in model.modules() for value in vars(module).values()]
    return [tensor for tensor in tensors_in(values) if not tensor.is_leaf]
