"""Knows which memory of a replay was allocated and never written to, as that of ``torch.empty``."""

from __future__ import annotations

from debuggers.first_nan.storage_records import StorageRecords
from debuggers.torch_import import torch


class UnwrittenMemory:
    """Which elements of new memory were written, until all of them were."""

    def __init__(self) -> None:
        self._written: StorageRecords[torch.Tensor] = StorageRecords()

    def allocated(self, tensor: torch.Tensor) -> None:
        """Says that an operator returned this tensor without writing to it."""
        size = tensor.element_size()
        elements = tensor.untyped_storage().nbytes() // size
        self._written.put(tensor, torch.zeros(elements, dtype=torch.bool, device=tensor.device))

    def wrote(self, tensor: torch.Tensor) -> None:
        """Says that every element of this tensor was overwritten; it may be a view of a part of the memory."""
        written = self._written.get(tensor)
        if written is None:
            return
        if written.numel() != tensor.untyped_storage().nbytes() // tensor.element_size():
            self._written.forget(tensor)  # elements of another size: nobody can tell any more
            return
        written.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(True)
        if bool(written.all()):
            self._written.forget(tensor)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        """Whether a part of the tensor's memory was never written to."""
        return tensor in self._written
