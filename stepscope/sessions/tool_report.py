"""What a session's tools know of a training: its architecture, where its time goes, what the loop recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tracker_adapters.wording import counted

from debuggers.diagnosis.data_waiting import DataWaiting, data_waiting
from debuggers.diagnosis.evidence import Evidence
from stepscope.report_pages.content import ARCHITECTURE, TIME, TRAINING
from stepscope.report_pages.waiting_line import waiting_line

if TYPE_CHECKING:
    from debuggers.model_diagnostics.records import ModelArchitectureInfo
    from debuggers.profiling.totals import LayerTotals, TimerTotals
    from stepscope.sessions.tools import SessionTools

_MOST = 5


@dataclass(frozen=True, slots=True, kw_only=True)
class ToolReport:
    """What the tools know; what was not used, or is not known, is empty.

    Attributes:
        architecture: Of the model, from its shapes, or as the loop recorded it; None without a model.
        health_score: Of the recorded metrics, from 0 to 1; None where too little was recorded.
        advice: From the recorded metrics.
        waiting: How long steps wait for data.
        layers: Times and memory of layers, the slowest first.
        timers: By their names.
        suggestions: What to try against bottlenecks.
    """

    architecture: ModelArchitectureInfo | None = None
    health_score: float | None = None
    advice: tuple[str, ...] = ()
    waiting: DataWaiting | None = None
    layers: tuple[LayerTotals, ...] = ()
    timers: Mapping[str, TimerTotals] = field(default_factory=dict)
    suggestions: tuple[str, ...] = ()

    @classmethod
    def of(cls, tools: SessionTools, evidence: Evidence) -> ToolReport:
        """Returns what a session's tools know, without making one that was not used; waits for the device."""
        profiler, diagnostics = tools.used_profiler, tools.model_diagnostics
        return cls(
            architecture=diagnostics.architecture(),
            health_score=diagnostics.health_score(),
            advice=diagnostics.recommendations(),
            waiting=data_waiting(evidence),
            layers=() if profiler is None else profiler.layers,
            timers={} if profiler is None else profiler.timers,
            suggestions=() if profiler is None else profiler.suggestions(),
        )

    def lines(self) -> list[str]:
        """Returns what a report says of it, a line each, which begins with the name of its section."""
        return [
            *(f"{ARCHITECTURE}{text}" for text in self._architecture()),
            *(f"{TRAINING}{text}" for text in self._training()),
            *(f"{TIME}{text}" for text in self._time()),
        ]

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain values."""
        found = asdict(self)
        found["layers"] = [asdict(layer) | {"total_s": layer.total_s} for layer in self.layers]
        return found

    def _architecture(self) -> Iterator[str]:
        info = self.architecture
        if info is None or not info.total_parameters:
            return
        some = info.trainable_parameters != info.total_parameters
        trained = f", {info.trainable_parameters:,} of them trained" if some else ""
        depth = "" if info.depth is None else f", nested {info.depth} deep"
        yield (
            f"{counted(info.total_parameters, 'parameters')}{trained}, {info.model_size_mb:,.3g} MiB, "
            f"{counted(info.layer_count, 'layers')}{depth}."
        )
        largest = sorted(info.parameters_by_module.items(), key=lambda item: -item[1])[:3]
        if len(info.parameters_by_module) > 1:
            shares = (f"{name or 'the model itself'} {count / info.total_parameters:.0%}" for name, count in largest)
            yield f"Most parameters: {', '.join(shares)}."
        if info.bottlenecks:
            more = f" and {len(info.bottlenecks) - _MOST} more" if len(info.bottlenecks) > _MOST else ""
            yield f"Narrower than a quarter of both neighbours: {', '.join(info.bottlenecks[:_MOST])}{more}."

    def _training(self) -> Iterator[str]:
        if self.health_score is not None:
            yield f"health score {self.health_score:.2f} by the recorded metrics."
        yield from (f"{text}." for text in self.advice)

    def _time(self) -> Iterator[str]:
        if self.waiting is not None:
            yield waiting_line(self.waiting)
        whole = sum(layer.total_s for layer in self.layers)
        if whole > 0:
            shown = ", ".join(_layer(layer, whole) for layer in self.layers[:_MOST])
            rest = f", {len(self.layers) - _MOST:,} others" if len(self.layers) > _MOST else ""
            yield f"Of the layers' time: {shown}{rest}."
        held = sorted((one for one in self.layers if one.peak_memory_bytes), key=lambda one: -_memory(one))
        if held:
            shown = ", ".join(f"{one.name} {_memory(one) / 2**20:,.3g} MiB" for one in held[:_MOST])
            yield f"Most memory of layers: {shown}."
        timers = sorted(self.timers.items(), key=lambda item: -item[1].total_s)
        for name, timer in timers[:_MOST]:
            yield f"Timer {name!r}: {timer.total_s:.3g} s in {counted(timer.count, 'runs')}, {_ms(timer.mean_s)} each."
        if len(timers) > _MOST:
            yield f"{len(timers) - _MOST:,} further timers."
        yield from (f"{text[:1].upper()}{text[1:]}." for text in self.suggestions)


def _layer(layer: LayerTotals, whole: float) -> str:
    forward = _ms(layer.forward_s / layer.count if layer.count else math.nan)
    backward = f" + {_ms(layer.backward_s / layer.backward_count)}" if layer.backward_count else ""
    return f"{layer.name} ({layer.kind}) {layer.total_s / whole:.0%} ({forward}{backward} a call)"


def _memory(layer: LayerTotals) -> float:
    return layer.peak_memory_bytes or 0.0


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.3g} ms"
