"""Channels come first or last: types and the image's aspect decide which, and an ambiguous output is refused."""

import pytest
import torch
from torch import nn

from debuggers.activation_stats import ActivationStatsDebugger
from debuggers.eigencam import EigenCAMDebugger
from debuggers.errors import DebuggerConfigError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.layer_output import LayerOutputDebugger
from debuggers.layer_values.channel_order import order_of_map, order_of_type

SQUARE, WIDE = (224, 224), (64, 128)


class LayerNorm2d(nn.LayerNorm):
    """Permutes inside, as those of several libraries."""


class Block(nn.Module):
    """A block of a hierarchical transformer: norm, attention and linear layers."""

    def __init__(self):
        super().__init__()
        self.norm, self.mlp = nn.LayerNorm(8), nn.Linear(8, 8)


class Mixed(Block):
    """A block of a network that permutes to use a layer norm, and permutes back."""

    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(8, 8, 3)


@pytest.mark.parametrize(
    ("layer", "order"),
    [
        (nn.Conv2d(1, 1, 1), "first"),
        (nn.BatchNorm2d(4), "first"),
        (nn.GroupNorm(1, 4), "first"),
        (nn.AdaptiveAvgPool3d(1), "first"),
        (LayerNorm2d(4), "first"),
        (nn.LayerNorm(4), "last"),
        (nn.RMSNorm(4), "last"),
        (nn.Linear(4, 4), "last"),
        (nn.LSTM(4, 4), "last"),
        (nn.LayerNorm((4, 7, 7)), None),
        (nn.ReLU(), None),
    ],
)
def test_some_types_say_it(layer, order):
    assert order_of_type(layer) == order


@pytest.mark.parametrize(
    ("shape", "layer", "image", "order"),
    [
        ((2, 7, 7, 768), nn.LayerNorm(768), SQUARE, "last"),
        ((2, 7, 7, 768), nn.LayerNorm(768), None, "last"),
        ((2, 7, 7, 768), Block(), SQUARE, "last"),
        ((2, 7, 7, 768), nn.Dropout(), SQUARE, "last"),
        ((2, 768, 7, 7), nn.Dropout(), SQUARE, "first"),
        ((2, 96, 56, 56), Mixed(), SQUARE, "first"),
        ((2, 56, 56, 96), Mixed(), SQUARE, "last"),
        ((2, 96, 56, 56), Block(), SQUARE, "first"),
        ((2, 8, 8, 8), nn.ReLU(), SQUARE, "first"),
        ((2, 8, 16, 32), nn.ReLU(), WIDE, "first"),
        ((2, 8, 16, 32), nn.Identity(), None, "first"),
        ((2, 8, 16, 48), nn.Identity(), WIDE, "last"),
        ((2, 16, 16, 1), nn.Identity(), SQUARE, "first"),
        ((2, 16, 16, 5), nn.Sequential(nn.Conv2d(1, 1, 1)), SQUARE, "first"),
        ((2, 4, 7, 7, 96), nn.Identity(), SQUARE, "last"),
        ((2, 96, 4, 7, 7), nn.Identity(), SQUARE, "first"),
    ],
)
def test_type_and_aspect_decide(shape, layer, image, order):
    assert order_of_map(torch.zeros(shape), layer, image) == order


@pytest.mark.parametrize(("shape", "image"), [((2, 8, 8, 8), SQUARE), ((2, 5, 9, 14), SQUARE), ((2, 7, 7, 768), None)])
def test_what_cannot_be_told_is_refused_with_the_way_out(shape, image):
    with pytest.raises(DebuggerConfigError, match=r"may come first or last; pass reshape=lambda x: x.movedim\(-1, 1\)"):
        order_of_map(torch.zeros(shape), Block(), image)


class Hierarchical(nn.Module):
    """Patches, a norm with channels last, a block of which nothing is known, and a head."""

    def __init__(self, image_dimensions=2):
        super().__init__()
        conv = nn.Conv2d if image_dimensions == 2 else nn.Conv3d
        self.patches, self.norm, self.dropout = conv(3, 12, 4, 4), nn.LayerNorm(12), nn.Dropout(0)
        self.head = nn.Linear(12, 5)

    def forward(self, x):
        return self.head(self.dropout(self.norm(self.patches(x).movedim(1, -1))).flatten(1, -2).mean(1))


