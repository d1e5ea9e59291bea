"""Measures gradients without the loss scale of mixed precision, and without changing them."""

import math
import sys
from collections.abc import Iterator, Sequence

from debuggers.instrumentation.joined_optimizers import members_of, rounds_of
from debuggers.measurement.arrival_queue import Measurement
from debuggers.measurement.choosing import is_read_on_device, widened
from debuggers.measurement.joined_summaries import JoinedSummaries
from debuggers.measurement.measure import PendingSummaries, Product, measure
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch
from debuggers.torch_internals import foreach
from debuggers.torch_internals.grad_scaler import handed_to, is_unscaled, optimizer_states, scale_of

_MAX_COPIED = 1 << 22  # elements of unscaled copies that exist at a time
_ORDINARY = frozenset({torch.Tensor, torch.nn.Parameter})


def scale_in_gradients(
    scaler: torch.amp.GradScaler | None, optimizer: torch.optim.Optimizer | None
) -> torch.Tensor | None:
    """Returns the factor that is still in an optimizer's gradients, as a 0-d tensor; None when there is none.

    That is the scale of a GradScaler that has not unscaled them since its last ``update``; and, inside the step of a
    fused optimizer, which unscales as it goes, what the GradScaler has handed it (PyTorch 2.7 to 2.15).

    Args:
        scaler: The loop's GradScaler, if known.
        optimizer: The optimizer. Without one, the gradients count as unscaled once those of any optimizer are.
    """
    if (handed := handed_to(optimizer)) is not None:
        return handed[0]
    if scaler is None or not scaler.is_enabled():
        return None
    if (rounds := rounds_of(optimizer)) is not None and rounds.is_open:
        return None  # each is unscaled, or its gradients are kept without the scale
    states = optimizer_states(scaler)
    ids = states.keys() if optimizer is None else map(id, members_of(optimizer))
    known = [states[key] for key in ids if key in states]
    return None if any(map(is_unscaled, known)) else scale_of(scaler)


def calling_scaler() -> torch.amp.GradScaler | None:
    """Returns the GradScaler whose ``step`` runs in this thread, if one does."""
    frame = sys._getframe(1)
    while frame is not None:
        caller = frame.f_locals.get("self") if frame.f_code.co_name == "step" else None
        if isinstance(caller, torch.amp.GradScaler):
            return caller
        frame = frame.f_back  # type: ignore[assignment]
    return None


def scaler_of_callers() -> torch.amp.GradScaler | None:
    """Returns a GradScaler that a function running in this thread has in a variable, or its object in an attribute."""
    frame = sys._getframe(1)
    while frame is not None:
        known = dict(frame.f_locals)
        for value in (*known.values(), *getattr(known.get("self"), "__dict__", {}).values()):
            if isinstance(value, torch.amp.GradScaler) and value.is_enabled():
                return value
        frame = frame.f_back  # type: ignore[assignment]
    return None


def overflow_is_due_to_scale(scaler: torch.amp.GradScaler | None) -> bool:
    """Whether a GradScaler at work is itself the likely cause of an overflow; waits for its device.

    That is above a scale of 1. It starts at 65536 and halves at each overflow (defaults of ``torch.amp.GradScaler``),
    so a persistent fault is attributed to something else after at most 16 skipped steps.
    """
    return scaler is not None and scaler.is_enabled() and scaler.get_scale() > 1.0


def overflow_is_expected(scaler: torch.amp.GradScaler | None, optimizer: torch.optim.Optimizer | None) -> bool:
    """Whether a GradScaler is at work, which finds its scale by overflows and skips the steps that have them."""
    is_at_work = scaler is not None and scaler.is_enabled()
    return is_at_work or any(handed_to(one) is not None for one in members_of(optimizer))


def step_was_skipped(optimizer: torch.optim.Optimizer) -> torch.Tensor | None:
    """Returns, at the end of a fused optimizer's step, a 0-d tensor above 0 if an overflow kept it from updating."""
    handed = handed_to(optimizer)
    return None if handed is None else handed[1]


def measure_unscaled(gradients: Sequence[torch.Tensor], scale: torch.Tensor | None) -> Measurement:
    """Measures gradients divided by a scale.

    With a power of two on the host, as a GradScaler's scales are by default, the measured table is shifted, which is
    exact; else gradients are multiplied by the inverse in float32, as ``GradScaler.unscale_`` does it: by a kernel on
    their device, or copies of them.
    Nothing waits for a device.

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
    with torch.no_grad():
        inverse = scale.double().reciprocal().float()
        if all(map(is_read_on_device, gradients)):
            factors = {device: inverse.to(device, non_blocking=True) for device in {one.device for one in gradients}}
            return measure([Product(one, factors[one.device]) for one in gradients])
        parts = [measure(_multiplied(group, inverse)) for group in _groups(gradients)]
    return JoinedSummaries([str(place) for place in range(len(gradients))], parts)


class _Shifted:
    """A measurement times a power of two."""

    __slots__ = ("_exponent", "_measured", "_table")

    def __init__(self, measured: PendingSummaries, exponent: int) -> None:
        self._measured = measured
        self._exponent = exponent
        self._table: SummaryTable | None = None

    def ready(self) -> bool:
        return self._measured.ready()

    def resolve(self) -> SummaryTable:
        if self._table is None:
            self._table = self._measured.resolve().scaled(self._exponent)
        return self._table


def _groups(tensors: Sequence[torch.Tensor]) -> Iterator[list[torch.Tensor]]:
    """Yields tensors in turn: those of one group are on one device, and few enough to copy."""
    group: list[torch.Tensor] = []
    elements = 0
    for tensor in tensors:
        if group and (elements + tensor.numel() > _MAX_COPIED or tensor.device != group[0].device):
            yield group
            group, elements = [], 0
        group.append(tensor)
        elements += tensor.numel()
    if group:
        yield group


def _multiplied(tensors: list[torch.Tensor], factor: torch.Tensor) -> list[torch.Tensor]:
    """Copies times a 0-d factor; halves become float32, where what the scale kept from underflow does not underflow."""
    factor = factor.to(tensors[0].device, non_blocking=True)
    wide = [widened(tensor) for tensor in tensors]
    if all(type(tensor) in _ORDINARY and tensor.layout is torch.strided for tensor in wide):
        return list(foreach.mul(wide, factor))
    return [tensor * factor for tensor in wide]
