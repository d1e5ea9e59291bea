"""One reader of tensors: which values it gives, in which memory, and what it refuses."""

import pytest
import torch
from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.tensors import is_sharded, local_part, plain_tensor


@pytest.mark.parametrize(
    ("tensor", "wanted"),
    [
        (torch.ones(2, requires_grad=True), [1, 1]),
        (torch.tensor([1 + 2j]).conj(), [1 - 2j]),
        (torch.tensor([1 + 2j]).conj().imag, [-2]),
        (torch.quantize_per_tensor(torch.tensor([0.5, 1.5]), 0.5, 0, torch.qint8), [0.5, 1.5]),
        (torch.tensor([0.5], dtype=torch.bfloat16), [0.5]),
    ],
    ids=["requires-grad", "conjugate", "negative", "quantised", "bfloat16"],
)
def test_the_values_are_read(tensor, wanted):
    values = plain_tensor("x", tensor)
    assert values.tolist() == wanted
    assert type(values) is torch.Tensor
    assert not (values.requires_grad or values.is_conj() or values.is_neg() or values.is_quantized)


def test_nothing_is_copied_that_lies_there():
    tensor = torch.ones(2, 3).T
    assert plain_tensor("x", tensor).data_ptr() == tensor.data_ptr()
    assert local_part(tensor) is tensor
    assert not is_sharded(tensor)


@pytest.mark.parametrize(
    ("tensor", "found"),
    [
        (torch.ones(2, device="meta"), "'w': got a meta tensor"),
        (torch.ones(2, dtype=torch.complex64, device="meta"), "'w': got a meta tensor"),
        (torch.eye(2).to_sparse(), "'w': got a torch.float32 tensor with layout torch.sparse_coo"),
        (torch.eye(2).to_sparse_csr(), "'w': got a torch.float32 tensor with layout torch.sparse_csr"),
        (
            torch.nested.nested_tensor([torch.ones(1), torch.ones(2)]),
            "'w': got a torch.float32 tensor with layout nested",
        ),
    ],
    ids=["meta", "complex-meta", "sparse", "compressed", "nested"],
)
def test_what_holds_no_plain_values_is_refused(tensor, found):
    with pytest.raises(ArtifactError, match=found):
        plain_tensor("'w'", tensor)