@pytest.mark.parametrize("debugger", [GradCAMDebugger, EigenCAMDebugger])
@pytest.mark.parametrize("layer", ["norm", "dropout"])
@pytest.mark.parametrize("shape", [(2, 3, 16, 16), (2, 3, 16, 32), (2, 3, 8, 16, 32)])
def test_maps_of_channels_last_are_those_of_channels_first(debugger, layer, shape):
    torch.manual_seed(0)
    model, inputs = Hierarchical(len(shape) - 2).eval(), torch.randn(shape)
    datapoint = {"inputs": inputs, "outputs": model(inputs)}

    found = debugger(layer)(datapoint, model)["gradcam"]
    expected = debugger(layer, reshape=lambda x: x.movedim(-1, 1))(datapoint, model)["gradcam"]

    assert found.shape == (2, *(side // 4 for side in shape[2:]))
    assert torch.equal(found, expected)


class SequenceFirst(nn.Module):
    """A vision transformer that computes in (tokens, batch, channels), as torch's attention does by default."""

    def __init__(self):
        super().__init__()
        self.patches, self.norm, self.head = nn.Conv2d(3, 12, 4, 4), nn.LayerNorm(12), nn.Linear(12, 5)
        self.attention = nn.MultiheadAttention(12, 2)

    def forward(self, x):
        tokens = self.norm(self.patches(x).flatten(2).permute(2, 0, 1))
        return self.head(self.attention(tokens, tokens, tokens)[0].mean(0))


@pytest.mark.parametrize("debugger", [GradCAMDebugger, EigenCAMDebugger])
@pytest.mark.parametrize("layer", ["norm", "attention"])
def test_the_batch_may_be_the_second_dimension_of_tokens(debugger, layer):
    torch.manual_seed(0)
    model, images = SequenceFirst().eval(), torch.randn(3, 3, 16, 16)
    found = debugger(layer)({"inputs": images, "outputs": None}, model)["gradcam"]
    alone = [debugger(layer)({"inputs": image[None], "outputs": None}, model)["gradcam"] for image in images]

    assert found.shape == (3, 4, 4)
    torch.testing.assert_close(found, torch.cat(alone))


def test_as_many_tokens_as_samples_are_refused_where_either_may_come_first():
    model, images = SequenceFirst().eval(), torch.randn(16, 3, 16, 16)
    with pytest.raises(DebuggerConfigError, match=r"\(16, 16, 12\) for 16 samples, which may be its first or second"):
        GradCAMDebugger("attention")({"inputs": images, "outputs": None}, model)


def test_windows_are_refused():
    class Windows(nn.Module):
        def __init__(self):
            super().__init__()
            self.patches, self.norm, self.head = nn.Conv2d(3, 12, 4, 4), nn.LayerNorm(12), nn.Linear(12, 5)

        def forward(self, x):
            windows = self.patches(x).unfold(2, 2, 2).unfold(3, 2, 2).permute(0, 2, 3, 4, 5, 1).flatten(0, 2)
            return self.head(self.norm(windows.flatten(1, 2)).unflatten(0, (len(x), -1)).mean((1, 2)))

    model, images = Windows().eval(), torch.randn(2, 3, 16, 16)
    for debugger in (GradCAMDebugger, EigenCAMDebugger):
        with pytest.raises(DebuggerConfigError, match="layer 'norm' returned 8 rows for 2 samples"):
            debugger("norm")({"inputs": images, "outputs": None}, model)


TOKENS, MAPS = torch.randn(2, 6, 3), torch.randn(2, 4, 6, 3)


@pytest.mark.parametrize("layer", [nn.LayerNorm(3), nn.Linear(3, 3), nn.Sequential(nn.LayerNorm(3), nn.GELU())])
@pytest.mark.parametrize("output", [TOKENS, MAPS])
def test_statistics_are_those_of_channels_that_come_last(layer, output):
    stats = ActivationStatsDebugger("layer").process_forward(layer, (), output)["activation_stats"]
    assert stats["channel_means"] == pytest.approx(output.flatten(0, -2).mean(0).tolist(), abs=1e-6)
    assert stats["channel_stds"] == pytest.approx(output.flatten(0, -2).std(0).tolist(), abs=1e-6)
    assert stats["channels_last"] is True


def test_the_user_may_say_where_they_come():
    for given, count in ((True, 3), (False, 6), (None, 6)):
        debugger = ActivationStatsDebugger("layer", channels_last=given)
        assert len(debugger.process_forward(nn.Identity(), (), TOKENS)["activation_stats"]["channel_means"]) == count
    for cls in (ActivationStatsDebugger, LayerOutputDebugger):
        with pytest.raises(DebuggerConfigError, match="channels_last is 'yes'; expected True, False or None"):
            cls("layer", channels_last="yes")


def test_blocks_are_averaged_over_positions_and_never_over_channels():
    kept = LayerOutputDebugger("layer", 2).process_forward(nn.LayerNorm(3), (), MAPS)
    expected = LayerOutputDebugger("layer", 2).process_forward(nn.Conv2d(1, 1, 1), (), MAPS.movedim(-1, 1))
    assert torch.equal(kept["output"].movedim(-1, 1), expected["output"])
    assert (kept["original_shape"], kept["channels_last"], "channels_last" in expected) == ([2, 4, 6, 3], True, False)
    tokens = LayerOutputDebugger("layer", 4).process_forward(nn.LayerNorm(3), (), TOKENS)["output"]
    torch.testing.assert_close(tokens, torch.stack([TOKENS[:, :4].mean(1), TOKENS[:, 4:].mean(1)], 1))


def test_pictures_show_channel_by_channel():
    debugger = FeatureMapDebugger("layer")
    last = debugger.process_forward(nn.LayerNorm(3), (), MAPS)
    first = debugger.process_forward(nn.Conv2d(1, 1, 1), (), MAPS.movedim(-1, 1))
    assert last["feature_map"].shape == MAPS.shape
    (picture,), (expected,) = (list(debugger.pictures(capture, {})) for capture in (last, first))
    assert torch.equal(picture.values, expected.values)
