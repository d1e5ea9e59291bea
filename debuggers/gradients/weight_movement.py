"""Whether training moves the weights at all: a few elements of each parameter, compared with what they were."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from typing import Any

from debuggers.host_arrays.deferred import DeferredTensor, is_freed, plain_tensor
from debuggers.torch_import import torch

SAMPLES = 64
_TAKEN = frozenset({torch.float16, torch.bfloat16, torch.float32, torch.float64})


class WeightMovement:
    """Keeps at most 64 elements of each parameter, evenly spread, as they were when it was seen first."""

    def __init__(self) -> None:
        # A parameter that is replaced is not kept alive here.
        self._before: Any = torch.utils.weak.WeakIdKeyDictionary()

    @torch.no_grad()
    def keep(self, parameters: Mapping[str, torch.Tensor]) -> None:
        """Takes the elements of parameters that are not known yet; nothing waits for a device."""
        for parameter in parameters.values():
            if parameter not in self._before and (values := _sample(parameter)) is not None:
                self._before[parameter] = values

    @torch.no_grad()
    def compare(self, parameters: Mapping[str, torch.Tensor]) -> Movement:
        """Compares parameters with what they were; those that are not known yet are left out."""
        names, changes = [], []
        for name, parameter in parameters.items():
            before = self._before.get(parameter)
            after = None if before is None else _sample(parameter)
            if before is None or after is None or before.shape != after.shape or before.device != after.device:
                continue
            names.append(name)
            changes.append(torch.stack([(after - before).norm(), torch.maximum(after.norm(), before.norm())]))
        return Movement(names, [DeferredTensor(change) for change in changes])


class Movement:
    """How far parameters moved; it may still be on its way from a device."""

    __slots__ = ("_changes", "_names")

    def __init__(self, names: list[str], changes: list[DeferredTensor]) -> None:
        self._names, self._changes = names, changes

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait."""
        return all(change.ready() for change in self._changes)

    def resolve(self) -> dict[str, tuple[float, float]]:
        """Waits for the devices; returns by name the norm of the elements' change, and their own, the larger one."""
        return {
            name: (float(change.resolve()[0]), float(change.resolve()[1]))
            for name, change in zip(self._names, self._changes, strict=True)
        }


def _sample(parameter: torch.Tensor) -> torch.Tensor | None:
    """Some elements in float64; None where there are none to take."""
    if parameter.is_meta or parameter.is_sparse or parameter.is_quantized or parameter.dtype not in _TAKEN:
        return None
    values = plain_tensor(parameter)
    if not values.numel() or values.layout is not torch.strided or is_freed(values):
        return None
    return torch.take(values, _places(values.numel(), values.device)).double()


@lru_cache(maxsize=256)
def _places(elements: int, device: torch.device) -> torch.Tensor:
    """Where the elements are, int64."""
    count = min(SAMPLES, elements)
    return torch.arange(count, device=device) * (elements // count)
