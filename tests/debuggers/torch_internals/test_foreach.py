"""What is expected of torch's operations on many tensors; needs nothing but torch and the module that it is about."""

import math

import pytest
import torch

from debuggers.torch_internals import foreach


def _tensors():
    return [torch.arange(4.0), torch.full((2, 2), -3.0)]


def test_norms_can_be_formed_in_a_wider_dtype():
    huge = [torch.full((4,), 1e30), torch.ones(2)]

    norms = foreach.norm(huge, 2, dtype=torch.float64)

    assert [(norm.dtype, norm.dim()) for norm in norms] == [(torch.float64, 0)] * 2
    assert norms[0].item() == pytest.approx(2e30, rel=1e-6)
    assert foreach.norm([torch.tensor([3.0, 4.0])])[0].item() == 5
    assert foreach.norm([torch.tensor([3.0, -4.0])], math.inf)[0].item() == 4
    halves = foreach.norm([torch.full((4,), 6e4, dtype=torch.float16)], 2, dtype=torch.float32)
    assert halves[0].item() == pytest.approx(2 * float(torch.tensor(6e4).half()))


def test_a_norm_of_what_is_not_finite_is_not_finite():
    norms = foreach.norm([torch.tensor([1.0, math.nan]), torch.tensor([1.0, math.inf]), torch.ones(1)])
    assert [math.isfinite(norm.item()) for norm in norms] == [False, False, True]


def test_products_take_a_tensor_or_a_number_for_each():
    made = foreach.mul(_tensors(), torch.tensor(2.0))
    assert torch.equal(made[0], torch.arange(4.0) * 2)

    changed = _tensors()
    foreach.mul_(changed, [2.0, 0.5])
    assert torch.equal(changed[0], torch.arange(4.0) * 2)
    assert torch.equal(changed[1], torch.full((2, 2), -1.5))
    foreach.mul_(changed, torch.tensor(0.0))
    assert not changed[1].any()


def test_differences_signs_and_copies_are_made_in_place():
    changed = _tensors()
    foreach.sub_(changed, [torch.ones(4), torch.ones(2, 2)])
    foreach.neg_(changed)
    assert torch.equal(changed[0], 1 - torch.arange(4.0))
    foreach.copy_(changed, _tensors())
    assert torch.equal(changed[1], torch.full((2, 2), -3.0))


def test_groups_come_by_device_and_dtype_with_the_places_of_their_tensors():
    mixed = [torch.ones(1), torch.ones(2).double(), torch.ones(3)]

    groups = foreach.group_by_device_and_dtype([mixed], with_indices=True)

    assert {key: indices for key, (_, indices) in groups.items()} == {
        (torch.device("cpu"), torch.float32): [0, 2],
        (torch.device("cpu"), torch.float64): [1],
    }
    assert groups[torch.device("cpu"), torch.float32][0][0][1] is mixed[2]


def test_it_is_known_whether_clipping_takes_these_operations():
    class Own(torch.Tensor):
        pass

    plain, own = torch.ones(2), torch.ones(2).as_subclass(Own)
    for device in map(torch.device, ("cpu", "cuda")):
        assert foreach.is_supported([plain, plain.double()], device)
        assert not foreach.is_supported([plain, own], device)
    assert not foreach.is_supported([plain], torch.device("meta"))


def test_norms_in_the_order_of_the_groups_are_those_of_clipping():
    torch.manual_seed(0)
    weights = [torch.nn.Parameter(torch.zeros(7 + place, dtype=torch.float32)) for place in range(9)]
    weights[4:4] = [torch.nn.Parameter(torch.zeros(5, dtype=torch.float64))]
    for weight in weights:
        weight.grad = torch.randn_like(weight)
    gradients = [weight.grad for weight in weights]

    norms = []
    for (device, _), (_, places) in foreach.group_by_device_and_dtype([gradients], with_indices=True).items():
        members = [gradients[place] for place in places]
        if foreach.is_supported(members, device):
            norms.extend(foreach.norm(members, 2.0))
        else:
            norms.extend(torch.linalg.vector_norm(member, 2.0) for member in members)
    total = torch.linalg.vector_norm(torch.stack([norm.to(torch.float32) for norm in norms]), 2.0)

    expected = torch.nn.utils.clip_grad_norm_(weights, math.inf)
    assert float(total) == pytest.approx(float(expected), rel=1e-6)
