"""Describes samples in host memory: some rows of each of several tensors, in one call."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
from tracker_adapters.native.extension import kernels

from debuggers.torch_import import torch


def is_usable() -> bool:
    """Whether the compiled code can be used: not where it was built before it could describe samples."""
    return hasattr(kernels(), "samples")


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
