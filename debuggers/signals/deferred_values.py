"""Many small tensors on their way to the host, in one copy for each device."""

from collections.abc import Mapping

import numpy as np
import numpy.typing as npt

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.torch_import import torch

Floats = npt.NDArray[np.float64]


class DeferredValues:
    """Values by name as they were when this was made; nothing waits for a device until ``resolve``."""

    __slots__ = ("_known", "_parts")

    def __init__(self, values: Mapping[str, torch.Tensor | float]) -> None:
        """Takes numbers, and tensors of any shape and real dtype, which become float64."""
        self._known: dict[str, Floats] = {}
        self._parts: list[tuple[list[tuple[str, tuple[int, ...]]], DeferredTensor]] = []
        devices: dict[torch.device, dict[str, torch.Tensor]] = {}
        for name, value in values.items():
            if isinstance(value, torch.Tensor):
                devices.setdefault(value.device, {})[name] = value
            else:
                self._known[name] = np.array(value, np.float64)
        for group in devices.values():
            shapes = [(name, tuple(value.shape)) for name, value in group.items()]
            together = torch.cat([value.reshape(-1).double() for value in group.values()])
            self._parts.append((shapes, DeferredTensor(together)))

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait."""
        return all(copy.ready() for _, copy in self._parts)

    def resolve(self) -> dict[str, Floats]:
        """Waits for the devices; returns float64 arrays of the tensors' shapes."""
        found = dict(self._known)
        for shapes, copy in self._parts:
            flat, start = copy.resolve(), 0
            for name, shape in shapes:
                size = int(np.prod(shape, dtype=np.int64))
                found[name] = flat[start : start + size].reshape(shape)
                start += size
        return found
