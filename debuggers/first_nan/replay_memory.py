"""What a replay did to memory, by storage: what it allocated, what it wrote to, and what it never wrote."""

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


class UntouchedMemory:
    """Keeps a copy of each tensor's memory before the first write to it, unless the replay made the tensor itself.

    Of each generator that is handed to an operator, keeps the state before its first draw.
    """

    def __init__(self) -> None:
        self._made: StorageRecords[bool] = StorageRecords()
        self._kept: StorageRecords[bool] = StorageRecords()
        self._copies: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] = []
        self._states: dict[torch.Generator, torch.Tensor] = {}

    def made(self, tensor: torch.Tensor) -> None:
        """Notes that an operator of the replay returned this tensor."""
        if tensor.layout == torch.strided and tensor not in self._kept:
            self._made.put(tensor, True)

    def keep(self, tensor: torch.Tensor) -> None:
        """Notes that this tensor is about to be written to."""
        if tensor.layout != torch.strided or tensor in self._made or tensor in self._kept:
            return
        self._kept.put(tensor, True)
        storage = tensor.untyped_storage()
        self._copies.append((storage, storage.clone()))  # type: ignore[no-untyped-call]

    def keep_generator(self, generator: torch.Generator) -> None:
        """Notes that this generator is about to be drawn from."""
        if generator not in self._states:
            self._states[generator] = generator.get_state()

    def restore(self) -> None:
        """Puts back what was there; tensors and their versions stay as they are."""
        while self._states:
            generator, state = self._states.popitem()
            generator.set_state(state)
        while self._copies:
            storage, copy = self._copies.pop()
            storage.copy_(copy)


class UnwrittenMemory:
    """Which elements of new memory were written, until all of them were."""

    def __init__(self) -> None:
        self._written: StorageRecords[torch.Tensor] = StorageRecords()

    def allocated(self, tensor: torch.Tensor) -> None:
        """Notes that an operator returned this tensor without writing to it."""
        size = tensor.element_size()
        elements = tensor.untyped_storage().nbytes() // size
        self._written.put(tensor, torch.zeros(elements, dtype=torch.bool, device=tensor.device))

    def wrote(self, tensor: torch.Tensor) -> None:
        """Notes that every element of this tensor was overwritten; it may be a view of a part of the memory."""
        written = self._written.get(tensor)
        if written is None:
            return
        if written.numel() != tensor.untyped_storage().nbytes() // tensor.element_size():
            self._written.forget(tensor)  # elements of another size: unknown from here on
            return
        written.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(True)
        if bool(written.all()):
            self._written.forget(tensor)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        """Whether a part of the tensor's memory was never written to."""
        return tensor in self._written
