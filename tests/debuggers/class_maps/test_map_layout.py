"""A layer's output becomes channels of maps, whatever its form; an ambiguous one is refused."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import nn

from debuggers.class_maps.map_layout import checked_layout, first_image, map_layout
from debuggers.errors import DebuggerConfigError

IMAGE = torch.zeros(2, 3, 32, 32)
SIGNAL = torch.zeros(2, 4, 16)
TEXT = torch.zeros(2, 10, dtype=torch.int64)


def maps_of(output, layer=None, model=None, inputs=IMAGE):
    layer = nn.Identity() if layer is None else layer
    return map_layout(output, layer, nn.Sequential(layer) if model is None else model, inputs)(output)


@pytest.mark.parametrize("shape", [(2, 5, 3, 4), (2, 5, 2, 3, 4)])
def test_maps_stay_as_they_are(shape):
    output = torch.randn(shape)
    assert maps_of(output) is output


@given(rows=st.integers(1, 9), columns=st.integers(1, 9), patch=st.integers(1, 16), class_token=st.booleans())
def test_tokens_become_a_grid_of_the_aspect_of_the_image(rows, columns, patch, class_token):
    grid = torch.arange(2 * 3 * rows * columns).reshape(2, 3, rows, columns).float()
    tokens = grid.flatten(2).transpose(1, 2)
    if class_token:
        tokens = torch.cat([torch.full((2, 1, 3), -1.0), tokens], dim=1)
    image = torch.zeros(2, 3, rows * patch, columns * patch)

    assert torch.equal(grid, maps_of(tokens, nn.LayerNorm(3), inputs={"pixels": image, "mask": TEXT}))


@pytest.mark.parametrize(("tokens", "side"), [(16, 4), (17, 4), (1, 1), (10, 3)])
def test_without_an_image_the_grid_is_a_square(tokens, side):
    assert maps_of(torch.zeros(2, tokens, 8), inputs=SIGNAL).shape == (2, 8, side, side)


def test_tokens_of_text_are_one_row():
    assert maps_of(torch.zeros(2, 10, 8), inputs=(TEXT, TEXT)).shape == (2, 8, 1, 10)


@pytest.mark.parametrize("tokens", [0, 15, 18])
def test_tokens_that_are_no_grid_are_refused(tokens):
    with pytest.raises(DebuggerConfigError, match=rf"{tokens} tokens.*32 x 32; pass reshape"):
        maps_of(torch.zeros(2, tokens, 8))


@pytest.mark.parametrize("layer", [nn.Conv1d(4, 4, 3), nn.BatchNorm1d(4), nn.ReLU()])
def test_one_dimensional_channels_become_one_row(layer):
    output = torch.randn(2, 4, 9)
    model = nn.Sequential(nn.Conv1d(4, 4, 3), layer)

    assert torch.equal(output[:, :, None], maps_of(output, layer, model, SIGNAL))


def test_where_a_model_has_both_the_type_of_the_layer_decides():
    norm, convolution, other = nn.LayerNorm(4), nn.Conv1d(4, 4, 1), nn.Identity()
    model, output = nn.Sequential(norm, convolution, other), torch.randn(2, 4, 4)

    assert torch.equal(output[:, :, None], maps_of(output, convolution, model, SIGNAL))
    assert maps_of(output, norm, model, SIGNAL).shape == (2, 4, 2, 2)
    with pytest.raises(DebuggerConfigError, match="pass reshape"):
        maps_of(output, other, model, SIGNAL)
    assert maps_of(output, other, model, IMAGE).shape == (2, 4, 2, 2)


@pytest.mark.parametrize("shape", [(2,), (2, 5), (2, 1, 1, 1, 1, 1)])
def test_outputs_without_positions_are_refused(shape):
    with pytest.raises(DebuggerConfigError, match="no positions to map"):
        maps_of(torch.zeros(shape))


def test_a_layout_of_the_caller_must_give_maps():
    channels_last = torch.randn(2, 3, 4, 5)

    assert torch.equal(channels_last.permute(0, 3, 1, 2), checked_layout(lambda x: x.movedim(-1, 1))(channels_last))
    with pytest.raises(DebuggerConfigError, match=r"reshape took \(2, 3, 4, 5\) to \(2, 60\)"):
        checked_layout(lambda x: x.flatten(1))(channels_last)
    with pytest.raises(DebuggerConfigError, match="to list"):
        checked_layout(list)(channels_last)


def test_the_first_image_is_found_in_any_structure():
    assert first_image({"mask": TEXT, "views": [IMAGE, torch.ones(1, 1, 2, 2)]}) is IMAGE
    assert first_image((TEXT, "text", None)) is None
