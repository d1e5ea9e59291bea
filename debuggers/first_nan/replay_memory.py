"""What a replay did to memory, by storage: what it allocated, wrote to, and left unwritten."""

from typing import Generic, TypeVar

from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import StorageWeakRef, address_of

Value = TypeVar("Value")


class StorageRecords(Generic[Value]):
    """Values by the storages of tensors. They keep no memory alive, and no reused address is mistaken."""

    def __init__(self) -> None:
        # The weak reference prevents the reuse of the storage's address.
        self._records: dict[int, tuple[StorageWeakRef, Value]] = {}

    def put(self, tensor: torch.Tensor, value: Value) -> None:
        """Sets the value of the tensor's storage."""
        storage = tensor.untyped_storage()
        self._records[address_of(storage)] = (StorageWeakRef(storage), value)  # type: ignore[no-untyped-call]

    def get(self, tensor: torch.Tensor) -> Value | None:
        """Returns the value, or None."""
        found = self._records.get(address_of(tensor.untyped_storage())) if self._records else None
        return None if found is None else found[1]

    def forget(self, tensor: torch.Tensor) -> None:
        """Removes the value, if any."""
        self._records.pop(address_of(tensor.untyped_storage()), None)

    def alive(self) -> list[Value]:
        """Returns the values of storages that are still in use."""
        return [value for reference, value in self._records.values() if not reference.expired()]  # type: ignore[no-untyped-call]

    def __contains__(self, tensor: torch.Tensor) -> bool:
        return address_of(tensor.untyped_storage()) in self._records


class UntouchedMemory:
    """Keeps a copy of each tensor's memory before the first write, unless the replay created the tensor.

    For each generator that is passed to an operator, it keeps the state before the first draw.
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
        """Restores memory and generators; the versions of tensors stay."""
        while self._states:
            generator, state = self._states.popitem()
            generator.set_state(state)
        while self._copies:
            storage, copy = self._copies.pop()
            storage.copy_(copy)


class UnwrittenMemory:
    """Which elements of new memory were written, until all were."""

    def __init__(self) -> None:
        self._written: StorageRecords[torch.Tensor] = StorageRecords()

    def allocated(self, tensor: torch.Tensor) -> None:
        """Notes that an operator returned this tensor without writing to it."""
        size = tensor.element_size()
        elements = tensor.untyped_storage().nbytes() // size
        self._written.put(tensor, torch.zeros(elements, dtype=torch.bool, device=tensor.device))

    def wrote(self, tensor: torch.Tensor) -> None:
        """Notes that all elements of this tensor, which may be a view, were overwritten."""
        written = self._written.get(tensor)
        if written is None:
            return
        if written.numel() != tensor.untyped_storage().nbytes() // tensor.element_size():
            self._written.forget(tensor)  # a view with elements of another size: unknown from now on
            return
        written.as_strided(tensor.shape, tensor.stride(), tensor.storage_offset()).fill_(True)
        if bool(written.all()):
            self._written.forget(tensor)

    def __contains__(self, tensor: torch.Tensor) -> bool:
        """Whether a part of the tensor's memory was never written."""
        return tensor in self._written
