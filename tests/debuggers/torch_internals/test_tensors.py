"""What is expected of torch's tensors and storages; needs nothing but torch and the module that it is about."""

import gc

import pytest
import torch

from debuggers.torch_internals import tensors


def test_changes_in_place_are_counted_for_all_views():
    x = torch.zeros(4)
    before = tensors.version_of(x)
    x.add_(1)
    x[1:].mul_(2)
    x.detach().zero_()

    assert tensors.version_of(x) == before + 3
    assert tensors.version_of(x[2:]) == before + 3
    assert tensors.version_of(x.clone()) != before + 3


def test_an_optimizer_counts_as_a_change_and_reading_does_not():
    weight = torch.nn.Parameter(torch.ones(2))
    optimizer = torch.optim.SGD([weight], lr=0.1)
    weight.sum().backward()
    before = tensors.version_of(weight)
    weight.sum()
    assert tensors.version_of(weight) == before
    optimizer.step()
    assert tensors.version_of(weight) > before


def test_what_was_made_in_inference_mode_has_no_version():
    with torch.inference_mode():
        x = torch.zeros(2)
    assert x.is_inference()
    with pytest.raises(RuntimeError):
        tensors.version_of(x)


def test_tensors_on_one_storage_have_one_address_which_is_not_given_away_while_it_is_referred_to():
    x = torch.zeros(64)
    address = tensors.address_of(x.untyped_storage())
    assert tensors.address_of(x[3:].view(-1).untyped_storage()) == address
    assert tensors.address_of(x.clone().untyped_storage()) != address

    reference = tensors.StorageWeakRef(x.untyped_storage())
    assert not reference.expired()
    del x
    gc.collect()
    assert reference.expired()
    others = [torch.zeros(64) for _ in range(100)]
    assert address not in {tensors.address_of(other.untyped_storage()) for other in others}


def test_a_sparse_tensor_shows_what_lies_in_it_also_before_it_is_coalesced():
    places, values = torch.tensor([[1, 1, 0]]), torch.tensor([1.0, 2.0, 3.0])
    x = torch.sparse_coo_tensor(places, values, (2,))

    assert not x.is_coalesced()
    assert torch.equal(tensors.sparse_values(x), values)
    assert torch.equal(tensors.sparse_indices(x), places)
    tensors.sparse_values(x).zero_()
    assert not x.to_dense().any()
