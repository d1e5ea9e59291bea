"""TerminalVisualizer: histograms, lines, heat maps and tables of layers as text, for machines without a display."""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from tracker_adapters.errors import ArtifactError

from debuggers.pictures.cells import cells, characters_for, fitted
from debuggers.pictures.dots import draw_line
from debuggers.pictures.names import told_apart
from debuggers.pictures.numbers import (
    as_floats,
    as_points,
    as_table,
    binned,
    fits_logarithm,
    non_finite_words,
    number_text,
    pooled,
    shares_between,
    summary_words,
)

SMALLEST = (40, 6)
_NAMES = 24
_TREND = 16


class TerminalVisualizer:
    """Draws pictures as text of at most ``width`` × ``height`` cells; each method returns one, without a last newline.

    Values may be sequences, arrays, or tensors on any device. NaN and infinities are counted and marked, and stay out
    of the scales.

    Args:
        width: Columns of the terminal, at least 40.
        height: Its rows, at least 6.
        unicode: Whether to use block and Braille characters; by default if the stream's encoding has them.
        stream: Where the text will be printed; standard output by default.

    Raises:
        ArtifactError: If the terminal is smaller.
    """

    def __init__(self, width: int = 80, height: int = 24, *, unicode: bool | None = None, stream: Any = None) -> None:
        for name, value, least in zip(("width", "height"), (width, height), SMALLEST, strict=True):
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ArtifactError(f"{name} is {value!r}; expected an integer of at least {least}")
        self.width, self.height = width, height
        self._characters = characters_for(unicode, stream)

    def ascii_histogram(self, values: Any, bins: int = 10, title: str = "") -> str:
        """Draws a row for each bin: its range, a bar, and how many values it has.

        Args:
            values: Of any shape.
            bins: Bins of equal width between the smallest and the largest finite value; at most as many as the
                height has room for.
            title: A line above it.
        """
        flat = as_floats("histogram", values).reshape(-1)
        head = self._head(title, summary_words(flat))
        edges, counts = binned(flat, bins)
        if len(counts) > self.height - len(head):
            edges, counts = binned(flat, max(1, self.height - len(head)))
        if not len(counts):
            return _joined([*head, "no finite values"])
        lefts = [number_text(edge) for edge in edges[:-1].tolist()]
        rights = [number_text(edge) for edge in edges[1:].tolist()]
        numbers = [f"{count:,}" for count in counts.tolist()]
        left, right, most = (max(map(len, texts)) for texts in (lefts, rights, numbers))
        room = self.width - left - right - most - len(self._span) - 3
        rows = [
            f"{low:>{left}}{self._span}{high:>{right}} {self._characters.wall}{self._bar(share, room)} {number:>{most}}"
            for low, high, number, share in zip(lefts, rights, numbers, (counts / counts.max()).tolist(), strict=True)
        ]
        return _joined([*head, *rows])

    def ascii_line_plot(self, x: Any, y: Any, title: str = "", *, log: bool = False) -> str:
        """Draws y over x, with the range of both; a mark at the top stands where y is not finite.

        Args:
            x: (n,), such as steps; points where it is not finite are left out.
            y: (n,).
            title: A line above it.
            log: Whether the scale of y is logarithmic; values that are not positive are left out and counted.
        """
        places, values = as_points("line plot", x, y)
        known = np.isfinite(places)
        places, values = places[known], values[known]
        notes = [f"{values.size:,} point{'' if values.size == 1 else 's'}", non_finite_words(values)]
        if missing := int((~known).sum()):
            notes.append(f"{missing:,} without x")
        if log:
            lost = np.isfinite(values) & (values <= 0)
            notes.append(f"log scale{f', {lost.sum():,} not positive' if lost.any() else ''}")
            places, values = places[~lost], values[~lost]
        head = self._head(title, ", ".join(filter(None, notes)))
        finite = np.isfinite(values)
        if not finite.any():
            return _joined([*head, "no finite values"])
        low, high = float(values[finite].min()), float(values[finite].max())
        first, last = float(places.min()), float(places.max())
        labels = [number_text(high), number_text(low)]
        gutter = max(map(len, labels))
        columns, rows = self.width - gutter - 2, max(1, self.height - len(head) - 2)
        heights = np.full(values.shape, np.nan)
        scaled = np.log10 if log else np.asarray
        heights[finite] = shares_between(scaled(values[finite]), *scaled(np.array([low, high])).tolist())
        picture = draw_line(shares_between(places, first, last), heights, columns, rows, self._characters)
        sides = [""] * rows
        sides[rows // 2 if low == high else -1], sides[rows // 2 if low == high else 0] = reversed(labels)
        lines = [f"{side:>{gutter}} {self._characters.wall}{row}" for side, row in zip(sides, picture, strict=True)]
        floor = " " * (gutter + 1) + self._characters.corner + self._characters.floor * columns
        scale = self._scale(gutter + 2, first, last, columns)
        return _joined([*head, *lines, floor, scale])

    def heat_map(self, values: Any, layers: Sequence[str], steps: Any, title: str = "") -> str:
        """Draws a row for each layer and a column for each step; of joined steps the largest value is shown.

        The scale is logarithmic where all values are positive and the largest is over 1,000 times the smallest.

        Args:
            values: (layers, steps).
            layers: Their names; where there are more than rows, they are chosen evenly.
            steps: (steps,).
            title: A line above it.
        """
        table, places = as_table("heat map", values, layers, steps)
        if not table.size:
            return _joined([*self._head(title), "no values"])
        finite = table[np.isfinite(table)]
        log = fits_logarithm(table)
        shades, mark = self._characters.shades, self._characters.mark
        legend = ["no finite values"]
        if finite.size:
            low, high = float(finite.min()), float(finite.max())
            legend = [f"{shades[0]} = {number_text(low)}", f"{shades[-1]} = {number_text(high)}"]
        if finite.size < table.size:
            legend += ["? = NaN", f"{mark} = infinite", *non_finite_words(table).split(", ")]
        legend += ["log scale"] * log
        tail, count = self._legend(legend, len(layers), self.height - 2 - bool(title))
        chosen = np.unique(np.linspace(0, len(layers) - 1, count).astype(int)).tolist()
        names = min(_NAMES, max(cells(str(layers[row])) for row in chosen), self.width // 2)
        shown = pooled(table[chosen], self.width - names - 2)
        rows = []
        labels = told_apart([str(layers[row]) for row in chosen], names, self._characters.cut)
        for label, line in zip(labels, shown, strict=True):
            text = np.full(line.shape, "?")
            text[np.isinf(line)] = mark
            known = np.isfinite(line)
            if known.any():
                ends = np.log10([low, high]) if log else np.array([low, high])
                shares = shares_between(np.log10(line[known]) if log else line[known], *ends.tolist())
                text[known] = np.array(list(shades))[np.minimum(shares * len(shades), len(shades) - 1).astype(int)]
            name = fitted(label, names, self._characters)
            rows.append(f"{name} {self._characters.wall}{''.join(text.tolist())}")
        scale = self._scale(names + 2, float(places[0]), float(places[-1]), shown.shape[1])
        return _joined([*self._head(title), *rows, scale, *tail])

    def layer_table(self, layers: Mapping[str, Any], title: str = "") -> str:
        """Draws a row for each layer: its name, the course of its values, and the first, last, smallest and largest.

        Args:
            layers: The values of each layer over the steps, (n,) each.
            title: A line above it.
        """
        rows = [(str(name), as_floats(f"layer {name!r}", values).reshape(-1)) for name, values in layers.items()]
        if not rows:
            return _joined([*self._head(title), "no layers"])
        heads = ("first", "last", "min", "max")
        numbers = 10 if self.width >= 76 else 0  # a narrow terminal has room for the course only
        rest = self.width - (len(heads) * (numbers + 1) if numbers else 0)
        names = max(5, min(max(cells(name) for name, _ in rows), rest - _TREND - 1))
        trend = max(1, min(_TREND, rest - names - 1))
        columns = "".join(f" {head:>{numbers}}" for head in heads) if numbers else ""
        lines = [*self._head(title), f"{fitted('layer', names, self._characters)} {'trend':<{trend}}{columns}"]
        room = self.height - len(lines)
        shown = rows if len(rows) <= room else rows[: room - 1]
        labels = told_apart([name for name, _ in shown], names, self._characters.cut)
        for name, (_, values) in zip(labels, shown, strict=True):
            finite = values[np.isfinite(values)]
            ends = (values[0], values[-1]) if values.size else (None, None)
            extremes = (finite.min(), finite.max()) if finite.size else (None, None)
            texts = ["-" if value is None else number_text(float(value)) for value in (*ends, *extremes)]
            line = f"{fitted(name, names, self._characters)} {self._sparkline(values, trend)}"
            lines.append(line + ("".join(f" {text:>{numbers}}" for text in texts) if numbers else ""))
        if len(shown) < len(rows):
            lines.append(f"and {len(rows) - len(shown):,} more layers")
        return _joined(lines)

    def _sparkline(self, values: np.ndarray[Any, Any], width: int) -> str:
        line = pooled(values.reshape(1, -1), width)[0]
        finite = np.isfinite(line)
        text = np.full(line.shape, self._characters.mark)
        text[np.isnan(line)] = "?"
        if finite.any():
            known = np.log10(line[finite]) if fits_logarithm(line) else line[finite]
            levels = self._characters.levels
            shares = shares_between(known, float(known.min()), float(known.max()))
            text[finite] = np.array(list(levels))[np.minimum(shares * len(levels), len(levels) - 1).astype(int)]
        return "".join(text.tolist()).ljust(width)

    @property
    def _span(self) -> str:
        return " … " if self._characters.braille else " to "

    def _bar(self, share: float, width: int) -> str:
        bars = self._characters.bars
        steps = len(bars) - 1
        parts = max(1, round(share * width * steps)) if share > 0 else 0
        full, part = divmod(parts, steps)
        return (bars[-1] * full + (bars[part] if part else "")).ljust(width)

    def _scale(self, indent: int, first: float, last: float, width: int) -> str:
        """The line below a picture: where it begins and ends."""
        left, right = f"{first:.10g}", "" if first == last else f"{last:.10g}"
        blanks = max(1, width - len(left) - len(right)) if right else 0
        return f"{' ' * indent}{left}{' ' * blanks}{right}"[: self.width]

    def _legend(self, parts: Sequence[str], layers: int, room: int) -> tuple[list[str], int]:
        """The lines of a legend, and how many layers have a row in the rest of the room; it says if not all have."""
        lines = 1
        while True:
            rows = min(layers, room - lines)
            tail = self._in_lines([*parts, f"{rows} of {layers} layers"] if rows < layers else parts, room - 1)
            if len(tail) <= lines:
                return tail, rows
            lines = len(tail)  # they take the place of rows, which is one more thing to say

    def _in_lines(self, parts: Sequence[str], most: int) -> list[str]:
        """The parts with commas between them, in as few lines as they fit into, and at most so many."""
        lines = [parts[0]]
        for part in parts[1:]:
            joined = f"{lines[-1]}, {part}"
            if cells(joined) <= self.width or len(lines) == most:
                lines[-1] = joined
            else:
                lines.append(part)
        return self._head(*lines)

    def _head(self, *texts: str) -> list[str]:
        """The texts that are not empty, a line each."""
        return [fitted(text, self.width, self._characters).rstrip() for text in texts if text]


def _joined(lines: Sequence[str]) -> str:
    return "\n".join(line.rstrip() for line in lines)
