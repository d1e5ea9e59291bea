"""What a session's tools know of a training: its architecture, where its time goes, what the loop recorded."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any

from tracker_adapters.wording import counted

from debuggers.diagnosis.data_waiting import DataWaiting, data_waiting
from debuggers.diagnosis.evidence import Evidence
from debuggers.pictures.names import shortened
from debuggers.pictures.numbers import number_text
from stepscope.report_pages.content import ARCHITECTURE, TIME, TRAINING
from stepscope.report_pages.waiting_line import waiting_line

if TYPE_CHECKING:
    from debuggers.model_diagnostics.records import ModelArchitectureInfo
    from debuggers.profiling.totals import LayerTotals, TimerTotals
    from stepscope.sessions.tools import SessionTools

_MOST = 5
_LONGEST_NAME = 80


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
            shares = (
                f"{_name(name) or 'the model itself'} ({count / info.total_parameters:.0%})" for name, count in largest
            )
            yield f"Most parameters: {', '.join(shares)}."
        if info.bottlenecks:
            more = f" and {len(info.bottlenecks) - _MOST} more" if len(info.bottlenecks) > _MOST else ""
            narrow = ", ".join(map(_name, info.bottlenecks[:_MOST]))
            yield f"Narrower than a quarter of both neighbours: {narrow}{more}."

    def _training(self) -> Iterator[str]:
        if self.health_score is not None:
            yield f"health score {self.health_score:.2f} by the recorded metrics."
        yield from (f"{text}." for text in self.advice)

    def _time(self) -> Iterator[str]:
        if self.waiting is not None:
            yield waiting_line(self.waiting)
        whole = sum(layer.total_s for layer in self.layers)
        for layer in self.layers[:_MOST] if whole > 0 else ():
            yield f"{_layer(layer, whole)}."
        if whole > 0 and len(self.layers) > _MOST:
            share = sum(layer.total_s for layer in self.layers[_MOST:]) / whole
            yield f"{counted(len(self.layers) - _MOST, 'other layers')}: {share:.0%} of the layers' time."
        timers = sorted(self.timers.items(), key=lambda item: -item[1].total_s)
        for name, timer in timers[:_MOST]:
            runs = f"{timer.total_s:.3g} s in {counted(timer.count, 'runs')}"
            yield f"Timer {_name(name)!r}: {runs}, {_ms(timer.mean_s)} each."
        if len(timers) > _MOST:
            yield f"{len(timers) - _MOST:,} further timers."
        yield from (f"{text}." for text in self.suggestions[:_MOST])


def _layer(layer: LayerTotals, whole: float) -> str:
    forward = _ms(layer.forward_s / layer.count if layer.count else math.nan)
    backward = f", backward {_ms(layer.backward_s / layer.backward_count)}" if layer.backward_count else ""
    memory = f"; {layer.peak_memory_bytes / 2**20:,.3g} MiB" if layer.peak_memory_bytes else ""
    name = f"{_name(layer.name)} ({layer.kind})"
    return f"{name}: {layer.total_s / whole:.0%} of the layers' time, forward {forward}{backward} a call{memory}"


def _name(name: str) -> str:
    return shortened(name, _LONGEST_NAME)


def _ms(seconds: float) -> str:
    return f"{number_text(seconds * 1e3)} ms"
