"""Grad-CAM++ is the paper's formula, computed apart in float64."""

import numpy as np
import pytest
import torch
from digit_models import digit_network, digits

from debuggers.gradcam_plus_plus import GradCAMPlusPlusDebugger


def activations_and_gradients(model, images, label):
    """Of ``backbone.act2``, in float64."""
    model, images = model.double(), images.double()
    activations = model.backbone(images).detach().requires_grad_()
    score = model.head(model.dropout(activations.flatten(1)))[:, label].sum()
    return activations.detach().numpy(), torch.autograd.grad(score, activations)[0].numpy()


def formula(activations, gradients):
    """Equations 5, 10 and 19 of Chattopadhay et al. 2018, position by position."""
    maps = np.zeros((len(activations), *activations.shape[2:]))
    for sample, channel in np.ndindex(activations.shape[:2]):
        total, weight = activations[sample, channel].sum(), 0.0
        for gradient in gradients[sample, channel].flat:
            denominator = 2 * gradient**2 + total * gradient**3
            weight += (gradient**2 / denominator if denominator else 0.0) * max(gradient, 0.0)
        maps[sample] += weight * activations[sample, channel]
    return np.maximum(maps, 0)


@pytest.mark.parametrize("label", [0, 7])
def test_the_map_is_that_of_the_formula(label):
    model, (images, _) = digit_network().eval(), digits(5)

    result = GradCAMPlusPlusDebugger("backbone.act2", label)({"inputs": images}, model)

    expected = formula(*activations_and_gradients(model, images, label))
    assert list(result) == ["gradcam", "target_layer", "target_class", "classes", "gradcam_stats"]
    assert result["gradcam"].shape == (5, 4, 4)
    assert np.abs(result["gradcam"].numpy() - expected).max() <= 1e-5 * expected.max()


def test_tiny_gradients_do_not_underflow():
    model, (images, _) = digit_network().eval(), digits(2)
    plain = GradCAMPlusPlusDebugger("backbone.act2", 1)({"inputs": images}, model)["gradcam"]

    # The square of such a gradient is zero in float32.
    tiny = GradCAMPlusPlusDebugger("backbone.act2", 1, logits=lambda scores: scores * 1e-30)
    found = tiny({"inputs": images}, model)["gradcam"]

    assert plain.max() > 0
    assert found.max() > 0


def test_weights_of_zero_gradients_and_zero_denominators_are_zero():
    activations = torch.tensor([[[[1.0, 1.0]], [[3.0, 1.0]]]])
    gradients = torch.tensor([[[[0.0, 0.0]], [[-0.5, 1.0]]]])

    weights = GradCAMPlusPlusDebugger("any").weights(activations, gradients)

    assert weights.flatten().tolist() == pytest.approx([0.0, 1 / 6])
