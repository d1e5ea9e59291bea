"""Grad-CAM is what captum computes, in networks of both kinds."""

import copy
from functools import partial

import numpy as np
import pytest
import torch
from torch import nn

from debuggers.gradcam import GradCAMDebugger


class Residual(nn.Module):
    def __init__(self, channels, stride, inplace):
        super().__init__()
        self.conv1 = nn.Conv2d(channels, channels, 3, stride, padding=1, bias=False)
        self.norm1 = nn.BatchNorm2d(channels)
        self.conv2 = nn.Conv2d(channels, channels, 3, padding=1, bias=False)
        self.norm2 = nn.BatchNorm2d(channels)
        self.shortcut = nn.AvgPool2d(stride) if stride > 1 else nn.Identity()
        self.relu = nn.ReLU(inplace)

    def forward(self, images):
        inner = self.norm2(self.conv2(self.relu(self.norm1(self.conv1(images)))))
        inner += self.shortcut(images)
        return self.relu(inner)


class ConvolutionalNetwork(nn.Module):
    """With ``inplace`` most activations overwrite the output of the layer before them."""

    def __init__(self, inplace):
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, 8, 3, 2, padding=1), nn.BatchNorm2d(8), nn.ReLU(inplace))
        self.blocks = nn.Sequential(Residual(8, 1, inplace), Residual(8, 2, inplace))
        self.last = nn.Sequential(nn.Conv2d(8, 16, 3, padding=1), nn.ReLU(inplace))
        self.head = nn.Linear(16, 7)

    def forward(self, images):
        return self.head(self.last(self.blocks(self.stem(images))).mean((2, 3)))


class Block(nn.Module):
    """``grid`` sees the patches as a map, so that the oracle can look at it."""

    def __init__(self, width):
        super().__init__()
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.attention = nn.MultiheadAttention(width, 4, batch_first=True)
        self.mlp = nn.Sequential(nn.Linear(width, 2 * width), nn.GELU(), nn.Linear(2 * width, width))
        self.grid = nn.Identity()

    def forward(self, tokens):
        normed = self.norm1(tokens)
        tokens = tokens + self.attention(normed, normed, normed, need_weights=False)[0]
        tokens = tokens + self.mlp(self.norm2(tokens))
        grid = self.grid(tokens[:, 1:].transpose(1, 2).unflatten(2, (4, 4)))
        return torch.cat([tokens[:, :1], grid.flatten(2).transpose(1, 2)], dim=1)


class VisionTransformer(nn.Module):
    def __init__(self, width=32):
        super().__init__()
        self.patches = nn.Conv2d(3, width, 16, 16)
        self.class_token = nn.Parameter(torch.randn(1, 1, width))
        self.places = nn.Parameter(torch.randn(1, 17, width))
        self.blocks = nn.Sequential(*(Block(width) for _ in range(4)))
        self.head = nn.Linear(width, 7)

    def forward(self, images):
        patches = self.patches(images).flatten(2).transpose(1, 2)
        tokens = torch.cat([self.class_token.expand(len(images), -1, -1), patches], dim=1) + self.places
        return self.head(self.blocks(tokens)[:, 0])


def convolutional(inplace):
    torch.manual_seed(0)
    network = ConvolutionalNetwork(inplace)
    network(torch.randn(8, 3, 64, 64))  # running statistics that are not those of the start
    return network.eval()


def transformer():
    torch.manual_seed(0)
    return VisionTransformer().eval()


@pytest.fixture(scope="module")
def photographs():
    """Two photographs as (2, 3, 64, 64), standardised."""
    from sklearn.datasets import load_sample_images  # takes seconds

    images = torch.tensor(np.stack(load_sample_images().images)).movedim(-1, 1).float()
    images = nn.functional.adaptive_avg_pool2d(images, 64)
    return (images - images.mean((2, 3), keepdim=True)) / images.std((2, 3), keepdim=True)


CONVOLUTIONAL_LAYERS = ["stem.0", "stem.1", "stem.2", "blocks.0", "blocks.1.norm2", "last.0"]
TRANSFORMER_LAYERS = ["blocks.0", "blocks.1", "blocks.2"]


