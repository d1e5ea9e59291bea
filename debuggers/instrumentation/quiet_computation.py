"""Runs torch operations of a debugger during a forward pass, unseen by modes that are active there."""

from contextlib import AbstractContextManager, nullcontext
from types import TracebackType
from typing import Any

from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import set_gradients
from debuggers.torch_internals.dispatch import number_of_modes, without_modes, without_overrides

_NOTHING = nullcontext()
_WITH_AUTOCAST = frozenset({"cpu", "cuda"})


def outside_modes() -> AbstractContextManager[Any]:
    """Runs torch operations unseen by dispatch modes of the caller.

    Selective activation checkpointing, for one, keeps results by their order and would mix ours with the layer's.
    """
    return without_modes() if number_of_modes() else _NOTHING


def quiet_computation(device_type: str) -> AbstractContextManager[None]:
    """Runs torch operations without gradient and autocast, and unseen by modes of the caller, of dispatch or overrides.

    Args:
        device_type: Where the operations run, such as ``cpu``.
    """
    return _QuietComputation(device_type)


class _QuietComputation:
    """A class of its own, because a sampled step enters tens of them: it takes a fifth of the time of an ExitStack."""

    __slots__ = ("_autocast", "_device_type", "_had_gradients", "_modes", "_overrides")

    def __init__(self, device_type: str) -> None:
        self._device_type = device_type

    def __enter__(self) -> None:
        self._overrides = without_overrides()
        self._overrides.__enter__()
        self._had_gradients = torch.is_grad_enabled()
        if self._had_gradients:
            set_gradients(False)
        kind = self._device_type
        # Where it is off there is nothing to switch off, and leaving its context would clear its cache.
        has_autocast = kind in _WITH_AUTOCAST or torch.amp.is_autocast_available(kind)
        is_on = has_autocast and torch.is_autocast_enabled(kind)
        self._autocast = torch.autocast(kind, enabled=False) if is_on else None
        if self._autocast is not None:
            self._autocast.__enter__()  # type: ignore[no-untyped-call]
        self._modes = without_modes() if number_of_modes() else None
        if self._modes is not None:
            self._modes.__enter__()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._modes is not None:
            self._modes.__exit__(kind, error, trace)
        if self._autocast is not None:
            self._autocast.__exit__(kind, error, trace)
        if self._had_gradients:
            set_gradients(True)
        self._overrides.__exit__(kind, error, trace)
