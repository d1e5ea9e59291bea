"""The datapoints that a training leaves out, and a sampler that does."""

from collections.abc import Iterable, Iterator, Sized

from debuggers.torch_import import torch


class ExcludedDatapoints:
    """Indices of datapoints that are left out from now on; used from one thread at a time."""

    def __init__(self) -> None:
        self._indices: set[int] = set()

    @property
    def indices(self) -> frozenset[int]:
        """Those that are left out now."""
        return frozenset(self._indices)

    def add(self, indices: Iterable[int]) -> None:
        """Leaves these out."""
        self._indices.update(indices)

    def remove(self, indices: Iterable[int]) -> None:
        """Takes these in again."""
        self._indices.difference_update(indices)

    def __contains__(self, index: object) -> bool:
        return index in self._indices


class RecoverySampler(torch.utils.data.Sampler[int]):
    """Yields what another sampler yields, without the datapoints that are left out at that moment.

    A loader that fetches ahead has asked for some indices already: what is excluded is gone after as many batches.
    """

    def __init__(self, sampler: Iterable[int], excluded: ExcludedDatapoints) -> None:
        """Wraps a sampler.

        Args:
            sampler: Such as ``torch.utils.data.RandomSampler(dataset)``; its items are indices, not batches.
            excluded: ``Recovery.excluded``.
        """
        self._sampler, self._excluded = sampler, excluded

    def __iter__(self) -> Iterator[int]:
        return (index for index in self._sampler if index not in self._excluded)

    def __len__(self) -> int:
        """As many as the other sampler has: what is left out is not known beforehand.

        Raises:
            TypeError: When the other sampler has no length.
        """
        if not isinstance(self._sampler, Sized):
            raise TypeError(f"{type(self._sampler).__name__} has no length")
        return len(self._sampler)
