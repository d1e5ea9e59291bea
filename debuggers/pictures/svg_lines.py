"""Line charts as inline SVG, whose colours follow the page."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from debuggers.pictures.html_page import safe
from debuggers.pictures.names import told_apart
from debuggers.pictures.numbers import (
    Floats,
    even_ticks,
    fits_logarithm,
    non_finite_words,
    number_text,
    shares_between,
    thinned,
    tick_texts,
)

Lines = Mapping[str, tuple[npt.NDArray[np.int64] | Floats, Floats]]
"""Steps and values of each name, (n,) each."""
_WIDTH, _HEIGHT = 520, 190
_LEFT, _RIGHT, _TOP, _BOTTOM = 62, 508, 14, 160
_MOST_POINTS, _MOST_LINES = 600, 5
_LONGEST_NAME = 60


def line_chart(title: str, lines: Lines, *, unit: str = "", marks: Sequence[int] = ()) -> str:
    """Returns a figure with a line for each name over the steps, at most five.

    The scale is logarithmic where all values are positive and the largest is over 1,000 times the smallest. A line has
    a gap where it is not finite; a triangle at the top stands there, and the caption counts them.

    Args:
        title: Stands below, and is read aloud.
        lines: What to draw.
        unit: Of the values; empty for none.
        marks: Steps that get a vertical line.
    """
    drawn = {name: (x.astype(np.float64), y) for name, (x, y) in list(lines.items())[:_MOST_LINES]}
    steps = np.concatenate([x for x, _ in drawn.values()] or [np.empty(0)])
    values = np.concatenate([y for _, y in drawn.values()] or [np.empty(0)])
    log = fits_logarithm(values)
    notes = [title, unit, _last(drawn), "log scale" if log else "", non_finite_words(values)]
    caption = safe(", ".join(filter(None, notes)))
    if not steps.size:
        return f"<figure><figcaption>{caption}: no values</figcaption></figure>"
    axes = _Axes(steps, values, log)
    parts = [axes.drawn(), *(axes.mark(step) for step in marks if axes.first <= step <= axes.last)]
    parts += [axes.line(x, y, f"var(--c{number})") for number, (x, y) in enumerate(drawn.values())]
    if len(drawn) > 1:
        labels = told_apart(list(drawn), _LONGEST_NAME)
        keys = (
            f'<span class="key"><span style="color:var(--c{number})">■</span> {safe(name)}</span>'
            for number, name in enumerate(labels)
        )
        legend = f"<br>{' '.join(keys)}"
    else:
        legend = ""
    picture = f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT}" role="img" aria-label="{caption}">{"".join(parts)}</svg>'
    return f'<figure class="line">{picture}<figcaption>{caption}{legend}</figcaption></figure>'


def _last(drawn: Mapping[str, tuple[Floats, Floats]]) -> str:
    """The last finite value of a single line."""
    if len(drawn) != 1:
        return ""
    ((_, y),) = drawn.values()
    finite = y[np.isfinite(y)]
    return f"last {number_text(float(finite[-1]))}" if len(finite) > 1 else ""


class _Axes:
    """Where steps and values lie in the picture."""

    def __init__(self, steps: Floats, values: Floats, log: bool) -> None:
        finite = values[np.isfinite(values)]
        self.first, self.last = float(steps.min()), float(steps.max())
        self._low, self._high = (float(finite.min()), float(finite.max())) if finite.size else (0.0, 1.0)
        self._log = log

    def drawn(self) -> str:
        ticks = even_ticks(self._low, self._high, log=self._log, most=4)
        parts = []
        for text, place in zip(tick_texts(ticks), self._heights(self._scaled(ticks)).tolist(), strict=True):
            parts.append(
                f'<line x1="{_LEFT}" x2="{_RIGHT}" y1="{place:.1f}" y2="{place:.1f}" stroke="var(--grid)"/>'
                f'<text x="{_LEFT - 6}" y="{place + 4:.1f}" text-anchor="end">{text}</text>'
            )
        ends = ((self.first, "start"), (self.last, "end")) if self.first < self.last else ((self.first, "middle"),)
        for step, anchor in ends:
            place = self._columns(np.array([step]))[0]
            text = f"step {step:,.0f}"
            parts.append(f'<text x="{place:.1f}" y="{_BOTTOM + 16}" text-anchor="{anchor}">{text}</text>')
        return "".join(parts)

    def mark(self, step: int) -> str:
        place = self._columns(np.array([float(step)]))[0]
        return (
            f'<line x1="{place:.1f}" x2="{place:.1f}" y1="{_TOP}" y2="{_BOTTOM}" stroke="var(--bad)" '
            f'stroke-dasharray="4 3"><title>step {step}</title></line>'
        )

    def line(self, x: Floats, y: Floats, colour: str) -> str:
        x, y = thinned(x, y, _MOST_POINTS)
        finite = np.isfinite(y)
        columns, heights = self._columns(x), np.zeros(len(y))
        heights[finite] = self._heights(self._scaled(y[finite]))
        path, parts, drawn = [], [], False
        for known, column, height in zip(finite.tolist(), columns.tolist(), heights.tolist(), strict=True):
            if known:
                path.append(f"{'L' if drawn else 'M'}{column:.1f} {height:.1f}")
            else:
                parts.append(
                    f'<path d="M{column - 4:.1f} 2h8l-4 8z" fill="var(--bad)"><title>not finite</title></path>'
                )
            drawn = known
        if path:
            parts.append(f'<path d="{" ".join(path)}" fill="none" stroke="{colour}" stroke-width="1.8"/>')
        # A point between gaps has no line.
        lonely = finite & ~np.r_[False, finite[:-1]] & ~np.r_[finite[1:], False]
        parts += [
            f'<circle cx="{column:.1f}" cy="{height:.1f}" r="3" fill="{colour}"/>'
            for column, height in zip(columns[lonely].tolist(), heights[lonely].tolist(), strict=True)
        ]
        return "".join(parts)

    def _columns(self, steps: Floats) -> Floats:
        return _LEFT + shares_between(steps, self.first, self.last) * (_RIGHT - _LEFT)

    def _scaled(self, values: Floats) -> Floats:
        return np.log10(values) if self._log else values

    def _heights(self, scaled: Floats) -> Floats:
        low, high = self._scaled(np.array([self._low, self._high])).tolist()
        return _BOTTOM - shares_between(scaled, low, high) * (_BOTTOM - _TOP)
