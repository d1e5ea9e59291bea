"""Drawn lines: where they are and where they have gaps, for every float64."""

import numpy as np
import pytest
from tracker_adapters.values.line_plot import line_plot

BLUE = (31, 119, 180)


def inked(x, y, **texts):
    """The (row, column) of each pixel of the line, shape (n, 2)."""
    words = {"title": "t", "x_label": "x", "y_label": "y"} | texts
    drawn = line_plot(np.array(x, np.float64), np.array(y, np.float64), **words)
    assert (drawn.shape, drawn.dtype) == ((400, 640, 3), np.uint8)
    return np.argwhere((drawn == BLUE).all(axis=-1))


def test_a_line_goes_from_corner_to_corner():
    line = inked([0, 1], [0, 1])
    assert line[line[:, 1].argmin()].tolist() == pytest.approx([350, 80], abs=2)
    assert line[line[:, 1].argmax()].tolist() == pytest.approx([40, 620], abs=2)


def test_where_y_is_not_finite_is_a_gap_and_a_point_between_two_is_seen():
    columns = set(inked([0, 1, 2, 3, 4, 5], [0, 1, np.nan, 1, np.inf, 0])[:, 1].tolist())
    middle = 80 + 540 * 3 // 5
    assert middle in columns
    assert not columns & {middle - 50, middle + 50}


@pytest.mark.parametrize(
    ("x", "y"),
    [
        ([], []),
        ([1], [np.nan]),
        ([2], [3]),
        ([-1.7e308, 1.7e308], [1.7e308, -1.7e308]),
        ([0, 5e-324], [5e-324, 0]),
    ],
    ids=["empty", "nothing-finite", "one", "widest", "narrowest"],
)
def test_any_float64_can_be_drawn(x, y):
    shown = np.isfinite(y).any()
    assert bool(len(inked(x, y, title="\u65e5\u672c\n\x00", x_label="x" * 1000))) == shown
