"""Pictures: layouts, ranges, NaN, and what the PNG shows."""

import io
import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from PIL import Image as PillowImage
from tracker_adapters.artifacts import Image
from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.image import pixels

MAGENTA = [255, 0, 255]
SIDES = st.integers(1, 6)


def decoded(image):
    picture = PillowImage.open(io.BytesIO(image.png))
    assert picture.size == (image.width, image.height)
    return np.asarray(picture)


def shapes(layout):
    channels = st.sampled_from([1, 3, 4])
    axes = {"CHW": (channels, SIDES, SIDES), "HWC": (SIDES, SIDES, channels), "HW": (SIDES, SIDES)}
    return st.tuples(*axes[layout])


@given(
    st.sampled_from(["CHW", "HWC", "HW"]).flatmap(lambda layout: st.tuples(st.just(layout), shapes(layout))), st.data()
)
def test_bytes_come_back_pixel_by_pixel(layout_and_shape, data):
    layout, shape = layout_and_shape
    values = data.draw(arrays.arrays(np.uint8, shape))
    seen = decoded(Image.from_array("i", values, layout=layout, step=0))
    wanted = np.moveaxis(values, 0, -1) if layout == "CHW" else values
    assert seen.tolist() == (wanted[..., 0] if wanted.ndim == 3 and wanted.shape[-1] == 1 else wanted).tolist()


def test_a_tensor_in_channels_last_memory_keeps_its_orientation():
    tensor = torch.arange(3 * 2 * 5, dtype=torch.uint8).reshape(1, 3, 2, 5).to(memory_format=torch.channels_last)[0]
    seen = decoded(Image.from_array("i", tensor, layout="CHW", step=0))
    assert seen.shape == (2, 5, 3)
    assert seen.tolist() == tensor.permute(1, 2, 0).tolist()


def test_truth_values_are_black_and_white():
    assert pixels("i", [[True, False]], "HW").tolist() == [[255, 0]]


@pytest.mark.parametrize(
    ("value_range", "values", "wanted"),
    [
        ((0.0, 1.0), [0.0, 0.5, 1.0, -3.0, 7.0, math.inf, -math.inf], [0, 128, 255, 0, 255, 255, 0]),
        ((-1, 1), [-1.0, 0.0, 1.0], [0, 128, 255]),
        ((-1.7e308, 1.7e308), [-1.7e308, 0.0, 1.7e308], [0, 128, 255]),
        ((0.0, 5e-324), [0.0, 5e-324], [0, 255]),
    ],
)
def test_the_range_says_what_is_black_and_what_is_bright(value_range, values, wanted):
    assert pixels("i", np.array([values]), "HW", value_range).tolist() == [wanted]


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "bfloat16", "float8_e4m3fn"])
def test_every_floating_dtype_is_shown_alike(dtype):
    tensor = torch.tensor([[0.0, 0.5, 1.0]]).to(getattr(torch, dtype))
    assert pixels("i", tensor, "HW", (0, 1)).tolist() == [[0, 128, 255]]


@pytest.mark.parametrize("channels", [1, 3, 4])
def test_nan_is_painted_magenta_and_opaque(channels):
    values = np.zeros((2, 3, channels))
    values[1, 2, channels - 1] = math.nan
    painted = pixels("i", values, "HWC", (0, 1))
    assert painted[1, 2].tolist() == [*MAGENTA, 255][: max(channels, 3)]
    others = np.delete(painted.reshape(6, -1), 5, axis=0)
    assert not others.any()


def test_one_nan_in_one_channel_is_enough():
    values = np.full((3, 1, 2), 0.5)
    values[1, 0, 0] = math.nan
    assert pixels("i", values, "CHW", (0, 1)).tolist() == [[MAGENTA, [128, 128, 128]]]


@pytest.mark.parametrize("dtype", [np.uint8, np.bool_, np.float64])
def test_the_pixels_are_a_copy(dtype):
    values = np.zeros((2, 2), dtype=dtype)
    copied = pixels("i", values, "HW", (0, 1) if dtype is np.float64 else None)
    values[:] = 1
    assert not copied.any()


@pytest.mark.parametrize(
    ("values", "layout", "value_range", "message"),
    [
        (np.zeros((2, 2), np.uint8), "WH", None, "layout is 'WH'; expected one of CHW, HWC, HW"),
        (np.zeros((2, 2), np.uint8), None, None, "layout is None"),
        (np.zeros((1, 3, 2, 2), np.uint8), "CHW", None, r"shape \(1, 3, 2, 2\); expected 3 axes for layout CHW"),
        (np.zeros(4, np.uint8), "HW", None, "expected 2 axes"),
        (np.zeros((2, 5, 5), np.uint8), "CHW", None, "got 2 channels for layout CHW; expected 1, 3 or 4"),
        (np.zeros((3, 32, 32), np.uint8), "HWC", None, "got 32 channels for layout HWC"),
        (np.zeros((3, 0, 5), np.uint8), "CHW", None, "with no pixels; expected at least 1 x 1"),
        (np.zeros((2, 2)), "HW", None, r"need value_range=\(low, high\)"),
        (np.zeros((2, 2)), "HW", (1.0, 0.0), r"value_range is \(1.0, 0.0\); expected finite numbers with low < high"),
        (np.zeros((2, 2)), "HW", (0.0, math.inf), "expected finite numbers"),
        (np.zeros((2, 2)), "HW", (math.nan, 1.0), "expected finite numbers"),
        (np.zeros((2, 2)), "HW", (0.5, 0.5), "low < high"),
        (np.zeros((2, 2)), "HW", 1.0, "value_range is 1.0; expected two numbers"),
        (np.zeros((2, 2)), "HW", (0, 1, 2), "expected two numbers"),
        (np.zeros((2, 2), np.uint8), "HW", (0, 255), "value_range is for floating point; uint8 values are shown"),
        (np.zeros((2, 2), np.int64), "HW", None, "got dtype int64; expected uint8, bool or floating point"),
        (torch.zeros(3, 2, 2, device="meta"), "CHW", (0, 1), "meta tensor"),
        (np.zeros((2, 2), np.complex64), "HW", (0, 1), "complex"),
        ("picture.png", "HW", None, "str 'picture.png'"),
    ],
)
def test_what_is_no_picture_is_refused_by_name(values, layout, value_range, message):
    with pytest.raises(ArtifactError, match=f"^image 'conv1/0': .*{message}"):
        pixels("conv1/0", values, layout, value_range)


@pytest.mark.parametrize("png", [b"GIF89a", b"", None, bytearray(b"\x89PNG\r\n\x1a\n")])
def test_an_image_holds_a_png(png):
    with pytest.raises(ArtifactError, match=r"image 'i': png is .*; expected the bytes of a PNG file"):
        Image(name="i", step=0, png=png, width=1, height=1)


def test_time_zero_is_a_time():
    assert Image.from_array("i", [[True]], layout="HW", step=0, time_ns=0).time_ns == 0
