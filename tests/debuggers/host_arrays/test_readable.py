"""What can be read of a tensor, and what is refused."""

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode
from torch_parts import freed_tensor
from tracker_adapters.errors import ArtifactError

from debuggers.host_arrays.readable import dense, is_freed, may_be_cloned, readable_tensor


@pytest.mark.parametrize(
    ("tensor", "reason"),
    [
        (torch.ones(2, device="meta"), "meta"),
        (torch.eye(2).to_sparse(), "layout"),
        (FakeTensorMode().from_tensor(torch.ones(2)), "FakeTensor"),
        (freed_tensor(), "freed"),
    ],
)
def test_tensors_without_plain_values_are_refused(tensor, reason):
    with pytest.raises(ArtifactError, match=reason):
        readable_tensor(tensor)


def test_tensors_inside_a_transformation_are_refused():
    with pytest.raises(ArtifactError, match="transformation"):
        torch.vmap(readable_tensor)(torch.ones(2))


def test_only_memory_that_is_there_is_cloned():
    assert (is_freed(freed_tensor()), may_be_cloned(freed_tensor())) == (True, False)
    assert not is_freed(torch.ones(0))
    assert not is_freed(torch.eye(2).to_sparse())
    assert may_be_cloned(torch.ones(2))


def test_a_sparse_tensor_becomes_dense_with_its_gradient():
    weights = torch.eye(2, requires_grad=True)
    torch.autograd.backward(dense(weights.to_sparse()).sum())
    assert weights.grad.tolist() == [[1, 0], [0, 1]]
    assert dense(weights) is weights
