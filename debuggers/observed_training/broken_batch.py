"""The inputs of the first step whose loss is not finite: whether the data brought the NaN."""

from debuggers.host_arrays.readable import is_dense
from debuggers.signals.sampling import usable
from debuggers.torch_import import torch


class BrokenBatch:
    """Counts the non-finite inputs of the first batch whose loss is not finite.

    Such a batch mostly comes at a step that is not sampled, and weights that are NaN make every later loss NaN. On a
    device nothing is counted: to know of the loss would mean to wait for it.
    """

    def __init__(self) -> None:
        self._found: int | None = None
        self._is_over = False

    def look(self, inputs: torch.Tensor | None) -> None:
        """Takes what the model was given for the first loss that is not finite, if that is still there.

        Call it before the backward pass.
        """
        if self._is_over:
            return
        self._is_over = True
        if inputs is not None and inputs.is_complex() and is_dense(inputs):
            inputs = torch.view_as_real(inputs.detach().resolve_conj())
        values = None if inputs is None else usable(inputs)
        if values is not None and values.is_cpu:
            self._found = values.numel() - int(torch.isfinite(values).sum())

    def take(self) -> int | None:
        """Returns how many inputs were NaN or infinite, once; None where nothing was counted."""
        found, self._found = self._found, None
        return found
