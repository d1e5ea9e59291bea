"""Tells what torch's own losses compute without gradients, as in a validation."""

import logging
import threading
from collections.abc import Callable
from typing import Any, TypeAlias

from debuggers.torch_import import torch
from debuggers.torch_internals.loss_entries import (
    KINDS,
    REDUCTION_AT,
    LossEntry,
    current_loss_entry,
    replace_loss_entry,
)

OnLoss: TypeAlias = Callable[[str, torch.Tensor, torch.Tensor], None]
"""Called with the kind of a loss, what it was given as outputs, and its mean, a tensor of one element."""

_INNER = "_stepscope_inner"
_NONE, _SUM = 0, 2
_log = logging.getLogger(__name__)
_changing = threading.RLock()
_observers: tuple["LossObservation", ...] = ()
_made: dict[tuple[str, LossEntry], LossEntry] = {}
"""What was ever put in torch's place, to be put there again: each is kept for good."""


class LossObservation:
    """Calls a function at each loss of the process that needs no gradient, until ``remove``.

    While there is one, torch calls functions of this module that change nothing of its losses. What ``torch.compile``
    compiles and TorchScript runs is not seen. After the last one torch has its own again. If somebody else has put
    theirs around ours meanwhile, ours stays inside and only passes on.
    """

    __slots__ = ("on_loss",)

    def __init__(self, on_loss: OnLoss) -> None:
        self.on_loss = on_loss
        global _observers
        with _changing:
            _observers = (*_observers, self)
            for kind in KINDS:
                inner = current_loss_entry(kind)
                if not hasattr(inner, _INNER):
                    replace_loss_entry(kind, _observed(kind, inner))

    def remove(self) -> None:
        """Ends it; calling it again does nothing."""
        global _observers
        with _changing:
            _observers = tuple(other for other in _observers if other is not self)
            for kind in KINDS:
                inner = getattr(current_loss_entry(kind), _INNER, None)
                if not _observers and inner is not None:
                    replace_loss_entry(kind, inner)


def _observed(kind: str, inner: LossEntry) -> LossEntry:
    known = _made.get((kind, inner))
    if known is not None:
        return known

    # A function, and no object that is called: torch.compile goes through it also where a graph must be whole.
    def loss(*arguments: Any, **keywords: Any) -> Any:
        value = inner(*arguments, **keywords)
        if not torch.compiler.is_compiling():
            _tell(kind, arguments, value)
        return value

    setattr(loss, _INNER, inner)
    _made[kind, inner] = loss
    return loss


def _tell(kind: str, arguments: tuple[Any, ...], value: Any) -> None:
    place = REDUCTION_AT[kind]
    if not isinstance(value, torch.Tensor) or value.requires_grad or not value.numel() or len(arguments) <= place:
        return
    outputs, targets, reduction = arguments[0], arguments[1], arguments[place]
    for observer in _observers:
        try:
            mean = value.mean() if reduction == _NONE else value
            if reduction == _SUM:
                mean = value / _summands(kind, outputs, targets)
            observer.on_loss(kind, outputs, mean)
        except Exception:  # nothing of ours may stop a training
            _log.exception("a loss without gradients could not be observed")


def _summands(kind: str, outputs: torch.Tensor, targets: torch.Tensor) -> int:
    """How many numbers a sum adds up: elements, or one for each class index or distribution over classes."""
    if kind not in ("cross_entropy", "nll"):
        return outputs.numel()
    classes = outputs.shape[1] if outputs.ndim > 1 else outputs.shape[0]
    return targets.numel() if targets.numel() != outputs.numel() else max(1, outputs.numel() // classes)
