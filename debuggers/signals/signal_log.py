"""Where signals go: into series in memory, and to the run as scalars."""

import time
from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tracker_adapters.emitter import Emitter

from debuggers.diagnosis.series import Series, SeriesLog
from debuggers.diagnosis.signals import PREFIX
from debuggers.diagnosis.tensor_log import TensorLog
from debuggers.signals.judge import SignalJudge

_MOST_KNOWN = 64
DEFINED_IF_FINITE = frozenset(
    {
        "inputs/min", "inputs/max", "inputs/scale_ratio", "outputs/min", "outputs/max", "outputs/row_sum_error",
        "targets/min", "targets/max", "targets/classes", "targets/top_share", "targets/between_batches", "accuracy",
        "top_predicted_share", "baseline_loss", "correlation", "gradient_cosine", "descent_cosine", "decay_cosine",
        "data_share",
    }
)  # fmt: skip
"""Signals of which NaN and infinities say that they are not defined: they have no point then."""


class SignalLog:
    """Keeps signals, and emits them under ``diagnosis/``; without an emitter it only keeps them."""

    def __init__(self, emitter: Emitter | None, judge: SignalJudge | None = None) -> None:
        """Takes where signals are emitted, and who else sees them."""
        self._emitter, self._judge = emitter, judge
        self._steps, self._tensors = SeriesLog(), TensorLog()
        self._names: dict[tuple[str, tuple[str, ...]], tuple[str, ...]] = {}

    def note(self, step: int, name: str, value: float) -> None:
        """Keeps a signal that is recorded elsewhere."""
        self._steps.add(step, name, value)
        if self._judge is not None:
            self._judge.see(step, {name: value})

    def put(self, step: int, values: Mapping[str, float], time_ns: int | None = None) -> None:
        """Keeps and emits signals of a step, but for those that are not defined."""
        known = {name: value for name, value in values.items() if name not in DEFINED_IF_FINITE or np.isfinite(value)}
        if known:
            for name, value in known.items():
                self._steps.add(step, name, value)
            self._emit(step, "", tuple(known), list(known.values()), time_ns)
            if self._judge is not None:
                self._judge.see(step, known)

    def put_tensors(
        self, step: int, signal: str, names: tuple[str, ...], values: npt.ArrayLike, time_ns: int | None = None
    ) -> None:
        """Keeps and emits a signal of many tensors."""
        if names:
            self._tensors.add(step, signal, names, values)
            self._emit(step, f"{signal}/", names, values, time_ns)
            if self._judge is not None:
                self._judge.see_tensors(step, signal, names, values)

    def note_outputs(self, layers: Iterable[str]) -> None:
        """Says whose outputs may lie at their bounds: the model's own, and those of a softmax."""
        if self._judge is not None:
            self._judge.see_outputs(layers)

    def series(self) -> dict[str, Series]:
        """Returns the series of steps so far."""
        return self._steps.series()

    def tensors(self) -> dict[str, dict[str, Series]]:
        """Returns the series of tensors so far, by signal."""
        return self._tensors.series()

    def _emit(
        self,
        step: int,
        group: str,
        names: tuple[str, ...],
        values: Sequence[float] | npt.ArrayLike,
        time_ns: int | None,
    ) -> None:
        if self._emitter is None:
            return
        full = self._names.get((group, names))
        if full is None:
            if len(self._names) >= _MOST_KNOWN:
                self._names.clear()
            full = self._names[group, names] = tuple(f"{PREFIX}{group}{name}" for name in names)
        self._emitter.scalars(full, values, step=step, time_ns=time.time_ns() if time_ns is None else time_ns)
