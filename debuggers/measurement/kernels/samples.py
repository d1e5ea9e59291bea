"""Takes and describes samples in host memory, of several tensors in one call."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tracker_adapters.native.extension import kernels

from debuggers.torch_import import torch


def is_usable() -> bool:
    """Whether the compiled code can be used: not where it was built before it could do this."""
    return hasattr(kernels(), "gather")


def gather(
    addresses: Sequence[int],
    elements: Sequence[int],
    doubles: Sequence[bool],
    shares: npt.NDArray[np.float64],
) -> npt.NDArray[np.float64]:
    """Returns a few elements of each of several tensors, one tensor after the other; needs ``is_usable``.

    Args:
        addresses: Where contiguous float32 or float64 begin.
        elements: How many each has.
        doubles: Which are float64.
        shares: Places, as shares of the number of elements, from 0 to below 1; of a tensor that has no more elements
            than these, all are taken.
    """
    table = np.array([addresses, doubles, elements], np.int64).T
    return np.frombuffer(kernels().gather(np.ascontiguousarray(table), shares))  # type: ignore[union-attr]


def describe(samples: Sequence[torch.Tensor]) -> npt.NDArray[np.float64]:
    """Returns for each sample the share of zeros, mean, standard deviation, and the mean of its columns' deviations.

    With the bits that NumPy finds of the elements as float64: (samples, 4). NaN where an element is not finite. Needs
    the compiled code; see ``is_usable``.

    Args:
        samples: Contiguous float32 or float64 on the host, of two dimensions and at least one element.
    """
    table = [(one.data_ptr(), one.dtype is torch.float64, *one.shape) for one in samples]
    found = kernels().samples(np.array(table, np.int64))  # type: ignore[union-attr]
    return np.frombuffer(found).reshape(-1, 4)
