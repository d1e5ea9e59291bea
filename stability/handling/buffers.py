"""Buffers as they were before a faulty step: its forward pass has put NaN into running statistics by then."""

from __future__ import annotations

import weakref
from dataclasses import dataclass

from debuggers.torch_import import torch

_ALWAYS_COPIED = 1 << 16
"""Elements. torch writes running statistics without a new version of the tensor, so that only for large buffers, such
as masks, the version tells whether they have changed."""


@dataclass(slots=True)
class _Kept:
    source: torch.Tensor
    version: int
    copy: torch.Tensor

    @property
    def may_have_changed(self) -> bool:
        return self.source.numel() <= _ALWAYS_COPIED or self.version != self.source._version


class BufferKeeper:
    """Copies what a good step may have changed of a model's buffers, on their devices, for a faulty step after it.

    Before the first good step there is nothing to put back.
    """

    def __init__(self) -> None:
        self._models: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, _Kept]] = weakref.WeakKeyDictionary()

    @torch.no_grad()
    def note_good_step(self, model: torch.nn.Module) -> None:
        """Takes the buffers that have changed since the last call."""
        kept = self._models.setdefault(model, {})
        changed: list[_Kept] = []
        for name, buffer in _plain_buffers(model):
            known = kept.get(name)
            if known is not None and known.source is buffer and known.copy.shape == buffer.shape:
                if known.may_have_changed:
                    changed.append(known)
            else:
                kept[name] = _Kept(buffer, buffer._version, buffer.clone())
        if changed:
            torch._foreach_copy_([one.copy for one in changed], [one.source for one in changed])
        for one in changed:
            one.version = one.source._version

    @torch.no_grad()
    def put_back(self, model: torch.nn.Module) -> None:
        """Puts back, in place, what has changed since the last good step."""
        kept = self._models.get(model, {})
        for name, buffer in _plain_buffers(model):
            known = kept.get(name)
            if known is not None and known.source is buffer and known.may_have_changed:
                buffer.copy_(known.copy)
                known.version = buffer._version


def _plain_buffers(model: torch.nn.Module) -> list[tuple[str, torch.Tensor]]:
    # Those made in inference mode have no version; sharded ones would make ranks wait for each other.
    return [
        (name, buffer)
        for name, buffer in model.named_buffers()
        if not buffer.is_inference() and not hasattr(buffer, "to_local")
    ]
