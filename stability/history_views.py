"""What a manager remembers of its steps, to look at and to save."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from stability import plots
from stability.emission import StabilityEmission
from stability.monitoring.history import History, StepRecord

if TYPE_CHECKING:
    from matplotlib.figure import Figure


class HistoryViews:
    """The steps of a manager as records, files and figures."""

    def __init__(self, history: History, emission: StabilityEmission) -> None:
        self._history, self._emission = history, emission

    @property
    def history(self) -> tuple[StepRecord, ...]:
        """The last 10,000 steps."""
        return tuple(self._history)

    def save_histories(self, path: str | Path) -> Path:
        """Writes the history to a ``.json`` or ``.csv`` file and returns its path; see ``History.save``."""
        path = Path(path)
        self._history.save(path)
        return path

    def plot_stability_history(self, path: str | Path | None = None) -> Figure:
        """Returns a figure of loss, gradient norm and score, and saves it if there is a path; see ``stability.plots``.

        Raises:
            StabilityError: Without matplotlib, and for a path with a suffix that it does not know.
        """
        figure = plots.stability_history(self._history)
        if path is not None:
            plots.save(figure, Path(path))
        return figure

    def emit_plots(self) -> None:
        """Emits the figures of ``stability.plots`` as images ``stability/plots/...`` at the last step.

        Raises:
            StabilityError: Without matplotlib.
        """
        self._emission.plots(self._history)
