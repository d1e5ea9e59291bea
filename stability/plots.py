"""Pictures of a manager's history, as matplotlib figures. Matplotlib is imported when the first one is made."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from tracker_adapters.emitter import Emitter

from stability.errors import StabilityError
from stability.monitoring.history import StepRecord

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

_FAULT = "tab:red"


def stability_history(history: Iterable[StepRecord]) -> Figure:
    """Loss, gradient norm and stability score over the steps, one above the other.

    Values that are not finite have no place on an axis: red marks at the top show their steps.
    """
    records = list(history)
    figure = _figure(height=6.0)
    top, middle, bottom = figure.subplots(3, sharex=True)
    _line(top, records, [record.loss for record in records], "loss")
    _line(middle, records, [record.gradient_norm for record in records], "gradient norm", log=True)
    _line(bottom, records, [record.stability_score for record in records], "stability score")
    bottom.set_ylim(-0.05, 1.05)
    bottom.set_xlabel("step")
    return figure


def gradient_norms(history: Iterable[StepRecord]) -> Figure:
    """The norm of all gradients before clipping, and after it where something was clipped and that norm is known."""
    records = list(history)
    figure, axes = _axes("gradient norm", "step")
    _line(axes, records, [record.gradient_norm for record in records], "before clipping", log=True)
    after = {
        record.step: record.clipped_norm
        for record in records
        if record.clip_coefficient != 1.0 and record.clipped_norm is not None
    }
    if after:
        axes.plot(list(after), list(after.values()), ".", color="tab:orange", label="after clipping")
        axes.legend(fontsize="small")
    return figure


def anomalies(history: Iterable[StepRecord]) -> Figure:
    """When which kind of anomaly was found: a row a kind, a mark a step."""
    records = list(history)
    figure, axes = _axes("anomalies", "step")
    kinds = sorted({kind for record in records for kind in record.anomalies})
    for row, kind in enumerate(kinds):
        steps = [record.step for record in records if kind in record.anomalies]
        axes.plot(steps, [row] * len(steps), "|", color=_FAULT, markersize=14)
    axes.set_yticks(range(len(kinds)), kinds)
    axes.set_ylim(-0.5, max(len(kinds), 1) - 0.5)
    if records:
        axes.set_xlim(records[0].step - 0.5, records[-1].step + 0.5)
    if not kinds:
        _say(axes, f"none in {len(records)} steps")
    return figure


def anomaly_distribution(history: Iterable[StepRecord]) -> Figure:
    """How many steps had which kind of anomaly."""
    records = list(history)
    figure, axes = _axes("anomalies by kind", "steps")
    counts = Counter(kind for record in records for kind in record.anomalies)
    kinds = sorted(counts, key=lambda kind: counts[kind])
    bars = axes.barh(kinds, [counts[kind] for kind in kinds], color=_FAULT)
    axes.bar_label(bars, padding=3)
    axes.locator_params(axis="x", integer=True)
    if not kinds:
        _say(axes, f"none in {len(records)} steps")
    return figure


def memory(history: Iterable[StepRecord]) -> Figure:
    """Resident memory of the process, at the steps of a debug session that tracks it."""
    tracked = [(record.step, record.rss_mb) for record in history if record.rss_mb is not None]
    figure, axes = _axes("memory of the process", "step")
    axes.set_ylabel("resident, MB")
    axes.plot([step for step, _ in tracked], [rss for _, rss in tracked])
    if not tracked:
        _say(axes, "not tracked: expected PyTorchDebuggingConfig(enable_memory_debugging=True)")
    return figure


PLOTS: dict[str, Callable[[Iterable[StepRecord]], Figure]] = {
    plot.__name__: plot for plot in (stability_history, gradient_norms, anomalies, anomaly_distribution, memory)
}


def emit(history: Sequence[StepRecord], emitter: Emitter) -> None:
    """Emits all these figures as images ``stability/plots/<name>`` at the last step; nothing before the first step.

    Raises:
        StabilityError: Without matplotlib.
    """
    for name, plot in PLOTS.items() if history else ():
        emitter.image(f"stability/plots/{name}", plot(history), step=history[-1].step)


def save(figure: Figure, path: str | Path) -> None:
    """Writes a figure in the format of the file's suffix, such as ``.png``, ``.svg`` or ``.pdf``.

    Raises:
        StabilityError: For a suffix that matplotlib does not know.
        OSError: When the folder cannot be made or written to.
    """
    from matplotlib.backends.backend_agg import FigureCanvasAgg

    path = Path(path)
    known = FigureCanvasAgg.get_supported_filetypes()
    if path.suffix.removeprefix(".") not in known:
        raise StabilityError(f"a figure cannot be saved to {path}; expected a name that ends in {', '.join(known)}")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path)


def _figure(height: float = 3.5) -> Figure:
    try:
        from matplotlib.figure import Figure
    except ImportError as error:
        raise StabilityError("figures need matplotlib; expected `pip install 'stepscope[plots]'`") from error
    return Figure(figsize=(8.0, height), dpi=100, layout="constrained")


def _axes(title: str, xlabel: str) -> tuple[Figure, Axes]:
    figure = _figure()
    return figure, figure.add_subplot(title=title, xlabel=xlabel)


def _line(axes: Axes, records: Sequence[StepRecord], values: Sequence[float], label: str, *, log: bool = False) -> None:
    steps = np.array([record.step for record in records])
    numbers = np.array(values, float)
    finite = np.isfinite(numbers)
    axes.plot(steps, np.where(finite, numbers, np.nan), linewidth=1.0, label=label)
    axes.set_ylabel(label)
    if log and (numbers[finite] > 0).any():
        axes.set_yscale("log")
    if not finite.all():
        # In the axis' own height, from 0 to 1: above any value.
        place: dict[str, Any] = {"transform": axes.get_xaxis_transform(), "clip_on": False}
        axes.plot(steps[~finite], np.ones((~finite).sum()), "v", color=_FAULT, markersize=5, **place)


def _say(axes: Axes, text: str) -> None:
    axes.text(0.5, 0.5, text, ha="center", va="center", transform=axes.transAxes, color="tab:gray")
