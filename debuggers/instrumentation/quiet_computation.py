"""Runs torch operations of a debugger during a forward pass, unseen by modes that are active there."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager, nullcontext
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.dispatch import number_of_modes, without_modes, without_overrides

_NOTHING = nullcontext()


def outside_modes() -> AbstractContextManager[Any]:
    """Runs torch operations unseen by dispatch modes of the caller.

    Selective activation checkpointing, for one, keeps results by their order and would mix ours with the layer's.
    """
    return without_modes() if number_of_modes() else _NOTHING


@contextmanager
def quiet_computation(device_type: str) -> Iterator[None]:
    """Runs torch operations without gradient and autocast, and unseen by modes of the caller, of dispatch or overrides.

    Args:
        device_type: Where the operations run, such as ``cpu``.
    """
    with ExitStack() as stack:
        stack.enter_context(without_overrides())
        stack.enter_context(torch.no_grad())
        if torch.amp.is_autocast_available(device_type):
            stack.enter_context(torch.autocast(device_type, enabled=False))
        stack.enter_context(outside_modes())
        yield
