"""The histograms of one name as a heat map and a table, bounded however long the run grows."""

import math
from datetime import UTC, datetime

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import Histogram
from tracker_adapters.sink import HistogramColumns
from tracker_adapters.sinks.mlflow.heat_map_figure import HeatMapFigure

MAX_COLUMNS = 128
_MAX_BINS = 64
_ROWS = 96
_PERCENTILES = (1, 5, 25, 50, 75, 95, 99)
_COUNTS = ("count", "nan", "pos_inf", "neg_inf", "zero")
_COLUMNS = (
    "name", "first_step", "step", "histograms", "time", *_COUNTS, "min", *(f"p{q}" for q in _PERCENTILES),
    "max", "mean", "std", "edges", "counts",
)  # fmt: skip


class HistogramSeries:
    """The histograms of one name, in order of arrival, in at most ``MAX_COLUMNS`` columns of equal size.

    When all columns are used, neighbours are merged (exactly): in a long run a column covers 2, 4, 8… histograms.
    """

    def __init__(self) -> None:
        self.columns: list[Histogram] = []
        self.first_steps: list[int] = []
        self.sizes: list[int] = []
        self.total = 0
        self.drawn_total = 0
        self._stride = 1

    def add(self, histogram: Histogram) -> None:
        """Appends a histogram, merging it into the last column while that one has room."""
        self.total += 1
        if self.sizes and self.sizes[-1] < self._stride:
            self.columns[-1] = self.columns[-1].merge(histogram)
            self.sizes[-1] += 1
            return
        if len(self.columns) == MAX_COLUMNS:
            self.columns = [a.merge(b) for a, b in zip(self.columns[::2], self.columns[1::2], strict=True)]
            self.first_steps = self.first_steps[::2]
            self._stride *= 2
            self.sizes = [self._stride] * len(self.columns)
        self.columns.append(histogram)
        self.first_steps.append(histogram.step)
        self.sizes.append(1)

    def table(self) -> dict[str, object]:
        """Returns one row a column, in the form of pandas' ``orient="split"``, which MLflow shows as a table.

        ``edges`` and ``counts`` hold the finite values as at most 64 bins; the statistics are over them too.
        """
        shapes = HistogramColumns.of(self.columns).shapes_and_percentiles(_MAX_BINS, _PERCENTILES)
        rows = zip(self.columns, self.first_steps, self.sizes, shapes, strict=True)
        return {"columns": _COLUMNS, "data": [_row(*row) for row in rows]}

    def heat_map(self, figure: HeatMapFigure) -> bytes:
        """Returns a picture as PNG: values upwards, steps to the right, log colours.

        The value axis is linear around zero and logarithmic beyond the median standard deviation (asinh), so
        that one exploding step leaves the others readable. Columns with NaN or infinities are marked in red.
        """
        scale, grid = _value_grid(self.columns)
        shapes = HistogramColumns.of(self.columns).shapes()
        shares = np.stack([_shares(edges, counts, scale, grid) for edges, counts in shapes], axis=1)
        return figure.png(
            _title(self.columns[0].name),
            shares,
            steps=self.first_steps,
            grid=grid,
            scale=scale,
            marked=[i for i, column in enumerate(self.columns) if column.finite_count < column.count],
        )


def _row(
    histogram: Histogram,
    first_step: int,
    size: int,
    shape: tuple[npt.NDArray[np.float64], npt.NDArray[np.int64], npt.NDArray[np.float64]],
) -> list[object]:
    edges, counts, percentiles = shape
    time = datetime.fromtimestamp(histogram.time_ns / 1e9, UTC).isoformat(timespec="milliseconds")
    numbers = [histogram.min, *percentiles.tolist(), histogram.max, histogram.mean, histogram.std]
    return [
        histogram.name, first_step, histogram.step, size, time,
        *(getattr(histogram, key) for key in _COUNTS),
        *(number if math.isfinite(number) else None for number in numbers),
        edges.tolist(), counts.tolist(),
    ]  # fmt: skip


def _value_grid(columns: list[Histogram]) -> tuple[float, npt.NDArray[np.float64]]:
    """The unit of the asinh axis, and the edges of its rows in that axis."""
    filled = [column for column in columns if column.finite_count]
    low = min((column.min for column in filled), default=0.0)
    high = max((column.max for column in filled), default=0.0)
    largest = max(abs(low), abs(high)) or 1.0
    widths = [column.std for column in filled if 0 < column.std < math.inf]
    # Beyond nine decades below the largest value nothing could be told apart, and sinh would overflow.
    scale = max(float(np.median(widths)) if widths else largest, largest * 1e-9)
    bottom, top = math.asinh(low / scale), math.asinh(high / scale)
    margin = (top - bottom) * 0.01 or 0.1
    return scale, np.linspace(bottom - margin, top + margin, _ROWS + 1)


def _shares(
    edges: npt.NDArray[np.float64], counts: npt.NDArray[np.int64], scale: float, grid: npt.NDArray[np.float64]
) -> npt.NDArray[np.float64]:
    """The share of a histogram's finite elements in each row; (rows,), zeros when there is none."""
    if not counts.size:
        return np.zeros(grid.size - 1)
    cumulative = np.concatenate([[0], np.cumsum(counts)]) / counts.sum()
    shares: npt.NDArray[np.float64] = np.diff(np.interp(grid, np.arcsinh(edges / scale), cumulative))
    return shares


def _title(name: str) -> str:
    """The name as far as the picture's font has it: Latin letters."""
    shown = "".join(char if char.isprintable() and char < "ɐ" else "?" for char in name)
    return shown if len(shown) <= 80 else shown[:77] + "..."
