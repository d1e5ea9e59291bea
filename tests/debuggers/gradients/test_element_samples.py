"""The elements that stand for a tensor are the same, taken one tensor at a time or of all at once."""

import numpy as np
import pytest
import torch
from tracker_adapters.native.extension import kernels, why_not

from debuggers.gradients.element_samples import sample_all, sample_elements

pytestmark = pytest.mark.skipif(kernels() is None, reason=why_not())


def some(*shape, dtype=torch.float32):
    return torch.randn(shape, generator=torch.Generator().manual_seed(len(shape)), dtype=torch.float64).to(dtype)


def test_all_at_once_gives_what_each_gives():
    shapes = [(1,), (63,), (64,), (65,), (7, 11), (300, 400), (2, 3, 5, 7), ()]
    tensors = [some(*shape, dtype=dtype) for shape in shapes for dtype in (torch.float32, torch.float64)]
    tensors += [torch.nn.Parameter(some(40, 30)), some(100)[3:93]]
    found = sample_all(tensors)
    expected = torch.cat([sample_elements(tensor).double() for tensor in tensors])
    np.testing.assert_array_equal(found, expected.numpy(), strict=True)


@pytest.mark.parametrize(
    "tensor",
    [
        some(30, 40).T,
        some(2, 3, 8, 8).to(memory_format=torch.channels_last),
        some(100, dtype=torch.bfloat16),
        torch.zeros(0),
        torch.zeros(9, device="meta"),
        torch.zeros(9, 9).to_sparse(),
        torch._neg_view(some(100)),
        some(100).as_subclass(type("Own", (torch.Tensor,), {})),
    ],
    ids=["transposed", "channels last", "bfloat16", "empty", "meta", "sparse", "negative", "subclass"],
)
def test_what_cannot_be_read_as_it_is_is_left_to_torch(tensor):
    assert sample_all([some(100), tensor]) is None
    assert sample_all([]) is None


def test_freed_memory_is_not_read():
    freed = some(1000)
    freed.untyped_storage().resize_(0)
    assert sample_all([some(100), freed]) is None
    assert sample_elements(freed) is None
