"""The overlay shows the input and where in it the map is."""

import math

import pytest
import torch
from torch_parts import Refuses

from debuggers.class_maps.overlay import MAX_SIDE, MIN_SIDE, cam_pictures, ramp_colours, side_by_side


def halves(picture):
    """The image and the overlay, (height, width, 3) each."""
    width = (picture.shape[1] - 4) // 2
    return picture[:, :width], picture[:, -width:]


def corner_map(value=1.0):
    activation_map = torch.zeros(4, 4)
    activation_map[0, 0] = value
    return activation_map


@pytest.mark.parametrize("channels", [1, 3])
def test_the_image_stands_beside_the_overlay(channels):
    image = torch.linspace(-3, 5, channels * 64).reshape(channels, 8, 8)

    left, right = halves(side_by_side(corner_map(), image))

    assert left.shape == right.shape == (MIN_SIDE, MIN_SIDE, 3)
    assert (left.min(), left.max()) == (0, 1)
    factor = MIN_SIDE // 8
    torch.testing.assert_close(left[::factor, ::factor].movedim(-1, 0), ((image + 3) / 8).expand(3, -1, -1))


def test_only_where_the_map_is_there_is_colour():
    _, right = halves(side_by_side(corner_map(), torch.rand(1, 8, 8)))

    saturation = right.amax(-1) - right.amin(-1)
    assert saturation[:20, :20].min() > 0.1
    assert saturation[MIN_SIDE // 2 :].max() < 1e-6


def test_the_scale_of_the_map_does_not_matter():
    image = torch.rand(3, 8, 8)
    torch.testing.assert_close(side_by_side(corner_map(1e-6), image), side_by_side(corner_map(1e6), image))


def test_a_map_of_zeros_leaves_the_image_grey():
    _, right = halves(side_by_side(torch.zeros(4, 4), torch.rand(1, 8, 8)))
    assert (right.amax(-1) - right.amin(-1)).max() < 1e-6


@pytest.mark.parametrize(("height", "width"), [(1, 1), (8, 8), (64, 100), (192, 100), (640, 480), (100, 3000)])
def test_pictures_are_neither_tiny_nor_huge(height, width):
    left, _ = halves(side_by_side(torch.rand(3, 5), torch.rand(3, height, width)))

    assert MIN_SIDE <= max(left.shape[:2]) <= MAX_SIDE
    assert left.shape[0] / left.shape[1] == pytest.approx(height / width, rel=0.05)


def test_nan_stays_nan_and_infinities_do_not_hide_the_rest():
    picture = side_by_side(torch.full((4, 4), math.nan), torch.rand(1, 8, 8))
    left, right = halves(picture)
    assert not left.isnan().any()
    assert right.isnan().all()
    image = torch.rand(1, 8, 8)
    image[0, 0, 0] = math.inf
    left, _ = halves(side_by_side(corner_map(), image))
    assert left[30:].std() > 0.1


def test_larger_values_are_lighter():
    colours = ramp_colours(torch.linspace(0, 1, 100)[:, None])
    luminance = colours @ torch.tensor([0.2126, 0.7152, 0.0722])
    assert (luminance.diff() > 0).all()
    assert colours.min() >= 0
    assert colours.max() <= 1


@pytest.mark.parametrize("image", [torch.rand(2, 3, 16, 16), torch.randint(0, 255, (2, 1, 16, 16), dtype=torch.uint8)])
def test_the_first_sample_is_drawn(image):
    maps = torch.stack([corner_map(), torch.zeros(4, 4)])

    (picture,) = cam_pictures(maps, {"image": image, "id": 3})

    assert picture.name == "gradcam"
    assert torch.equal(side_by_side(maps[0], image[0]), picture.values)


@pytest.mark.parametrize(
    ("maps", "shape"),
    [
        (torch.rand(2, 8, 8), (32, 32)),
        (torch.rand(2, 1, 50), (16, 50)),
        (torch.rand(2, 4, 32, 32), (65, 65)),
    ],
)
def test_without_an_image_the_map_stands_alone(maps, shape):
    (picture,) = cam_pictures(maps, torch.zeros(2, 7))
    assert picture.values.shape == shape


@pytest.mark.parametrize("inputs", [torch.rand(2, 3, 8, 8), torch.zeros(2, 7)])
def test_drawing_does_not_wait_for_a_device(inputs):
    maps = torch.rand(2, 4, 4)
    with Refuses(torch.ops.aten._local_scalar_dense, torch.ops.aten.nonzero):
        assert len(list(cam_pictures(maps, inputs))) == 1


def test_without_a_map_there_is_no_picture():
    assert list(cam_pictures(None, torch.rand(2, 3, 8, 8))) == []
    assert list(cam_pictures(torch.zeros(0, 4, 4), torch.rand(0, 3, 8, 8))) == []
