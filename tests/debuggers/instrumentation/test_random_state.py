"""Random generators are as before, also with blocks inside blocks."""

import random

import numpy as np
import torch

from debuggers.instrumentation.random_state import preserved_random_state


def draw():
    return random.random(), float(np.random.rand()), float(torch.rand(()))


def test_blocks_inside_a_block_begin_with_the_same_numbers_and_the_outer_one_leaves_none_drawn():
    torch.manual_seed(0)
    with preserved_random_state():
        expected = draw()
    drawn = []
    with preserved_random_state():
        for _ in range(3):
            with preserved_random_state():
                drawn.append(draw())
        draw()
    assert drawn == [expected] * 3
    assert draw() == expected
