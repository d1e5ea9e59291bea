"""Metadata of tensors and their memory, without reading a value (torch 2.7 to 2.15)."""

from collections.abc import Callable
from operator import attrgetter, methodcaller

from torch.multiprocessing.reductions import StorageWeakRef

from debuggers.torch_import import torch

__all__ = ["StorageWeakRef", "address_of", "sparse_indices", "sparse_values", "version_of"]

version_of: Callable[[torch.Tensor], int] = attrgetter("_version")
"""Returns how often a tensor, or another view of its memory, was changed in place.

Kernels that write on the side do not count, such as those of running statistics. Raises RuntimeError for tensors made
in inference mode. Waits for no device.
"""
address_of: Callable[[torch.UntypedStorage], int] = attrgetter("_cdata")
"""Returns what is the same for all objects that stand for one storage, while it or a ``StorageWeakRef`` to it lives."""
sparse_values: Callable[[torch.Tensor], torch.Tensor] = methodcaller("_values")
"""Returns the values of a sparse COO tensor as they lie there: ``values`` is public, and raises where some stand for
one element. Shares memory."""
sparse_indices: Callable[[torch.Tensor], torch.Tensor] = methodcaller("_indices")
"""Returns the places of these values in the same way, of shape (sparse dimensions, number of values)."""
