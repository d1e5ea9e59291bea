"""When heat maps and tables of histograms are drawn: a picture costs tens of milliseconds, so rarely.

A name is drawn when it has grown by a quarter since it was drawn, at most every 30 seconds, and at the end of
the run. So the cost grows with the logarithm of the run's length.
"""

from __future__ import annotations

import time
from collections.abc import Sequence

from tracker_adapters.artifacts import Histogram
from tracker_adapters.sinks.mlflow.names import file_stem
from tracker_adapters.sinks.mlflow.run_files import RunFiles
from tracker_adapters.sinks.mlflow.strip import Strip

INTERVAL_S = 30.0
_BUDGET_S = 2.0
_FINAL_BUDGET_S = 60.0
_GROWTH = 1.25


class HeatMaps:
    """``histograms/<name>.png`` and ``histograms/<name>.json`` of one MLflow run."""

    def __init__(self, files: RunFiles, *, restore_until: int) -> None:
        """Histograms up to the sequence number ``restore_until`` are read from the run's index when needed."""
        self._files = files
        self._restore_until = restore_until
        self._strips: dict[str, Strip] = {}
        self._next_drawing = time.monotonic() + INTERVAL_S

    def add(self, histograms: Sequence[Histogram]) -> None:
        """Takes histograms for later drawings."""
        if histograms:
            self._restore()
        self._take(histograms)

    def draw_due(self) -> None:
        """Draws the names that have grown enough, if it is time."""
        if self._strips and time.monotonic() >= self._next_drawing:
            self._draw(_GROWTH, _BUDGET_S)
            self._next_drawing = time.monotonic() + INTERVAL_S

    def draw_all(self) -> None:
        """Draws every name that has changed, for at most a minute, the stalest first."""
        self._restore()
        self._draw(1.0, _FINAL_BUDGET_S)

    def _restore(self) -> None:
        if self._restore_until:
            earlier = self._files.histograms(self._restore_until)
            self._restore_until = 0
            self._take(earlier)

    def _take(self, histograms: Sequence[Histogram]) -> None:
        for histogram in histograms:
            self._strips.setdefault(histogram.name, Strip()).add(histogram)

    def _draw(self, growth: float, budget_s: float) -> None:
        deadline = time.monotonic() + budget_s
        due = [item for item in self._strips.items() if item[1].total > item[1].drawn_total * growth]
        if not due:
            return
        drawn = []
        with self._files.staged() as stage:
            for name, strip in sorted(due, key=lambda item: item[1].drawn_total / item[1].total):
                path = f"histograms/{file_stem(name)}"
                stage.put(f"{path}.png", strip.heat_map())
                stage.put_table(f"{path}.json", strip.table())
                drawn.append(strip)
                if time.monotonic() > deadline:
                    break
        for strip in drawn:
            strip.drawn_total = strip.total
