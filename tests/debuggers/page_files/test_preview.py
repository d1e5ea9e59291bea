"""Pictures and values in a page's table of contents."""

import io

import numpy as np
import pytest
import torch
from PIL import Image
from tracker_adapters.artifacts import MAX_PREVIEW_BYTES

from debuggers.page_files.preview import preview
from debuggers.wrappers.emission import page_contents
from debuggers.wrappers.page_values import host_copy


def shown(outputs):
    return np.asarray(Image.open(io.BytesIO(preview(outputs))))


def test_a_picture_has_the_smallest_value_black_and_the_largest_white():
    values = np.linspace(-3, 5, 64).reshape(8, 8)
    assert shown({"map": values}).ravel().tolist() == np.round((values.ravel() + 3) / 8 * 255).astype(int).tolist()


def test_three_channels_are_colours_and_more_are_maps_side_by_side():
    colours = np.zeros((3, 8, 6), np.float32)
    colours[1] = 1
    assert shown({"inputs": colours}).tolist() == np.full((8, 6, 3), (0, 255, 0)).tolist()
    maps = np.zeros((4, 8, 6), np.float32)
    maps[3] = 2
    grid = shown({"feature_map": maps})
    assert grid.shape == (17, 13)
    assert (grid[9:, 7:] == 255).all()
    assert grid.sum() == 255 * 8 * 6
    assert (shown({"feature_map": np.moveaxis(maps, 0, -1), "channels_last": True}) == grid).all()


def test_nan_is_magenta_and_infinity_the_nearer_end():
    values = np.tile(np.array([0.0, 1.0, np.nan, np.inf, -np.inf]), (5, 1))
    assert shown(values)[0].tolist() == [[0] * 3, [255] * 3, [255, 0, 255], [255] * 3, [0] * 3]


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16, torch.uint8, torch.bool, torch.int64])
def test_any_real_dtype_is_shown(dtype):
    copied = host_copy({"map": torch.eye(8).to(dtype)})
    assert (shown(copied) == np.eye(8) * 255).all()


@pytest.mark.parametrize(
    "outputs",
    [np.ones(100), np.ones((3, 2)), np.ones((8, 8), np.complex64), {}, "text", {"a": [1, 2]}, np.ones((0, 8, 8))],
)
def test_what_is_no_picture_has_none(outputs):
    assert preview(outputs) == b""


def test_large_pictures_are_small_files():
    noise = np.random.default_rng(0).normal(size=(3, 500, 400)).astype(np.float32)
    assert 0 < len(preview({"inputs": noise})) <= MAX_PREVIEW_BYTES
    assert max(shown({"inputs": noise}).shape) <= 96


def test_a_page_tells_values_and_shows_its_first_pictures_up_to_a_bound():
    noise = np.random.default_rng(0).normal(size=(3, 90, 90)).astype(np.float32)
    outputs = {"map": np.arange(16.0).reshape(4, 4), "stats": {"mean": 0.25}, "empty": np.empty(0)}
    page = {0: {"odd": {"x": np.full((4, 4), "a")}, "maps": outputs}}
    page |= {idx: {"noise": noise} for idx in range(1, 100)}
    odd, maps, *others = page_contents(page)
    assert (odd.summary, odd.picture) == ("x <U1 (4, 4)", b"")
    assert maps.summary == "map float64 (4, 4) from 0 to 15, mean 7.5, stats {mean 0.25}, empty float64 (0,)"
    assert maps.picture
    assert others[0].picture
    assert not others[-1].picture
    assert sum(len(entry.picture) for entry in others) < 256 * 1024 + MAX_PREVIEW_BYTES
