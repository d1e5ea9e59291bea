"""Figures of matplotlib: distributions, lines over steps, maps, and ridges of histograms."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tracker_adapters.histograms.histogram import Histogram

from debuggers.pictures.canvas import GRID, finished, new_axes, plain_ticks, readable
from debuggers.pictures.colours import INFINITE_COLOUR, NAN_COLOUR, OKABE_ITO, viridis
from debuggers.pictures.names import told_apart
from debuggers.pictures.numbers import (
    Floats,
    binned,
    even_ticks,
    fits_logarithm,
    non_finite_words,
    number_text,
    pooled,
    shares_between,
    summary_words,
    thinned,
)

_MOST_POINTS = 4000
_MOST_ROWS, _MOST_COLUMNS = 60, 800
_MOST_RIDGES = 40
_LONGEST_ROW, _LONGEST_COLUMN, _ROOM = 40, 12, 80
"""Characters of a row's name, of a column's, and of all that stand below a map."""


def distribution(title: str, values: Floats, bins: int) -> Any:
    """Returns how many values are in each of ``bins`` bins of equal width; NaN and infinities are counted above."""
    edges, counts = binned(_drawable(values.reshape(-1)), bins)
    figure, axes = new_axes(title, summary_words(values), "value", "number of values")
    if len(counts):
        low, high = float(edges[0]), float(edges[-1])
        # Equal values are a thin bar in the middle.
        around = 0.0 if low < high else abs(low) or 1.0
        left, width = (edges[:-1], np.diff(edges)) if low < high else (edges[:-1] - around / 40, around / 20)
        axes.bar(left, counts, width=width, align="edge", color=OKABE_ITO[0], edgecolor="white", linewidth=0.5)
        axes.set_xlim(low - around, high + around)
        plain_ticks(axes.xaxis, even_ticks(low, high))
        plain_ticks(axes.yaxis, even_ticks(0, float(counts.max())))
    else:
        _say(axes, "no finite values")
    return finished(figure)


def lines(title: str, series: Mapping[str, tuple[Floats, Floats]], *, y_label: str, log: bool | None = None) -> Any:
    """Returns lines over the steps, with a gap and a mark at the top where a value is not finite.

    ``log`` is chosen by the values unless it is given; a logarithmic scale leaves out what is not positive.
    """
    values = np.concatenate([y for _, y in series.values()] or [np.empty(0)])
    log = fits_logarithm(values) if log is None else log and bool((values > 0).any())
    figure, axes = new_axes(title, non_finite_words(values), "step", f"{y_label} (log scale)" if log else y_label)
    for number, (name, (steps, heights)) in enumerate(series.items()):
        x, y = thinned(_drawable(steps), _drawable(heights), _MOST_POINTS)
        finite = np.isfinite(y) & ((y > 0) if log else True)
        colour, style = OKABE_ITO[number % len(OKABE_ITO)], ("-", "--", ":")[number // len(OKABE_ITO) % 3]
        marker = "o" if len(x) <= 50 else ""
        axes.plot(
            x,
            np.where(finite, y, np.nan),
            style,
            marker=marker,
            color=colour,
            linewidth=1.3,
            markersize=3,
            label=readable(name),
        )
        wrong = x[~np.isfinite(y)]
        axes.plot(
            wrong,
            np.ones(len(wrong)),
            "v",
            color=NAN_COLOUR,
            markersize=6,
            clip_on=False,
            transform=axes.get_xaxis_transform(),
        )
    known = _drawable(values[np.isfinite(values) & ((values > 0) if log else True)])
    if log:
        axes.set_yscale("log")
    if known.size:
        plain_ticks(axes.yaxis, even_ticks(float(known.min()), float(known.max()), log=log))
    else:
        _say(axes, "no finite values")
    steps = np.concatenate([x for x, _ in series.values()] or [np.empty(0)])
    if steps.size:
        plain_ticks(
            axes.xaxis, ticks := even_ticks(float(steps.min()), float(steps.max())), [f"{one:.10g}" for one in ticks]
        )
    axes.grid(color=GRID)
    if len(series) > 1:
        axes.legend(fontsize=8, facecolor="white", edgecolor=GRID, loc="best")
    return finished(figure)


def layer_map(
    title: str, table: Floats, rows: Sequence[str], columns: Sequence[str], *, axes_names: tuple[str, str], value: str
) -> Any:
    """Returns a map with a colour for each cell; NaN and infinities have colours of their own, named in the title.

    The colours are logarithmic where values are positive and the largest is over 1,000 times the smallest. Of joined
    columns the largest value is shown; of more than 60 rows, 60 are chosen evenly.
    """
    chosen: list[int] = (
        np.unique(np.linspace(0, len(rows) - 1, min(len(rows), _MOST_ROWS)).astype(int)).tolist() if rows else []
    )
    shown = pooled(table[chosen], _MOST_COLUMNS) if table.size else table
    log, wrong = fits_logarithm(table), non_finite_words(table)
    notes = [f"{wrong} (NaN orange, infinite pink)" if wrong else ""]
    notes += [f"{len(chosen)} of {len(rows)} rows"] if len(chosen) < len(rows) else []
    height = max(2.6, 1.4 + 0.2 * len(chosen))
    figure, axes = new_axes(title, ", ".join(filter(None, notes)), *axes_names, height=min(height, 12))
    finite = np.isfinite(shown)
    if not table.size:
        _say(axes, "no values")
        return finished(figure)
    from matplotlib.cm import ScalarMappable
    from matplotlib.colors import ListedColormap, Normalize

    scaled = np.log10(np.where(finite, shown, 1.0)) if log else np.where(finite, shown, 0.0)
    low, high = (float(scaled[finite].min()), float(scaled[finite].max())) if finite.any() else (0.0, 1.0)
    pixels = viridis(shares_between(scaled, low, high).clip(0, 1))
    for mask, colour in ((np.isnan(shown), NAN_COLOUR), (np.isinf(shown), INFINITE_COLOUR)):
        pixels[mask] = tuple(bytes.fromhex(colour[1:]))
    axes.imshow(pixels, aspect="auto", interpolation="nearest")
    labels = told_apart([str(rows[row]) for row in chosen], _LONGEST_ROW)
    plain_ticks(axes.yaxis, np.arange(len(chosen), dtype=float), list(map(readable, labels)))
    named = range(0, len(columns), _stride(columns))
    plain_ticks(
        axes.xaxis,
        np.array(named) * (shown.shape[1] - 1) / max(1, len(columns) - 1),
        [readable(str(columns[one])[:_LONGEST_COLUMN]) for one in named],
    )
    if finite.any() and low < high:
        colours = ScalarMappable(Normalize(0, 1), ListedColormap(viridis(np.linspace(0, 1, 256)) / 255))
        bar = figure.colorbar(colours, ax=axes, pad=0.02)
        bar.set_label(readable(f"{value} (log scale)" if log else value), fontsize=9, parse_math=False)
        ticks = even_ticks(10**low, 10**high, log=True) if log else even_ticks(low, high)
        places = shares_between(np.log10(ticks) if log else ticks, low, high)
        plain_ticks(bar.ax.yaxis, places, [number_text(one) for one in ticks.tolist()])
    return finished(figure)


def ridge(title: str, histograms: Sequence[Histogram]) -> Any:
    """Returns a histogram for each step above the last, oldest at the bottom; at most 40 of them, chosen evenly."""
    chosen = np.unique(np.linspace(0, len(histograms) - 1, min(len(histograms), _MOST_RIDGES)).astype(int)).tolist()
    shown = [histograms[one] for one in chosen]
    wrong = sum(one.nan + one.pos_inf + one.neg_inf for one in histograms)
    figure, axes = new_axes(title, f"{wrong:,} NaN or infinite" if wrong else "", "value", "step", height=4.5)
    known = [one for one in shown if one.finite_count]
    if not known:
        _say(axes, "no finite values")
        return finished(figure)
    low, high = _drawable(np.array([min(one.min for one in known), max(one.max for one in known)])).tolist()
    grid = low * (1 - np.linspace(0, 1, 121)) + high * np.linspace(0, 1, 121)
    for row, one in enumerate(shown):
        if not one.finite_count:
            continue
        edges, counts = one.edges()
        share = np.interp(grid, edges, np.concatenate([[0], np.cumsum(counts)])) / one.finite_count
        heights = np.diff(share)
        heights = heights / (heights.max() or 1) * 2.2
        middles = (grid[:-1] + grid[1:]) / 2
        colour = viridis(np.array(row / max(1, len(shown) - 1))) / 255
        axes.fill_between(middles, row, row + heights, color=colour, alpha=0.75, linewidth=0, zorder=-row)
        axes.plot(middles, row + heights, color="white", linewidth=0.8, zorder=-row)
    plain_ticks(
        axes.yaxis,
        np.arange(0, len(shown), max(1, len(shown) // 8), dtype=float),
        [f"{shown[one].step:,}" for one in range(0, len(shown), max(1, len(shown) // 8))],
    )
    plain_ticks(axes.xaxis, even_ticks(low, high))
    return finished(figure)


def _stride(columns: Sequence[str]) -> int:
    """How many columns lie from one name to the next, so that their names have room."""
    longest = max(min(len(str(name)), _LONGEST_COLUMN) for name in columns)
    least = len(columns) * (longest + 3) / _ROOM
    strides = (one * int(10**power) for power in range(18) for one in (1, 2, 5))
    return next(stride for stride in strides if stride >= least)


def _drawable(values: Floats) -> Floats:
    """Moves what matplotlib cannot place, beyond 1e300 and below 1e-300, to the nearest that it can."""
    near = np.where(np.abs(values) < 1e-300, 0.0, values)
    return np.where(np.isfinite(near), np.clip(near, -1e300, 1e300), near)


def _say(axes: Any, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes)