CASES = [
    # What is written in place would spoil the oracle; the weights are the same.
    *(
        (partial(convolutional, inplace=True), partial(convolutional, inplace=False), layer, layer)
        for layer in CONVOLUTIONAL_LAYERS
    ),
    *((transformer, transformer, layer, f"{layer}.grid") for layer in TRANSFORMER_LAYERS),
    (transformer, transformer, "patches", "patches"),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{getattr(case[1], 'func', case[1]).__name__}-{case[2]}")
@pytest.mark.parametrize("target_class", [pytest.param(None, marks=pytest.mark.slow), [5, 0]])
def test_the_map_is_that_of_captum(case, target_class, photographs):
    captum = pytest.importorskip("captum.attr")
    make_network, make_twin, layer, twin_layer = case
    network, twin = make_network(), make_twin()

    result = GradCAMDebugger(layer, target_class)({"inputs": photographs}, network)

    oracle = captum.LayerGradCam(twin, twin.get_submodule(twin_layer))
    expected = oracle.attribute(photographs, result["classes"], relu_attributions=True).squeeze(1).detach()
    assert expected.shape == result["gradcam"].shape
    assert expected.max() > 0
    assert (result["gradcam"] - expected).abs().max() <= 1e-5 * expected.max()


def test_the_keys_and_statistics(photographs):
    network = convolutional(inplace=True)

    result = GradCAMDebugger("blocks.1", target_class=4)({"inputs": photographs, "outputs": None}, network)

    assert list(result) == ["gradcam", "target_layer", "target_class", "classes", "gradcam_stats"]
    assert (result["target_layer"], result["target_class"], result["classes"].tolist()) == ("blocks.1", 4, [4, 4])
    cam = result["gradcam"]
    assert (cam.shape, cam.requires_grad, bool((cam >= 0).all())) == ((2, 16, 16), False, True)
    assert result["gradcam_stats"] == {"mean": cam.mean().item(), "std": cam.std().item(), "shape": [2, 16, 16]}


def test_without_a_class_each_sample_has_that_of_its_highest_score(photographs):
    network = convolutional(inplace=True)

    result = GradCAMDebugger("last")({"inputs": photographs}, network)

    assert result["classes"].tolist() == network(photographs).argmax(1).tolist()
    assert result["target_class"] is None


@pytest.mark.parametrize("target_class", [[1, 6], (1, 6), torch.tensor([1, 6])])
def test_each_sample_may_have_its_own_class(photographs, target_class):
    network = convolutional(inplace=True)

    both = GradCAMDebugger("last", target_class)({"inputs": photographs}, network)

    assert (both["target_class"], both["classes"].tolist()) == ([1, 6], [1, 6])
    for row, label in enumerate((1, 6)):
        alone = GradCAMDebugger("last", label)({"inputs": photographs[row : row + 1]}, network)
        torch.testing.assert_close(both["gradcam"][row], alone["gradcam"][0])


def test_positions_that_the_scores_do_not_read_have_a_map_of_zeros(photographs):
    result = GradCAMDebugger("blocks.3")({"inputs": photographs}, transformer())

    assert result["gradcam"].count_nonzero() == 0


def test_scores_of_every_position_are_added_up(photographs):
    network = nn.Sequential(nn.Conv2d(3, 4, 3, padding=1), nn.ReLU(), nn.Conv2d(4, 7, 1))
    summed = nn.Sequential(copy.deepcopy(network), nn.Flatten(2), nn.AvgPool1d(64 * 64), nn.Flatten())

    dense = GradCAMDebugger("1", 2)({"inputs": photographs}, network)["gradcam"]

    pooled = GradCAMDebugger("0.1", 2)({"inputs": photographs}, summed)["gradcam"]
    torch.testing.assert_close(dense, pooled * 64 * 64)


@pytest.mark.parametrize("dtype", [torch.float64, torch.bfloat16, torch.float16])
def test_half_precision_is_widened_and_double_kept(photographs, dtype):
    network = convolutional(inplace=True)
    expected = GradCAMDebugger("blocks.1", 2)({"inputs": photographs}, network)["gradcam"]

    found = GradCAMDebugger("blocks.1", 2)({"inputs": photographs.to(dtype)}, network.to(dtype))["gradcam"]

    assert found.dtype == (torch.float64 if dtype == torch.float64 else torch.float32)
    assert (found - expected).abs().max() < 0.1 * expected.max()
