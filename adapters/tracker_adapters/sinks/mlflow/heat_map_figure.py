"""Draws heat maps on one canvas, since making axes and ticks anew takes most of a picture's time."""

import io
import math
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

_TICKS = 6
_LEAST_DISTANCE = 1 / 12
_FEWEST = 3
_LEAST_SHARE = 1e-4
"""What is rarer has the darkest colour; where nothing is, there is none."""


class HeatMapFigure:
    """A figure with axes; not for several threads at once."""

    def __init__(self) -> None:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.colors import LogNorm
        from matplotlib.figure import Figure

        self._figure = Figure(figsize=(8, 4), dpi=90)
        self._figure.subplots_adjust(left=0.11, right=1.02, bottom=0.13, top=0.91)
        self._canvas = FigureCanvasAgg(self._figure)
        self._axes = self._figure.add_subplot()
        self._axes.set_xlabel("step")
        # One scale for all steps and names: a colour means the same share everywhere.
        norm = LogNorm(_LEAST_SHARE, 1, clip=False)
        self._image = self._axes.imshow(
            np.ones((1, 1)), norm=norm, cmap="viridis", origin="lower", aspect="auto", interpolation="nearest"
        )
        self._figure.colorbar(self._image, pad=0.02, label="share of the elements", extend="min")
        (self._marks,) = self._axes.plot([], [], "rv", markersize=5, clip_on=False, label="NaN or infinity")
        self._legend = self._axes.legend(loc="upper left", fontsize="small")
        # What all pictures share, the scale of the colours, is drawn once.
        self._axes.set_visible(False)
        self._canvas.draw()
        self._shared = self._canvas.copy_from_bbox(self._figure.bbox)
        self._axes.set_visible(True)

    def png(
        self,
        title: str,
        shares: npt.NDArray[np.float64],
        *,
        steps: Sequence[int],
        grid: npt.NDArray[np.float64],
        scale: float,
        marked: Sequence[int],
    ) -> bytes:
        """Returns a picture as PNG.

        Args:
            title: As it is; nothing in it is taken for a formula.
            shares: (rows, columns), the lowest row first: the share of a column's elements, from 0 to 1.
            steps: (columns,): what the horizontal axis says.
            grid: (rows + 1,): the edges of the rows as asinh(value / scale).
            scale: See ``grid``.
            marked: Columns with a red mark, explained as NaN or infinity.
        """
        from matplotlib.image import imsave

        axes, (left, right, bottom, top) = self._axes, (-0.5, len(steps) - 0.5, float(grid[0]), float(grid[-1]))
        axes.set_title(title, parse_math=False)
        self._image.set(data=np.ma.masked_less_equal(shares, 0), extent=(left, right, bottom, top))
        axes.set(xlim=(left, right), ylim=(bottom, top))
        ticks = np.unique(np.linspace(0, len(steps) - 1, _TICKS).astype(int))
        axes.set_xticks(ticks, [str(steps[tick]) for tick in ticks])
        values = round_values(scale * math.sinh(bottom), scale * math.sinh(top), scale)
        axes.set_yticks([math.asinh(value / scale) for value in values], [f"{value:.6g}" for value in values])
        self._marks.set_data(marked, [top] * len(marked))
        self._legend.set_visible(bool(marked))
        self._canvas.restore_region(self._shared)
        self._figure.draw_artist(axes)
        stream = io.BytesIO()
        imsave(stream, self._canvas.buffer_rgba(), format="png", dpi=self._figure.dpi)
        return stream.getvalue()


def round_values(low: float, high: float, scale: float) -> list[float]:
    """Returns numbers from ``low`` to ``high`` for an axis of asinh(value / scale), no two of them close together.

    They are 0 and 1, 2 or 5 times powers of ten, the rounder ones first; where the range has few of them, numbers at
    equal distances on the axis.
    """
    bottom, top = math.asinh(low / scale), math.asinh(high / scale)
    least = _LEAST_DISTANCE * (top - bottom)
    largest = max(abs(low), abs(high))
    exponents = range(math.floor(math.log10(largest)) - 12, math.floor(math.log10(largest)) + 1) if largest else ()
    found: dict[float, float] = {}
    for factor in (0, 1, 5, 2):
        for exponent in exponents:
            for value in (factor * 10.0**exponent, -factor * 10.0**exponent):
                place = math.asinh(value / scale)
                if low <= value <= high and all(abs(place - other) >= least for other in found.values()):
                    found[value] = place
    if len(found) < _FEWEST:
        return [scale * math.sinh(place) for place in np.linspace(bottom, top, 9).tolist()]
    return sorted(found)
