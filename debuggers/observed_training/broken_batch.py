"""The inputs of the first step whose loss is not finite: whether the data brought the NaN."""

import math

from debuggers.signals.sampling import usable
from debuggers.torch_import import torch


class BrokenBatch:
    """Counts the non-finite inputs of the first batch whose loss is not finite.

    Such a batch mostly comes at a step that is not sampled, and weights that are NaN make every later loss NaN. On a
    device nothing is counted: to know of the loss would mean to wait for it.

    Attributes:
        is_over: Whether that batch was seen.
    """

    def __init__(self) -> None:
        self._found: int | None = None
        self.is_over = False

    def look(self, loss: torch.Tensor, inputs: torch.Tensor | None) -> None:
        """Looks at a loss before its backward pass, and at what the model was given for it, if that is still there."""
        if not loss.is_cpu or loss.numel() != 1 or math.isfinite(loss.item()):
            return
        self.is_over = True
        values = None if inputs is None else usable(inputs)
        if values is not None and values.is_cpu:
            self._found = values.numel() - int(torch.isfinite(values).sum())

    def take(self) -> int | None:
        """Returns how many inputs were NaN or infinite, once; None where nothing was counted."""
        found, self._found = self._found, None
        return found
