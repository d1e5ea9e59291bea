"""What a stability step emits, and how often."""

from collections.abc import Collection
from typing import Literal

from tracker_adapters.emitter import Emitter
from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.measurement.measure import measure
from debuggers.measurement.series_names import histogram_names, norm_names
from debuggers.measurement.summary_table import SummaryTable
from stability.errors import StabilityError
from stability.gradients.measure import Gradients, Norms
from stability.monitoring.history import StepRecord
from stability.results.step import StabilityResult

_MOVING_THRESHOLDS = ("adaptive", "exponential", "percentile")
Series = Literal["loss", "norms", "histograms"]
"""What a session that watches the same training may emit, too: the loss, and norms and histograms of gradients."""


class StabilityEmission:
    """Emits a step's scalars and histograms under ``stability/``; without an emitter it does nothing.

    Behind that the names are those of ``debuggers.measurement.series_names``, as a session has them. Raises
    StabilityError for an interval that is not positive.
    """

    def __init__(
        self,
        emitter: Emitter | None,
        parameter_norms_every: int | None,
        histogram_every: int | None,
        *,
        norm_type: float = 2.0,
    ) -> None:
        for name, value in (("parameter_norms_every", parameter_norms_every), ("histogram_every", histogram_every)):
            check_value(name, value, at_least(1) | None, StabilityError)
        self._given = emitter
        self._emitter = None if emitter is None else emitter.scoped("stability")
        self._left: frozenset[Series] = frozenset()
        self._is_euclidean = norm_type == 2.0
        self._parameter_norms_every = parameter_norms_every
        self._histogram_every = histogram_every

    def leave_to(self, emitter: Emitter | None, series: Collection[Series] = ()) -> None:
        """Leaves series out as long as somebody else emits them to the same emitter; None takes that back.

        Args:
            emitter: Where they are emitted; where that is not this one's emitter, nothing is left out.
            series: Which ones. Norms of another order than 2, and of sharded gradients, are emitted in any case: a
                session has other ones.
        """
        self._left = frozenset(series if emitter is not None and emitter is self._given else ())

    def scalars(self, result: StabilityResult, gradients: Gradients, norms: Norms, *, memory: bool) -> None:
        """Emits ``loss``, ``clip_coefficient``, ``score``, ``non_finite_gradients`` (values), and the norms.

        These are ``total_norm/gradients``, and when their interval divides the step ``gradient_norm/<parameter>``: host
        values, no extra copy. A threshold of clipping that moves from step to step is emitted as ``clip_threshold``.
        With ``memory``, ``memory/rss_mb``, ``memory/vms_mb`` and ``memory/percent``.
        """
        emitter, step = self._emitter, result["step"]
        if emitter is None:
            return
        if "loss" not in self._left:
            emitter.scalar("loss", result["loss"], step=step)
        emitter.scalar("clip_coefficient", result["clipping_stats"]["clip_coefficient"], step=step)
        threshold = result["clipping_stats"]["threshold"]
        if threshold is not None and result["clipping_stats"]["clipping_type"] in _MOVING_THRESHOLDS:
            emitter.scalar("clip_threshold", threshold, step=step)
        emitter.scalar("score", result["stability_score"], step=step)
        faults = result["nan_stats"]["nan_count"] + result["nan_stats"]["inf_count"]
        emitter.scalar("non_finite_gradients", float(faults), step=step)
        if not self._are_others(gradients):
            each = _is_due(step, self._parameter_norms_every)
            names = norm_names("gradients", tuple(gradients.names) if each else ())
            total = result["clipping_stats"]["total_norm"]
            emitter.scalars(names, [*norms.each, total] if each else [total], step=step)
        info = result["debug_info"].get("memory_info")
        if memory and info is not None:
            emitter.scalar("memory/rss_mb", info["cpu_memory"]["rss"], step=step)
            emitter.scalar("memory/vms_mb", info["cpu_memory"]["vms"], step=step)
            emitter.scalar("memory/percent", info["cpu_memory"]["percent"], step=step)

    def unfinished(self, record: StepRecord) -> None:
        """Emits ``loss``, ``total_norm/gradients`` and ``score`` of a step whose backward pass raised.

        A session has seen nothing of that step: its loss becomes part of the session's series, where it has one.
        """
        if self._emitter is None or self._given is None:
            return
        owner = self._given if "loss" in self._left else self._emitter
        owner.scalar("loss", record.loss, step=record.step)
        if "norms" not in self._left or not self._is_euclidean:
            self._emitter.scalars(norm_names("gradients", ()), [record.gradient_norm], step=record.step)
        self._emitter.scalar("score", record.stability_score, step=record.step)

    def histograms(self, gradients: Gradients, summaries: SummaryTable | None, step: int) -> None:
        """Emits ``gradients/<parameter>`` when the interval divides the step; call it before clipping.

        Complex gradients are shown by their modulus. Without ``summaries`` the gradients are measured here.
        """
        if self._emitter is None or "histograms" in self._left or not _is_due(step, self._histogram_every):
            return
        if summaries is None:
            summaries = measure(gradients.tensors).resolve()
        names = histogram_names("gradients", tuple(gradients.names))
        self._emitter.histograms(names, summaries.columns, step=step)

    def _are_others(self, gradients: Gradients) -> bool:
        """Whether a session emits these norms: it knows Euclidean ones, and of sharded gradients those of its rank."""
        return "norms" in self._left and self._is_euclidean and not any(gradients.groups)


def _is_due(step: int, every: int | None) -> bool:
    return every is not None and step % every == 0
