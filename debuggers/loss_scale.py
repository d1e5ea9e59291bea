"""Measures gradients without the loss scale that mixed precision left in them, and without touching them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from torch.amp.grad_scaler import OptState

from debuggers.joined_summaries import JoinedSummaries
from debuggers.measurement import PendingSummaries, measure
from debuggers.summary_stream import Measurement
from debuggers.summary_table import SummaryTable
from debuggers.torch_import import torch

_MAX_COPIED = 1 << 24  # elements of unscaled copies that exist at a time on the host


def scale_in_gradients(
    scaler: torch.amp.GradScaler | None, optimizer: torch.optim.Optimizer | None
) -> torch.Tensor | None:
    """Returns the factor that is still in an optimizer's gradients, as a 0-d tensor; None when there is none.

    That is the scale of a GradScaler that has not unscaled them since its last ``update``; and, inside the step of a
    fused optimizer, which unscales as it goes, what the GradScaler has handed it (PyTorch 2.4 to 2.13).

    Args:
        scaler: The loop's GradScaler, if known.
        optimizer: The optimizer.
    """
    handed = getattr(optimizer, "grad_scale", None)
    if isinstance(handed, torch.Tensor):
        return handed
    if scaler is None or optimizer is None or not scaler.is_enabled() or scaler._scale is None:
        return None
    state = scaler._per_optimizer_states.get(id(optimizer))
    if state is not None and state["stage"] is not OptState.READY:
        return None
    return scaler._scale


@torch.no_grad()
def measure_unscaled(gradients: Sequence[torch.Tensor], scale: torch.Tensor | None) -> Measurement:
    """Measures gradients divided by a scale.

    On the host a power of two, as GradScaler's scales are by default, shifts the measured table, which is exact; else
    copies are measured, multiplied in the gradient's dtype as ``GradScaler.unscale_`` does it. Nothing waits for a
    device.

    Args:
        gradients: Are not changed.
        scale: A 0-d tensor; None measures the gradients as they are.
    """
    if scale is None:
        return measure(gradients)
    if scale.is_cpu:
        mantissa, exponent = math.frexp(float(scale))
        if mantissa == 0.5:
            return _Shifted(measure(gradients), 1 - exponent)
    inverse = scale.double().reciprocal().float()
    parts = [measure([gradient * inverse.to(gradient.device) for gradient in group]) for group in _groups(gradients)]
    return JoinedSummaries([str(place) for place in range(len(gradients))], parts)


def _groups(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    group: list[torch.Tensor] = []
    elements = 0
    for tensor in tensors:
        group.append(tensor)
        elements += tensor.numel()
        if elements > _MAX_COPIED:
            yield group
            group, elements = [], 0
    if group:
        yield group


@dataclass(frozen=True, slots=True)
class _Shifted:
    measured: PendingSummaries
    exponent: int

    def ready(self) -> bool:
        return self.measured.ready()

    def resolve(self) -> SummaryTable:
        return self.measured.resolve().scaled(self.exponent)
