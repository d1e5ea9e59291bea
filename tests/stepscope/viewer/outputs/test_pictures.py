import io

import numpy as np
import pytest
from PIL import Image

from debuggers.pictures.colours import INFINITE_COLOUR, NAN_COLOUR, viridis
from stepscope.viewer.outputs import pictures


def _pixels(png):
    return np.asarray(Image.open(io.BytesIO(png)))


def _colour(text):
    return [int(text[at : at + 2], 16) for at in (1, 3, 5)]


def test_maps_lie_side_by_side_on_one_scale():
    maps = np.zeros((5, 4, 4), np.float32)
    maps[4] = 2.0
    sheet, found = pictures.sheet_of(maps), _pixels(pictures.maps_png(maps))
    assert found.shape == (sheet.height, sheet.width, 4)
    assert (sheet.columns, sheet.cell_width, sheet.factor) == (3, 32, 8)
    low, high = viridis(np.array([0.0, 1.0])).tolist()
    assert found[0, 0, :3].tolist() == low
    assert found[40, 40, :3].tolist() == high  # the fifth map: second row, second column
    assert found[0, 33, 3] == 0  # between two maps
    assert found[-1, -1, 3] == 0  # no sixth map


def test_what_is_not_finite_has_colours_of_its_own():
    maps = np.array([[[0.0, np.nan], [np.inf, 1.0]]])
    found = _pixels(pictures.maps_png(maps))
    assert found[0, -1, :3].tolist() == _colour(NAN_COLOUR)
    assert found[-1, 0, :3].tolist() == _colour(INFINITE_COLOUR)


def test_one_nan_of_a_large_map_can_be_seen():
    maps = np.zeros((1, 3000, 2000), np.float32)
    maps[0, 1501, 7] = np.nan
    sheet, found = pictures.sheet_of(maps), _pixels(pictures.maps_png(maps))
    assert found.shape[:2] == (sheet.height, sheet.width)
    assert sheet.height <= pictures.MAX_SIDE
    assert (found[..., :3] == _colour(NAN_COLOUR)).all(-1).sum() == 1


def test_of_many_maps_64_are_shown_from_the_given_one_on():
    maps = np.arange(70.0)[:, None, None] * np.ones((70, 2, 2))
    assert pictures.sheet_of(maps).count == 64
    assert pictures.sheet_of(maps, 64).count == 6
    last = viridis(np.array([1.0]))[0].tolist()
    assert not (_pixels(pictures.maps_png(maps))[..., :3] == last).all(-1).any()
    assert (_pixels(pictures.maps_png(maps, 64))[..., :3] == last).all(-1).any()


@pytest.mark.parametrize(
    ("shape", "channels_last", "expected"),
    [
        ((1, 8, 4, 4), False, (8, 4, 4)), ((4, 4), False, (1, 4, 4)), ((2, 3, 4, 5), False, (6, 4, 5)),
        ((4, 5, 8), True, (8, 4, 5)), ((10,), False, None), ((1, 10), False, None), ((0, 4, 4), False, None),
    ],
)  # fmt: skip
def test_arrays_are_maps_by_their_shape(shape, channels_last, expected):
    found = pictures.as_maps(np.zeros(shape), channels_last=channels_last)
    assert (None if found is None else found.shape) == expected


@pytest.mark.parametrize(
    ("shape", "expected"),
    [
        ((3, 8, 9), (8, 9, 3)),
        ((8, 9, 3), (8, 9, 3)),
        ((8, 9), (8, 9, 1)),
        ((1, 4, 8, 9), (8, 9, 4)),
        ((16, 8, 9), None),
    ],
)
def test_arrays_are_images_by_their_shape(shape, expected):
    found = pictures.as_image(np.zeros(shape))
    assert (None if found is None else found.shape) == expected


def test_an_image_of_bytes_stays_as_it_is_and_one_of_floats_fills_the_range():
    image = np.random.default_rng(0).integers(0, 255, (6, 5, 3), np.uint8)
    assert np.array_equal(_pixels(pictures.image_png(image)), image)
    grey = _pixels(pictures.image_png(np.linspace(-1, 3, 16).reshape(4, 4, 1)))
    assert (grey.shape, grey.min(), grey.max()) == ((4, 4), 0, 255)


def test_an_overlay_is_coloured_where_the_map_is_large():
    activation = np.zeros((4, 4))
    activation[0, 0] = 1.0
    found = _pixels(pictures.overlay_png(activation, np.full((8, 8, 1), 100, np.uint8))).astype(int)
    assert found.shape == (256, 256, 3)
    spread = found.max(-1) - found.min(-1)
    assert spread[0, 0] > 50
    assert spread[-1, -1] == 0


def test_attention_is_laid_over_the_image_by_its_keys():
    image = np.zeros((16, 8, 1))
    attention = np.zeros((2, 8, 8))
    attention[..., 3] = 1.0  # all look at the second row, right, of 4 x 2 places
    found = pictures.key_map(attention, image)
    assert found.shape == (4, 2)
    assert found[1, 1] == 1.0


def test_with_a_class_token_the_map_is_what_that_looks_at():
    attention = np.zeros((1, 5, 5))
    attention[0, 0, 2] = 1.0
    found = pictures.key_map(attention, np.zeros((8, 8, 1)))
    assert found.tolist() == [[0.0, 1.0], [0.0, 0.0]]


def test_keys_that_are_no_grid_of_the_image_make_no_map():
    assert pictures.key_map(np.zeros((2, 7, 7)), np.zeros((8, 8, 1))) is None
