"""Lines of dots in cells: Braille characters have 2 × 4 dots each, ASCII one."""

import numpy as np
import numpy.typing as npt

from debuggers.pictures.cells import Characters
from debuggers.pictures.numbers import Floats

_FIRST_BRAILLE = 0x2800
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
"""The bit of each dot of a Braille cell, by row and column (Unicode, block Braille Patterns)."""


def draw_line(x: Floats, y: Floats, columns: int, rows: int, characters: Characters) -> list[str]:
    """Draws points and the lines between neighbours.

    Args:
        x: (n,), from 0 to 1.
        y: (n,), from 0 at the bottom to 1 at the top; a line ends where it is NaN, and the top row has a mark there.
        columns: Width of the picture in cells.
        rows: Its height.
        characters: What to draw with.

    Returns:
        The rows from the top, of ``columns`` cells each.
    """
    across, down = (2, 4) if characters.braille else (1, 1)
    width, height = columns * across, rows * down
    place = np.minimum((x * width).astype(np.int64), width - 1)
    known = ~np.isnan(y)
    depth = np.zeros(len(y), np.int64)
    depth[known] = np.round((1 - y[known]) * (height - 1)).astype(np.int64)
    dots = np.zeros((height, width), bool)
    dots[depth[known], place[known]] = True
    _connect(dots, place, depth, known)
    picture = _as_characters(dots, rows, columns, characters)
    if not known.all():
        picture[0, place[~known] // across] = characters.mark
    return ["".join(row) for row in picture.tolist()]


def _connect(
    dots: npt.NDArray[np.bool_],
    place: npt.NDArray[np.int64],
    depth: npt.NDArray[np.int64],
    known: npt.NDArray[np.bool_],
) -> None:
    """Fills in the dots between neighbouring points, a segment's longer side dot by dot."""
    starts = np.flatnonzero(known[:-1] & known[1:])
    lengths = np.maximum(np.abs(np.diff(place)), np.abs(np.diff(depth)))[starts]
    # Many points on few dots repeat most segments; as one number each, these are found fast.
    corners = (place[starts], depth[starts], place[starts + 1], depth[starts + 1])
    sizes = (dots.shape[1], dots.shape[0]) * 2
    found = np.unique(np.ravel_multi_index(tuple(corner[lengths > 1] for corner in corners), sizes))
    ends = np.stack(np.unravel_index(found, sizes), axis=1)
    sides = np.abs(ends[:, 2:] - ends[:, :2]).max(1)
    for length in np.unique(sides).tolist():
        same = ends[sides == length]
        shares = np.arange(1, length) / length
        columns = same[:, :1] + shares * (same[:, 2:3] - same[:, :1])
        rows = same[:, 1:2] + shares * (same[:, 3:] - same[:, 1:2])
        dots[np.round(rows).astype(np.int64), np.round(columns).astype(np.int64)] = True


def _as_characters(
    dots: npt.NDArray[np.bool_], rows: int, columns: int, characters: Characters
) -> npt.NDArray[np.str_]:
    if not characters.braille:
        return np.where(dots, "*", " ")
    parts = dots.reshape(rows, 4, columns, 2)
    codes = (parts * _DOTS[:, None, :]).sum((1, 3))
    return np.where(codes > 0, np.vectorize(chr)(_FIRST_BRAILLE + codes), " ")
