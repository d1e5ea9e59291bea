"""Puts memory back that a replay wrote to although it was there before the replay."""

from __future__ import annotations

from debuggers.first_nan.storage_records import StorageRecords
from debuggers.torch_import import torch


class UntouchedMemory:
    """Keeps a copy of each tensor's memory before the first write to it, unless the replay made the tensor itself."""

    def __init__(self) -> None:
        self._made: StorageRecords[bool] = StorageRecords()
        self._kept: StorageRecords[bool] = StorageRecords()
        self._copies: list[tuple[torch.UntypedStorage, torch.UntypedStorage]] = []

    def made(self, tensor: torch.Tensor) -> None:
        """Says that an operator of the replay returned this tensor."""
        if tensor.layout == torch.strided and tensor not in self._kept:
            self._made.put(tensor, True)

    def keep(self, tensor: torch.Tensor) -> None:
        """Says that this tensor is about to be written to."""
        if tensor.layout != torch.strided or tensor in self._made or tensor in self._kept:
            return
        self._kept.put(tensor, True)
        storage = tensor.untyped_storage()
        self._copies.append((storage, storage.clone()))  # type: ignore[no-untyped-call]

    def restore(self) -> None:
        """Puts back what was there; tensors and their versions stay as they are."""
        while self._copies:
            storage, copy = self._copies.pop()
            storage.copy_(copy)
