"""Draws a line with its axes, for trackers that show pictures but no curves. Pillow is imported where it is needed."""

import numpy as np
import numpy.typing as npt

WIDTH, HEIGHT = 640, 400
_LEFT, _TOP, _RIGHT, _BOTTOM = 80, 40, 620, 350
_TICKS = 5
_LONGEST_TEXT = 80
_LINE, _GRID = (31, 119, 180), (221, 221, 221)


def line_plot(
    x: npt.NDArray[np.float64], y: npt.NDArray[np.float64], *, title: str, x_label: str, y_label: str
) -> npt.NDArray[np.uint8]:
    """Returns a picture, uint8 of shape (400, 640, 3).

    Args:
        x: Finite float64 of shape (n,).
        y: Float64 of shape (n,); the line has a gap where it is not finite.
        title: Stands above the plot; characters beyond Latin-1 become question marks, as in the labels.
        x_label: Stands below it.
        y_label: Stands above the axis.
    """
    from PIL import Image, ImageDraw

    picture = Image.new("RGB", (WIDTH, HEIGHT), "white")
    draw = ImageDraw.Draw(picture)
    shown = np.isfinite(y)
    columns, x_ticks = _placed(x, shown, _LEFT, _RIGHT)
    rows, y_ticks = _placed(y, shown, _BOTTOM, _TOP)
    for place, value in x_ticks:
        draw.line([(place, _TOP), (place, _BOTTOM)], _GRID)
        draw.text((place, _BOTTOM + 6), f"{value:.4g}", "black", anchor="ma")
    for place, value in y_ticks:
        draw.line([(_LEFT, place), (_RIGHT, place)], _GRID)
        draw.text((_LEFT - 6, place), f"{value:.4g}", "black", anchor="rm")
    draw.text((WIDTH / 2, 6), _readable(title), "black", anchor="ma")
    draw.text((_LEFT, _TOP - 6), _readable(y_label), "black", anchor="ls")
    draw.text((_RIGHT, HEIGHT - 8), _readable(x_label), "black", anchor="rs")
    edges = np.flatnonzero(np.diff(np.concatenate([[False], shown, [False]]).astype(np.int8)))
    for first, end in edges.reshape(-1, 2).tolist():
        points = [*zip(columns[first:end].tolist(), rows[first:end].tolist(), strict=True)]
        draw.line(points, _LINE, width=2)
        if len(points) == 1:  # between gaps
            draw.circle(points[0], 2, _LINE)
    return np.asarray(picture)


def _placed(
    values: npt.NDArray[np.float64], shown: npt.NDArray[np.bool_], start: int, end: int
) -> tuple[npt.NDArray[np.float64], list[tuple[float, float]]]:
    """The pixel of each value, and the pixels and values of ticks; those that are not shown lie anywhere."""
    values = np.where(shown, values, 0.0)
    low, high = (values[shown].min(), values[shown].max()) if shown.any() else (0.0, 1.0)
    if not low / 2 < high / 2:
        return np.full(values.shape, (start + end) / 2), [((start + end) / 2, float(low))]
    # Of halves, since the span of float64's whole range would be infinite.
    shares = (values / 2 - low / 2) / (high / 2 - low / 2)
    ticks = np.linspace(0, 1, _TICKS)
    places, numbers = start + ticks * (end - start), low * (1 - ticks) + high * ticks
    return start + shares * (end - start), [*zip(places.tolist(), numbers.tolist(), strict=True)]


def _readable(text: str) -> str:
    return " ".join(text.split())[:_LONGEST_TEXT].encode("latin-1", "replace").decode("latin-1")
