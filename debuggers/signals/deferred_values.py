"""Many small tensors on their way to the host, in one copy for each device."""

import math
from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.torch_import import torch

Floats = npt.NDArray[np.float64]


class DeferredValues:
    """Values by name as they were when this was made; nothing waits for a device until ``resolve``."""

    __slots__ = ("_known", "_parts")

    def __init__(self, values: Mapping[str, torch.Tensor | list[torch.Tensor] | float]) -> None:
        """Takes numbers, and tensors of any shape and real dtype, which become float64.

        A list of tensors of one shape and device becomes one array with a row for each.
        """
        self._known: dict[str, Floats] = {}
        self._parts: list[tuple[list[tuple[str, tuple[int, ...]]], DeferredTensor]] = []
        devices: dict[torch.device, tuple[list[tuple[str, tuple[int, ...]]], list[torch.Tensor]]] = {}
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                shapes, flat = devices.setdefault(value.device, ([], []))
                shapes.append((name, tuple(value.shape)))
                flat.append(value.reshape(-1))
            elif isinstance(value, list):
                shapes, flat = devices.setdefault(value[0].device, ([], []))
                shapes.append((name, (len(value), *value[0].shape)))
                flat += [one.reshape(-1) for one in value]
            else:
                self._known[name] = np.array(value, np.float64)
        for device, (shapes, flat) in devices.items():
            if device.type == "cpu":  # conversion and copy in one pass
                array = np.empty(sum(map(torch.numel, flat)))
                torch.cat(flat, out=torch.from_numpy(array))
                self._known |= _cut(array, shapes)
            else:
                together = torch.cat([value.double() for value in flat])
                self._parts.append((shapes, DeferredTensor(together)))

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait."""
        return all(copy.ready() for _, copy in self._parts)

    def resolve(self) -> dict[str, Floats]:
        """Waits for the devices; returns float64 arrays of the tensors' shapes."""
        found = dict(self._known)
        for shapes, copy in self._parts:
            found |= _cut(copy.resolve(), shapes)
        return found


def _cut(flat: Floats, shapes: Sequence[tuple[str, tuple[int, ...]]]) -> dict[str, Floats]:
    found, start = {}, 0
    for name, shape in shapes:
        size = math.prod(shape)
        found[name] = flat[start : start + size].reshape(shape)
        start += size
    return found


class DeferredElements:
    """A few elements of each of several tensors, on their way to the host."""

    __slots__ = ("_order", "_parts", "_sizes")

    _parts: list[Floats | DeferredTensor]

    def __init__(self, samples: Sequence[torch.Tensor] | Floats) -> None:
        """Takes a sample of each tensor, or those of all that lie on the host."""
        if isinstance(samples, np.ndarray):
            self._sizes, self._order, self._parts = [], [], [samples]
            return
        self._sizes = [sample.numel() for sample in samples]
        devices: dict[torch.device, list[int]] = {}
        for place, sample in enumerate(samples):
            devices.setdefault(sample.device, []).append(place)
        self._order = [place for places in devices.values() for place in places]
        self._parts = [_together([samples[place] for place in places]) for places in devices.values()]

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait."""
        return all(isinstance(part, np.ndarray) or part.ready() for part in self._parts)

    def resolve(self) -> Floats:
        """Waits for the devices; returns one tensor's after the other's, in their order, as float64."""
        found = [part if isinstance(part, np.ndarray) else part.resolve().astype(np.float64) for part in self._parts]
        if len(found) == 1:
            return found[0]
        flat = np.concatenate(found)
        ends = np.cumsum([self._sizes[place] for place in self._order])
        pieces = dict(zip(self._order, np.split(flat, ends[:-1]), strict=True))
        return np.concatenate([pieces[place] for place in range(len(self._sizes))])


def _together(samples: list[torch.Tensor]) -> Floats | DeferredTensor:
    if not samples[0].is_cpu:
        return DeferredTensor(torch.cat(samples))
    array = np.empty(sum(map(torch.numel, samples)))
    torch.cat(samples, out=torch.from_numpy(array))  # conversion and copy in one pass
    return array


def cosine(first: Floats, second: Floats, factors: Floats | float = 1.0) -> float:
    """The cosine of two samples, whose elements stand for ``factors`` each.

    NaN where one of the two is zero, or not finite.
    """
    lengths = np.sqrt(np.sum(np.square(first) * factors)) * np.sqrt(np.sum(np.square(second) * factors))
    return float(np.sum(first * second * factors) / lengths) if lengths > 0 else math.nan
