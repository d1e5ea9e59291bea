"""Where signals go: into series in memory, and to the run as scalars."""

import math
import time
from collections.abc import Iterable, Mapping, Sequence

import numpy.typing as npt
from tracker_adapters.emitter import Emitter

from debuggers.diagnosis.series import Series, SeriesLog
from debuggers.diagnosis.signals import PREFIX
from debuggers.diagnosis.tensor_log import TensorLog
from debuggers.signals.judge import SignalJudge

_MOST_KNOWN = 64
HELD_S = 0.05
"""How long a noted signal may wait for the rules, in seconds: half as long as a store takes to commit it."""
DEFINED_IF_FINITE = frozenset(
    {
        "inputs/min", "inputs/max", "inputs/scale_ratio", "outputs/min", "outputs/max", "outputs/row_sum_error",
        "targets/min", "targets/max", "targets/classes", "targets/top_share", "targets/between_batches", "accuracy",
        "top_predicted_share", "minority_accuracy", "order", "baseline_loss", "evaluation/entropy", "evaluation/loss",
        "correlation", "binary_correlation", "r2", "gradient_cosine", "descent_cosine", "decay_cosine", "data_share",
        "gains/of_two_values", "gains/high",
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
        self._noted: list[tuple[int, str, float]] = []
        self._held_since_s = 0.0

    def note(self, step: int, name: str, value: float) -> None:
        """Keeps a signal that is recorded elsewhere.

        Rules see it when the step ends, 50 ms later, or with the next of ``put``, all together: one by one they take
        several times as long. A value that is not finite they see at once.
        """
        self._noted.append((step, name, value))
        if not math.isfinite(value):
            self.judge_noted()

    def step_ends(self) -> None:
        """Hands on what was noted, if it has waited long enough, or a rule of the user waits for it."""
        now = time.perf_counter()
        if now - self._held_since_s >= HELD_S or (self._judge is not None and self._judge.is_asked):
            self.judge_noted()

    def judge_noted(self) -> None:
        """Hands on what was noted."""
        self._held_since_s = time.perf_counter()
        noted, self._noted = self._noted, []
        judge = self._judge
        for step, name, value in noted:
            self._steps.add(step, name, value)
            if judge is not None:
                judge.see_one(step, name, value)

    def put(self, step: int, values: Mapping[str, float], time_ns: int | None = None) -> None:
        """Keeps and emits signals of a step, but for those that are not defined."""
        known = {name: value for name, value in values.items() if name not in DEFINED_IF_FINITE or math.isfinite(value)}
        if known:
            self.judge_noted()
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
            self.judge_noted()
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
        self.judge_noted()
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
