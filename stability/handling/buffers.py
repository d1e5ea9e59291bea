"""Buffers as they were before a faulty step: its forward pass has put NaN into running statistics by then."""

import weakref
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from torch.nn.parameter import is_lazy
from tracker_adapters.values.tensors import is_sharded

from debuggers.host_arrays.readable import is_freed
from debuggers.torch_import import torch
from debuggers.torch_internals import foreach
from debuggers.torch_internals.modules import RunningNorm, buffers_of
from debuggers.torch_internals.tensors import version_of

_ALWAYS_COPIED = 1 << 16
"""Elements. torch writes running statistics without a new version of the tensor, so that only for large buffers, such
as masks, the version tells whether they have changed."""
SavedBuffers: TypeAlias = list[dict[str, list[Any]]]
"""Plain values of the buffers of each model by name, for a checkpoint."""


class PutBack(NamedTuple):
    """Names of what could not be put back as it was.

    ``reset`` are running statistics whose elements that were not finite have the values of a new layer; ``left`` are
    buffers that are still not finite.
    """

    reset: list[str]
    left: list[str]


class _Place(NamedTuple):
    name: str
    module: torch.nn.Module
    key: str
    buffer: torch.Tensor


@dataclass(slots=True)
class _Kept:
    source: torch.Tensor
    version: int
    copy: torch.Tensor

    @property
    def may_have_changed(self) -> bool:
        return self.source.numel() <= _ALWAYS_COPIED or self.version != version_of(self.source)

    def is_of(self, buffer: torch.Tensor) -> bool:
        return self.source is buffer and self.copy.shape == buffer.shape


class BufferKeeper:
    """Copies what a good step may have changed of a model's buffers, on their devices, for a faulty step after it.

    Before the first good step there is what ``keep`` or ``load`` brought.
    """

    def __init__(self) -> None:
        self._models: weakref.WeakKeyDictionary[torch.nn.Module, dict[str, _Kept]] = weakref.WeakKeyDictionary()
        self._loaded: SavedBuffers = []

    @torch.no_grad()
    def keep(self, model: torch.nn.Module) -> None:
        """Takes the buffers that have changed since the last call: after a good step, or before the first one."""
        kept = self._models.setdefault(model, {})
        changed: list[_Kept] = []
        for name, _, _, buffer in _plain_buffers(model):
            known = kept.get(name)
            if known is not None and known.is_of(buffer):
                if known.may_have_changed:
                    changed.append(known)
            else:
                kept[name] = _Kept(buffer, version_of(buffer), buffer.clone())
        if changed:
            foreach.copy_([one.copy for one in changed], [one.source for one in changed])
        for one in changed:
            one.version = version_of(one.source)

    @torch.no_grad()
    def put_back(self, model: torch.nn.Module) -> PutBack:
        """Puts back what has changed since the last good step; waits for the device.

        A buffer that was exchanged for another tensor since, by a forward pass or by somebody else, is exchanged again
        only when the new one is not finite. Where nothing was kept, running statistics that are not finite begin anew.
        """
        kept = self._models.get(model) or self._take_loaded(model)
        result = PutBack([], [])
        for name, module, key, buffer in _plain_buffers(model):
            known = kept.get(name)
            if known is not None and known.is_of(buffer):
                if known.may_have_changed:
                    buffer.copy_(known.copy)
                    known.version = version_of(buffer)
            elif _is_finite(buffer):
                continue
            elif known is not None and (known.source.device, known.source.dtype) == (buffer.device, buffer.dtype):
                known.source.copy_(known.copy)
                known.version = version_of(known.source)
                buffers_of(module)[key] = known.source
            elif isinstance(module, RunningNorm) and key in ("running_mean", "running_var"):
                buffer.nan_to_num_(*[float(key == "running_var")] * 3)
                result.reset.append(name)
            else:
                result.left.append(name)
        return result

    def save(self) -> SavedBuffers:
        """Returns the kept buffers that a forward pass may change: small ones, of numbers; waits for the device."""
        return [
            {name: one.copy.flatten().tolist() for name, one in kept.items() if _is_saved(one.copy)}
            for kept in self._models.values()
        ]

    def load(self, saved: SavedBuffers) -> None:
        """Takes what ``save`` gave, for models whose first step fails; forgets what was kept so far."""
        self._models.clear()
        self._loaded = [dict(buffers) for buffers in saved]

    def _take_loaded(self, model: torch.nn.Module) -> dict[str, _Kept]:
        """What was saved of a model with such buffers, as if it was kept just before this step."""
        sizes = {place.name: place.buffer for place in _plain_buffers(model) if _is_saved(place.buffer)}
        for buffers in self._loaded:
            if {name: len(values) for name, values in buffers.items()} == {
                name: buffer.numel() for name, buffer in sizes.items()
            }:
                return {
                    name: _Kept(buffer, -1, buffer.new_tensor(buffers[name]).view_as(buffer))
                    for name, buffer in sizes.items()
                }
        return {}


def _is_finite(buffer: torch.Tensor) -> bool:
    if buffer.layout is not torch.strided or not (buffer.dtype.is_floating_point or buffer.is_complex()):
        return True
    values = buffer.float() if buffer.dtype.itemsize == 1 else buffer  # not every float8 knows isfinite
    return bool(values.isfinite().all())


def _is_saved(buffer: torch.Tensor) -> bool:
    return buffer.numel() <= _ALWAYS_COPIED and buffer.layout is torch.strided and not buffer.is_complex()


def _plain_buffers(model: torch.nn.Module) -> Iterator[_Place]:
    # Those made in inference mode have no version; sharded ones would make ranks wait for each other.
    for path, module in model.named_modules():
        for key, buffer in buffers_of(module).items():
            if buffer is None or is_lazy(buffer) or buffer.is_inference() or is_sharded(buffer):
                continue
            if is_freed(buffer):
                continue
            yield _Place(f"{path}.{key}" if path else key, module, key, buffer)
