"""Attention maps as one picture."""

import math

import torch

from debuggers.attention_weights.picture import attention_picture


def test_heads_of_the_first_datapoint_lie_side_by_side_on_one_scale():
    maps = torch.zeros(2, 3, 32, 32)
    maps[0, 0], maps[0, 1, 5, 7], maps[1] = 0.25, 0.5, 1.0
    picture = attention_picture(maps, per_head=True)
    assert picture.shape == (65, 65)
    assert picture[:32, :32].unique().tolist() == [0.5]
    assert picture[:32, 33:].nonzero().tolist() == [[5, 7]]
    assert picture[5, 40] == 1
    assert picture[33:, :32].max() == 0
    assert picture[32].unique().tolist() == picture[33:, 33:].unique().tolist() == [0.5]


def test_the_scale_starts_at_zero():
    assert attention_picture(torch.full((1, 1, 40, 40), 0.1), per_head=True).unique().tolist() == [1]
    assert attention_picture(torch.zeros(1, 1, 40, 40), per_head=True).max() == 0


def test_three_dimensions_are_a_batch_or_heads():
    maps = torch.rand(4, 40, 40)
    assert attention_picture(maps, per_head=False).shape == (40, 40)
    assert attention_picture(maps, per_head=True).shape == (81, 81)
    assert attention_picture(maps[0], per_head=False).shape == (40, 40)


def test_small_maps_are_enlarged():
    picture = attention_picture(torch.eye(4)[None, None], per_head=True)
    assert torch.equal(picture, torch.eye(4).repeat_interleave(8, 0).repeat_interleave(8, 1))


def test_long_sequences_are_pooled_and_single_weights_stay_visible():
    maps = torch.full((1, 2, 1000, 300), 0.001)
    maps[0, 1, 999, 0] = 1.0
    picture = attention_picture(maps, per_head=True)
    assert picture.shape == (256, 513)
    assert picture[255, 257] == 1
    assert picture[:, :256].max() < 0.01
    assert attention_picture(torch.rand(1000, 8), per_head=False).shape == (256, 8)


def test_nan_stays_in_its_place():
    maps = torch.rand(1, 2, 40, 40)
    maps[0, 1, 3] = math.nan
    picture = attention_picture(maps, per_head=True)
    assert picture.isnan().nonzero()[:, 0].unique().tolist() == [3]
    assert picture.nan_to_num().max() == 1
    assert attention_picture(torch.full((2, 300, 300), math.nan), per_head=False).isnan().all()


def test_half_precision():
    assert attention_picture(torch.rand(1, 2, 300, 300).bfloat16(), per_head=True).dtype == torch.float32
