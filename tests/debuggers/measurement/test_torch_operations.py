"""Torch operations measure on the tensors' device, whatever device a training has made its default one."""

import torch

from debuggers.measurement import torch_operations


def test_the_default_device_does_not_matter(device):
    group = [torch.randn(size, device=device) for size in (0, 1, 5000)]
    expected = torch_operations.measure(group)
    with torch.device("meta"):
        found = torch_operations.measure(group)
    assert found.device == group[0].device
    assert torch.equal(found.cpu(), expected.cpu())
