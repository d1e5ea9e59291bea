"""Checksums of tensors' bits, by which readers see whether ranks hold the same values."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tracker_adapters.values.tensors import local_part

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.host_arrays.readable import is_freed
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.torch_import import torch

Numbers = npt.NDArray[np.uint64]
_WORD = 8
_MULTIPLIER = np.uint64(0x9E3779B97F4A7C15)
_SHIFT = np.uint64(12)


class Checksums:
    """A checksum of each of some tensors: the sum of their 64-bit words, modulo 2**64, mixed.

    Sums of integers are the same in any order, so that host, device and number of threads make no difference. A tensor
    that differs in one word has another sum. What is on a device is read later.
    """

    __slots__ = ("_parts", "_places", "count")

    def __init__(self, tensors: Sequence[torch.Tensor]) -> None:
        """Takes dense tensors, of a DTensor the part here; those without values have the checksum 0."""
        self.count = len(tensors)
        self._places: list[list[int]] = []
        self._parts: list[npt.NDArray[np.int64] | DeferredTensor] = []
        host: dict[int, int] = {}
        devices: dict[torch.device, tuple[list[int], list[torch.Tensor]]] = {}
        for place, tensor in enumerate(tensors):
            values = local_part(tensor.detach())
            if values.is_meta or values.layout is not torch.strided or not values.numel() or is_freed(values):
                continue
            if values.is_cpu:
                host[place] = _host_sum(values)
            else:
                places, sums = devices.setdefault(values.device, ([], []))
                with quiet_computation(values.device.type):
                    places.append(place)
                    sums.append(_device_sum(values))
        if host:
            self._places.append(list(host))
            self._parts.append(np.array(list(host.values()), np.int64))
        for places, sums in devices.values():
            self._places.append(places)
            self._parts.append(DeferredTensor(torch.stack(sums)))

    def ready(self) -> bool:
        """Whether ``resolve`` need not wait for a device."""
        return all(isinstance(part, np.ndarray) or part.ready() for part in self._parts)

    def resolve(self) -> Numbers:
        """Waits for the devices; returns the sums, uint64 (n,)."""
        found = np.zeros(self.count, np.int64)
        for places, part in zip(self._places, self._parts, strict=True):
            found[places] = part if isinstance(part, np.ndarray) else part.resolve()
        return found.view(np.uint64)


def as_numbers(sums: Numbers) -> npt.NDArray[np.float64]:
    """Returns integers below 2**52 for sums, which a float64 holds exactly; equal sums have equal ones."""
    mixed = (sums ^ (sums >> np.uint64(31))) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    return ((mixed * _MULTIPLIER) >> _SHIFT).astype(np.float64)


def together(sums: Numbers) -> float:
    """Returns one number for all sums in their order."""
    places = np.arange(1, len(sums) + 1, dtype=np.uint64)
    mixed = (sums ^ (sums >> np.uint64(31)) ^ places) * _MULTIPLIER
    mixed ^= mixed >> np.uint64(29)
    return float(as_numbers(np.sum(mixed, keepdims=True, dtype=np.uint64))[0])


def _host_sum(values: torch.Tensor) -> int:
    """The sum of the words of a dense tensor on the host, and of its last bytes."""
    flat = values.reshape(-1)
    if flat.is_conj() or flat.is_neg():
        flat = flat.resolve_conj().resolve_neg()
    octets = flat.view(torch.uint8).numpy()
    whole = octets.size - octets.size % _WORD
    total = int(octets[:whole].view(np.int64).sum())
    if whole < octets.size:
        total += int.from_bytes(octets[whole:].tobytes(), "little")
    return _wrapped(total)


def _device_sum(values: torch.Tensor) -> torch.Tensor:
    """The same on a device, as a 0-d int64 tensor."""
    octets = values.reshape(-1).view(torch.uint8)
    whole = octets.numel() - octets.numel() % _WORD
    words = octets[:whole]
    if words.storage_offset() % _WORD:
        words = words.clone()
    total = words.view(torch.int64).sum()
    if whole < octets.numel():
        rest = octets[whole:].to(torch.int64)
        total = total + (rest << (8 * torch.arange(rest.numel(), device=rest.device))).sum()
    return total


def _wrapped(number: int) -> int:
    """As a signed 64-bit integer."""
    return (number + 2**63) % 2**64 - 2**63
