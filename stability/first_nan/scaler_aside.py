"""Keeps a GradScaler as it is while a step is repeated."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import forget_optimizers


@contextmanager
def scaler_aside(scaler: torch.amp.GradScaler | None) -> Iterator[None]:
    """Lets a repeated step scale and unscale by a scaler as if the step had just begun; afterwards it is as before.

    The values of its tensors are none of this: a replay puts all memory back that it wrote to.
    """
    if scaler is None or not scaler.is_enabled():
        yield
        return
    before = dict(scaler.__dict__)
    try:
        forget_optimizers(scaler)
        yield
    finally:
        scaler.__dict__.update(before)
