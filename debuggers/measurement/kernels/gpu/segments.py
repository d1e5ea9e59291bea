"""Memory that a kernel is to read."""

from dataclasses import dataclass

from debuggers.torch_import import torch

DTYPES = (torch.float32, torch.bfloat16, torch.float16, torch.float64)
"""What the kernel reads."""


@dataclass(frozen=True, slots=True)
class Segment:
    """Contiguous elements in the memory of a device, which its owner keeps alive until the kernel was started.

    Attributes:
        address: Where they begin, a multiple of their size.
        before: Where as many elements begin that are to be subtracted; 0 for none.
        length: Their number, at most 2**31.
        dtype: One of ``DTYPES``.
        factor: Where a float32 lies by which the elements are multiplied, as float32 or float64; 0 for none.
    """

    address: int
    before: int
    length: int
    dtype: torch.dtype
    factor: int = 0

    @property
    def kind(self) -> tuple[int, bool, bool]:
        """What one start of the kernel takes: a dtype, whether it subtracts, and whether it multiplies."""
        return DTYPES.index(self.dtype), self.before != 0, self.factor != 0
