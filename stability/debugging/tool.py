"""What a tool of a debug session is, and what it is shown of a step."""

from dataclasses import dataclass
from typing import Protocol

from debuggers.torch_import import torch
from stability.results.step import Anomaly, DebugInfo


@dataclass(frozen=True, slots=True)
class StepSeen:
    """A step after its examination.

    Attributes:
        number: Its number.
        model: The model.
        loss: What the manager was given.
        optimizer: The optimizer.
        anomalies: What the manager found.
        faulty: The names of the parameters whose gradient is not finite.
    """

    number: int
    model: torch.nn.Module
    loss: torch.Tensor | float
    optimizer: torch.optim.Optimizer
    anomalies: list[Anomaly]
    faulty: list[str]


class DebugTool(Protocol):
    """One of torch's debugging tools. Its work changes nothing of the training; ``close`` leaves nothing behind."""

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Called when the manager's step begins, with the same objects each time as long as they stay."""

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Adds to a step's ``debug_info``, and returns what it found wrong."""

    def close(self) -> None:
        """Removes its hooks and puts torch's switches back; a second call does nothing."""
