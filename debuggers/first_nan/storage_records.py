"""Remembers things about memory for as long as it lives, whichever tensors look at it."""

from __future__ import annotations

from typing import Generic, TypeVar

from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import StorageWeakRef, address_of

Value = TypeVar("Value")


class StorageRecords(Generic[Value]):
    """Values by the memory of tensors. The memory is not kept alive, and its place is not mistaken for another's."""

    def __init__(self) -> None:
        # The weak reference keeps the storage's address from being given away again.
        self._records: dict[int, tuple[StorageWeakRef, Value]] = {}

    def put(self, tensor: torch.Tensor, value: Value) -> None:
        """Remembers a value, in place of the one before."""
        storage = tensor.untyped_storage()
        self._records[address_of(storage)] = (StorageWeakRef(storage), value)  # type: ignore[no-untyped-call]

    def get(self, tensor: torch.Tensor) -> Value | None:
        """Returns what was remembered, or None."""
        found = self._records.get(address_of(tensor.untyped_storage())) if self._records else None
        return None if found is None else found[1]

    def forget(self, tensor: torch.Tensor) -> None:
        """Forgets what was remembered, if anything."""
        self._records.pop(address_of(tensor.untyped_storage()), None)

    def alive(self) -> list[Value]:
        """Returns what is remembered of memory that is still in use."""
        return [value for reference, value in self._records.values() if not reference.expired()]  # type: ignore[no-untyped-call]

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return address_of(tensor.untyped_storage()) in self._records
