"""Eigen-CAM is the projection on the first singular vector, computed apart in float64."""

import numpy as np
import pytest
import torch
from digit_models import digit_network, digits
from torch import nn
from torch_parts import Refuses

from debuggers.eigencam import EigenCAMDebugger


def formula(activations):
    """The projection on the first right singular vector, with the sign whose positive part is larger, rectified."""
    maps = []
    for activation in activations.double().numpy():
        matrix = activation.reshape(len(activation), -1).T
        projection = matrix @ np.linalg.svd(matrix, full_matrices=False)[2][0]
        if (np.minimum(projection, 0) ** 2).sum() > (np.maximum(projection, 0) ** 2).sum():
            projection = -projection
        maps.append(np.maximum(projection, 0).reshape(activation.shape[1:]))
    return np.stack(maps)


def eigencam(activations):
    return EigenCAMDebugger("")({"inputs": activations}, nn.Identity())["gradcam"]


@pytest.mark.parametrize("layer", ["backbone.conv1", "backbone.act1", "backbone.conv2"])
def test_the_map_is_that_of_a_singular_value_decomposition(layer):
    model, (images, _) = digit_network().eval(), digits(6)

    result = EigenCAMDebugger(layer)({"inputs": images}, model)

    inner = dict(model.backbone.named_children())
    activations = images
    for name, module in inner.items():
        activations = module(activations.clone())
        if name == layer.removeprefix("backbone."):
            break
    expected = formula(activations.detach())
    assert np.abs(result["gradcam"].numpy() - expected).max() <= 1e-5 * expected.max()
    assert (result["target_class"], result["classes"]) == (None, None)
    assert result["gradcam_stats"]["shape"] == [6, *expected.shape[1:]]


@pytest.mark.parametrize("shape", [(3, 40, 4, 5), (3, 4, 8, 8), (2, 1, 3, 3), (2, 5, 1, 1), (2, 6, 2, 3, 4)])
def test_more_channels_than_positions_and_fewer(shape):
    activations = torch.randn(shape, generator=torch.Generator().manual_seed(1))

    expected = formula(activations)

    np.testing.assert_allclose(eigencam(activations).numpy(), expected, atol=1e-4 * expected.max())


def test_activations_that_are_nowhere_negative_keep_their_whole_map():
    activations = torch.rand(2, 5, 6, 6)

    assert (eigencam(activations) > 0).all()
    torch.testing.assert_close(eigencam(-activations), eigencam(activations))


def test_nearly_equal_components_are_told_apart():
    generator = torch.Generator().manual_seed(2)
    left = torch.linalg.qr(torch.randn(6, 6, generator=generator)).Q
    right = torch.linalg.qr(torch.randn(9, 9, generator=generator)).Q[:6]
    values = torch.tensor([1.0, 0.999, 0.5, 0.3, 0.2, 0.1])
    activations = ((left * values) @ right).reshape(1, 6, 3, 3)

    np.testing.assert_allclose(eigencam(activations).numpy(), formula(activations), atol=1e-3)


def test_zeros_stay_zeros_and_nan_stays_in_its_sample():
    activations = torch.rand(3, 4, 5, 5)
    activations[0] = 0
    activations[1, 2, 3, 3] = float("nan")

    maps = eigencam(activations)

    assert maps[0].count_nonzero() == 0
    assert maps[1].isnan().all()
    assert (maps[2] > 0).all()


def test_the_component_is_found_without_waiting_for_a_device():
    aten = torch.ops.aten
    with Refuses(aten._local_scalar_dense, aten._linalg_eigh, aten._linalg_svd):
        maps, _ = EigenCAMDebugger("").maps(torch.rand(2, 3, 4, 4), None, lambda output: output)
    assert maps.shape == (2, 4, 4)


def test_it_needs_no_scores():
    model = nn.Sequential(nn.Conv2d(1, 3, 3), nn.Flatten(0))

    assert EigenCAMDebugger("0")({"inputs": digits(2)[0]}, model)["gradcam"].shape == (2, 6, 6)
