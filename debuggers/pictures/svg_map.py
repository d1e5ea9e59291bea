"""Heat maps of layers over steps as inline SVG: the cells are one picture inside it, so that a map stays small."""

import base64

import numpy as np
import numpy.typing as npt
from tracker_adapters.values.png import encode

from debuggers.pictures.colours import INFINITE_COLOUR, NAN_COLOUR, VIRIDIS, viridis
from debuggers.pictures.html_page import safe
from debuggers.pictures.names import told_apart
from debuggers.pictures.numbers import Floats, fits_logarithm, non_finite_words, number_text, pooled, shares_between
from debuggers.pictures.svg_lines import Lines

_WIDTH, _NAMES, _ROW, _TOP = 1040, 220, 16, 6
_MOST_ROWS, _MOST_COLUMNS = 48, 400
_LONGEST_NAME = 34
_SCALE = ",".join(f"rgb{colour}" for colour in VIRIDIS)


def layers_over_steps(layers: Lines) -> tuple[Floats, Floats, npt.NDArray[np.bool_]]:
    """Puts series on one axis.

    Returns:
        ``(table, steps, measured)``: values (layers, steps), the steps (n,), and where there was a value at all.
    """
    steps = np.unique(np.concatenate([x for x, _ in layers.values()] or [np.empty(0)])).astype(np.float64)
    table, measured = np.full((len(layers), len(steps)), np.nan), np.zeros((len(layers), len(steps)), bool)
    for row, (x, y) in enumerate(layers.values()):
        places = np.searchsorted(steps, x)
        table[row, places], measured[row, places] = y, True
    return table, steps, measured


def heat_map(title: str, layers: Lines, *, unit: str = "") -> str:
    """Returns a figure with a row for each layer and a column for each step that has a value.

    Of joined steps the largest value is shown. The scale is logarithmic where that is needed. What is not finite has
    colours of its own; what was not measured has none.

    Args:
        title: Stands below, and is read aloud.
        layers: Of more than 48, 48 are chosen evenly.
        unit: Of the values; empty for none.
    """
    names = list(layers)
    chosen = np.unique(np.linspace(0, len(names) - 1, min(len(names), _MOST_ROWS)).astype(int)).tolist()
    table, steps, measured = layers_over_steps({names[row]: layers[names[row]] for row in chosen})
    counted = non_finite_words(table[measured])
    # Zeros, as of units that are dead, must not keep the others from a logarithmic scale; they get its lowest colour.
    zeros = measured & (table == 0)
    log = fits_logarithm(np.where(zeros, np.nan, table))
    if log:
        table = np.where(zeros, table[table > 0].min(), table)
    nothing = f"{np.count_nonzero(zeros):,} zero" if log and zeros.any() else ""
    few = f"{len(chosen)} of {len(names)} layers" if len(chosen) < len(names) else ""
    caption = safe(", ".join(filter(None, [title, unit, "log scale" if log else "", nothing, counted, few])))
    if not table.size:
        return f"<figure><figcaption>{caption}: no values</figcaption></figure>"
    finite = table[np.isfinite(table)]
    low, high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
    pixels = _pixels(np.where(measured, table, -np.inf), low, high, log)
    data, bottom = base64.b64encode(encode(pixels)).decode(), _TOP + len(chosen) * _ROW
    parts = [
        f'<image href="data:image/png;base64,{data}" x="{_NAMES}" y="{_TOP}" width="{_WIDTH - _NAMES - 8}" '
        f'height="{bottom - _TOP}" preserveAspectRatio="none" style="image-rendering:pixelated"/>'
    ]
    shown = [names[row] for row in chosen]
    for row, (name, label) in enumerate(zip(shown, told_apart(shown, _LONGEST_NAME), strict=True)):
        place = _TOP + row * _ROW + 12
        parts.append(
            f'<text x="{_NAMES - 8}" y="{place}" text-anchor="end">{safe(label)}<title>{safe(name)}</title></text>'
        )
    parts.append(f'<text x="{_NAMES}" y="{bottom + 16}">step {steps[0]:,.0f}</text>')
    if len(steps) > 1:
        parts.append(f'<text x="{_WIDTH - 8}" y="{bottom + 16}" text-anchor="end">step {steps[-1]:,.0f}</text>')
    legend = (
        f' &nbsp; {number_text(low)} <span style="display:inline-block;width:90px;height:10px;'
        f'background:linear-gradient(to right,{_SCALE})"></span> {number_text(high)}'
    )
    for name, colour in (("NaN", NAN_COLOUR), ("infinite", INFINITE_COLOUR)) if counted else ():
        legend += f' &nbsp; <span style="color:{colour}">■</span> {name}'
    return (
        f'<figure style="flex-basis:100%"><svg viewBox="0 0 {_WIDTH} {bottom + 22}" role="img" aria-label="{caption}">'
        f"{''.join(parts)}</svg><figcaption>{caption}{legend}</figcaption></figure>"
    )


def _pixels(table: Floats, low: float, high: float, log: bool) -> npt.NDArray[np.uint8]:
    """The colours (rows, columns, 4); -infinity stands for what was not measured, which is transparent."""
    if table.shape[1] > _MOST_COLUMNS:  # what was not measured must not hide its neighbours
        table = pooled(np.where(table == -np.inf, -np.finfo(float).max, table), _MOST_COLUMNS)
    finite = np.isfinite(table) & (table > -np.finfo(float).max)
    pixels = np.zeros((*table.shape, 4), np.uint8)
    ends = np.log10([low, high]) if log else np.array([low, high])
    known = np.log10(table[finite]) if log else table[finite]
    pixels[finite, :3], pixels[finite, 3] = viridis(shares_between(known, *ends.tolist())), 255
    for mask, colour in ((np.isnan(table), NAN_COLOUR), (table == np.inf, INFINITE_COLOUR)):
        pixels[mask] = (*bytes.fromhex(colour[1:]), 255)
    return pixels
