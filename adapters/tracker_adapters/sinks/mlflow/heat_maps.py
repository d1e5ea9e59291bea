"""When heat maps and tables of histograms are drawn: a picture costs tens of milliseconds, so rarely.

A name is drawn when it has grown by a quarter since it was drawn, at most every 30 seconds, and at the end of
the run. So the cost grows with the logarithm of the run's length.
"""

import logging
import time
from collections.abc import Sequence

from tracker_adapters.artifacts import Histogram
from tracker_adapters.redaction import redact
from tracker_adapters.sinks.mlflow.heat_map_figure import HeatMapFigure
from tracker_adapters.sinks.mlflow.histogram_series import HistogramSeries
from tracker_adapters.sinks.mlflow.index import Index, histograms_of
from tracker_adapters.sinks.mlflow.names import file_stem
from tracker_adapters.sinks.mlflow.run_files import RunFiles

INTERVAL_S = 30.0
_BUDGET_S = 2.0
_FINAL_BUDGET_S = 20.0
"""Well below the deadline of one call of a sink."""
_RESTORE_BUDGET_S = 20.0
_GROWTH = 1.25

logger = logging.getLogger(__name__)


class HeatMaps:
    """``histograms/<name>.png`` and ``histograms/<name>.json`` of one MLflow run."""

    def __init__(self, files: RunFiles, index: Index) -> None:
        """Histograms that are in the run's index already are read when they are needed."""
        self._files = files
        self._index = index
        self._restored = False
        self._series: dict[str, HistogramSeries] = {}
        self._unlisted: list[str] = []
        self._next_drawing = time.monotonic() + INTERVAL_S

    def add(self, histograms: Sequence[Histogram]) -> None:
        """Takes histograms for later drawings, before they are added to the index."""
        if histograms:
            self._restore()
        self._take(histograms)

    def draw_due(self) -> None:
        """Draws the names that have grown enough, if it is time. A failure is logged; the next drawing retries."""
        if not self._series or time.monotonic() < self._next_drawing:
            return
        try:
            self._draw(_GROWTH, _BUDGET_S)
        except Exception as error:
            logger.info("cannot upload heat maps; retrying later: %s", redact(str(error)))
        self._next_drawing = time.monotonic() + INTERVAL_S

    def draw_all(self) -> None:
        """Draws every name that has changed, for at most 20 seconds, the stalest first."""
        self._restore()
        self._draw(1.0, _FINAL_BUDGET_S)

    def _restore(self) -> None:
        if self._restored:
            return
        self._restored = True
        try:
            self._take(histograms_of(self._index.lines(_RESTORE_BUDGET_S)))
        except TimeoutError as error:
            logger.warning("heat maps show only histograms from this point on: %s", error)

    def _take(self, histograms: Sequence[Histogram]) -> None:
        for histogram in histograms:
            self._series.setdefault(histogram.name, HistogramSeries()).add(histogram)

    def _draw(self, growth: float, budget_s: float) -> None:
        """Draws and uploads one name after the other, so that a slow server is asked no longer than the budget."""
        deadline = time.monotonic() + budget_s
        due = [item for item in self._series.items() if item[1].total > item[1].drawn_total * growth]
        figure: HeatMapFigure | None = None
        for name, series in sorted(due, key=lambda item: item[1].drawn_total / item[1].total):
            if time.monotonic() > deadline:
                break
            total = series.total
            try:
                figure = figure or HeatMapFigure()
                picture, table = series.heat_map(figure), series.table()
            except Exception:  # a picture that cannot be drawn must not hold up what is recorded
                figure = None
                logger.exception("cannot draw the heat map of %r", name)
            else:
                with self._files.staged() as stage:
                    path = f"histograms/{file_stem(name)}"
                    stage.put(f"{path}.png", picture)
                    stage.put_table(f"{path}.json", table)
                self._unlisted += stage.tables
            series.drawn_total = total
        self._files.list_tables(self._unlisted)
        self._unlisted = []
