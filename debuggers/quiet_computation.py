"""Lets a debugger compute in the middle of a forward pass without anything there noticing it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager

from debuggers.torch_import import torch


@contextmanager
def quiet_computation(device_type: str) -> Iterator[None]:
    """Runs torch operations without gradient and autocast, and unseen by the caller's modes.

    Modes are those of ``torch.overrides`` and of ``torch.utils._python_dispatch``: selective activation
    checkpointing, for one, keeps results by their order and would mix ours with the layer's.

    Args:
        device_type: Where the operations run, such as ``cpu``.
    """
    with ExitStack() as stack:
        stack.enter_context(torch._C.DisableTorchFunction())
        stack.enter_context(torch.no_grad())
        if torch.amp.is_autocast_available(device_type):
            stack.enter_context(torch.autocast(device_type, enabled=False))
        if torch._C._len_torch_dispatch_stack():
            stack.enter_context(torch.utils._python_dispatch._disable_current_modes())
        yield
