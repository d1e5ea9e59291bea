"""The PNG encoder, read back with Pillow."""

import io

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image as PillowImage
from tracker_adapters.values.png import encode

SIDES = st.integers(1, 20)
SHAPES = st.one_of(st.tuples(SIDES, SIDES), st.tuples(SIDES, SIDES, st.sampled_from([3, 4])))


def decoded(png):
    picture = PillowImage.open(io.BytesIO(png))
    picture.verify()
    return np.asarray(PillowImage.open(io.BytesIO(png)))


@given(arrays.arrays(np.uint8, SHAPES))
def test_every_pixel_comes_back(pixels):
    np.testing.assert_array_equal(decoded(encode(pixels)), pixels)


@pytest.mark.parametrize("channels", [1, 3, 4])
@pytest.mark.parametrize("kind", ["noise", "gradient"])
def test_large_pictures_come_back_however_they_compress(kind, channels):
    draw = np.random.default_rng(0).integers(0, 256, (300, 200, channels), dtype=np.uint8)
    ramp = np.broadcast_to(np.arange(200, dtype=np.uint8)[:, None], (300, 200, channels))
    pixels = (draw if kind == "noise" else ramp).squeeze()
    png = encode(pixels)
    np.testing.assert_array_equal(decoded(png), pixels)
    assert len(png) < (1.01 if kind == "noise" else 0.05) * pixels.nbytes


def test_the_mode_is_grey_rgb_or_rgba():
    modes = [
        PillowImage.open(io.BytesIO(encode(np.zeros(shape, np.uint8)))).mode for shape in ((2, 2), (2, 2, 3), (2, 2, 4))
    ]
    assert modes == ["L", "RGB", "RGBA"]
