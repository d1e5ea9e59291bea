"""Whether training changes the weights at all: compares a few elements of each parameter with their first values."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import Any

from debuggers.gradients.element_samples import sample_elements
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.torch_import import torch
from debuggers.torch_internals import foreach


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
        pairs: dict[torch.device, dict[str, tuple[torch.Tensor, torch.Tensor]]] = defaultdict(dict)
        for name, parameter in parameters.items():
            before = self._before.get(parameter)
            after = None if before is None else _sample(parameter)
            if after is not None and before.shape == after.shape and before.device == after.device:
                pairs[after.device][name] = before, after
        return Movement([(tuple(named), _norms(*zip(*named.values(), strict=True))) for named in pairs.values()])


class Movement:
    """How far parameters moved; it may still be on its way from devices."""

    __slots__ = ("_parts",)

    def __init__(self, parts: list[tuple[tuple[str, ...], DeferredTensor]]) -> None:
        """Takes for each device the names, and two rows: norms of the elements' change, and their own."""
        self._parts = parts

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait."""
        return all(norms.ready() for _, norms in self._parts)

    def resolve(self) -> dict[str, tuple[float, float]]:
        """Waits for the devices; returns by name the norm of the elements' change, and their own, the larger one."""
        found: dict[str, tuple[float, float]] = {}
        for names, norms in self._parts:
            found.update(zip(names, zip(*norms.resolve().tolist(), strict=True), strict=True))
        return found


def _norms(before: tuple[torch.Tensor, ...], after: tuple[torch.Tensor, ...]) -> DeferredTensor:
    """Starts to copy the norms of the elements' change, and of the elements where they are larger: (2, tensors)."""
    changes = [new - old for old, new in zip(before, after, strict=True)]
    change, old, new = (torch.stack(foreach.norm(list(tensors))) for tensors in (changes, before, after))
    return DeferredTensor(torch.stack([change, torch.maximum(old, new)]))


def _sample(parameter: torch.Tensor) -> torch.Tensor | None:
    """Some elements in float64; None where there are none to take."""
    values = sample_elements(parameter)
    return None if values is None else values.double()
