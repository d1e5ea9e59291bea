"""What a stability step emits, and how often."""

from __future__ import annotations

from tracker_adapters.emitter import Emitter

from debuggers.measurement import measure
from debuggers.summary_table import SummaryTable
from stability.errors import StabilityError
from stability.gradients import Gradients, Norms
from stability.history import History, StepRecord
from stability.plots import PLOTS, pixels
from stability.results import StabilityResult

_MOVING_THRESHOLDS = ("adaptive", "exponential", "percentile")


class StabilityEmission:
    """Emits a step's scalars and histograms under ``stability/``; without an emitter it does nothing.

    Raises StabilityError for an interval that is not positive.
    """

    def __init__(self, emitter: Emitter | None, parameter_norms_every: int | None, histogram_every: int | None) -> None:
        for name, value in (("parameter_norms_every", parameter_norms_every), ("histogram_every", histogram_every)):
            if value is not None and value < 1:
                raise StabilityError(f"{name} is {value}; expected a positive number of steps or None")
        self._given = emitter
        self._emitter = None if emitter is None else emitter.scoped("stability")
        self._leaves_loss = False
        self._parameter_norms_every = parameter_norms_every
        self._histogram_every = histogram_every

    def leave_loss_to(self, other: Emitter | None) -> None:
        """Leaves the loss out from now on if ``other``, to which somebody else emits it, is where this emits to."""
        self._leaves_loss = other is not None and other is self._given

    def scalars(self, result: StabilityResult, gradients: Gradients, norms: Norms, *, memory: bool) -> None:
        """Emits ``loss``, ``gradient_norm``, ``clip_coefficient``, ``score`` and ``non_finite_gradients`` (values).

        A threshold of clipping that moves from step to step is emitted as ``clip_threshold``. When their interval
        divides the step, also ``gradient_norm/<parameter>``: host values, no extra copy. With ``memory``,
        ``memory/rss_mb``, ``memory/vms_mb`` and ``memory/percent``.
        """
        emitter, step = self._emitter, result["step"]
        if emitter is None:
            return
        if not self._leaves_loss:
            emitter.scalar("loss", result["loss"], step=step)
        emitter.scalar("gradient_norm", result["clipping_stats"]["total_norm"], step=step)
        emitter.scalar("clip_coefficient", result["clipping_stats"]["clip_coefficient"], step=step)
        threshold = result["clipping_stats"]["threshold"]
        if threshold is not None and result["clipping_stats"]["clipping_type"] in _MOVING_THRESHOLDS:
            emitter.scalar("clip_threshold", threshold, step=step)
        emitter.scalar("score", result["stability_score"], step=step)
        faults = result["nan_stats"]["nan_count"] + result["nan_stats"]["inf_count"]
        emitter.scalar("non_finite_gradients", float(faults), step=step)
        if _is_due(step, self._parameter_norms_every):
            for name, norm in zip(gradients.names, norms.each, strict=True):
                emitter.scalar(f"gradient_norm/{name}", norm, step=step)
        info = result["debug_info"].get("memory_info")
        if memory and info is not None:
            emitter.scalar("memory/rss_mb", info["cpu_memory"]["rss"], step=step)
            emitter.scalar("memory/vms_mb", info["cpu_memory"]["vms"], step=step)
            emitter.scalar("memory/percent", info["cpu_memory"]["percent"], step=step)

    def unfinished(self, record: StepRecord) -> None:
        """Emits ``loss``, ``gradient_norm`` and ``score`` of a step whose backward pass raised."""
        if self._emitter is not None:
            names = ("loss", "gradient_norm", "score")
            values = (record.loss, record.gradient_norm, record.stability_score)
            self._emitter.scalars(names, values, step=record.step)

    def plots(self, history: History) -> None:
        """Emits the figures of ``stability.plots``; nothing before the first step."""
        records = list(history)
        if self._emitter is None or not records:
            return
        for name, plot in PLOTS.items():
            self._emitter.image(f"plots/{name}", pixels(plot(records)), layout="HWC", step=records[-1].step)

    def histograms(self, gradients: Gradients, summaries: SummaryTable | None, step: int) -> None:
        """Emits ``gradient/<parameter>`` when the interval divides the step; call it before clipping.

        Complex gradients are shown by their modulus. Without ``summaries`` the gradients are measured here.
        """
        if self._emitter is None or not _is_due(step, self._histogram_every):
            return
        if summaries is None:
            summaries = measure(gradients.tensors).resolve()
        names = [f"gradient/{name}" for name in gradients.names]
        self._emitter.histograms(names, summaries.columns, step=step)


def _is_due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
