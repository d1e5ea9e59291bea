"""The base of rules about scalar signals: one number of a step at a time, in plain Python."""

import math
from abc import ABC, abstractmethod
from collections import deque
from typing import ClassVar

from tracker_adapters.artifacts import AlertLevel

from debuggers.detectors.episodes import QUIET_STEPS
from debuggers.detectors.finding import Finding

_KEPT = 100
"""Ended findings that a rule keeps for each name."""


class SignalDetector(ABC):
    """One rule about scalar signals. It keeps a bounded history.

    Names of signals are those of ``debuggers.diagnosis.signals``, such as ``loss``, and the caller's metrics.

    Attributes:
        kind: Name of the rule and of its alerts.
        level: Level of its alerts.
        signals: The signals that it judges, each by itself.
        context: Signals that it is told besides, by ``inform``.
        rule: The formula with its default, and the source of both.
        evidence: Format string of the evidence, with ``{value}`` and ``{threshold}``.
        consecutive: Judged values in a row that must break the rule before it is reported.
    """

    kind: ClassVar[str]
    level: ClassVar[AlertLevel]
    signals: ClassVar[frozenset[str]]
    context: ClassVar[frozenset[str]] = frozenset()
    rule: ClassVar[str]
    evidence: ClassVar[str]
    consecutive: ClassVar[int] = 1

    def __init__(self) -> None:
        self._periods: dict[str, _Periods] = {}

    @abstractmethod
    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """Returns what is judged and its limit if the rule is broken; otherwise, and for NaN, None."""

    def inform(self, step: int, signal: str, value: float) -> None:  # noqa: B027  # rules without context need none
        """Takes a value of one of ``context``."""

    def see(self, step: int, signal: str, value: float) -> Finding | None:
        """Takes a value of one of ``signals``, and returns the finding that begins with it."""
        broken = self.check(step, signal, value)
        periods = self._periods.get(signal)
        if broken is None:
            if periods is not None:
                periods.streak = 0
                periods.quiet += 1
            return None
        if periods is None:
            periods = self._periods[signal] = _Periods()
        if not periods.streak:
            periods.streak_step = step
        periods.streak += 1
        if periods.streak < self.consecutive:
            return None
        begins = not periods.steps or periods.quiet >= QUIET_STEPS
        if begins:
            if periods.steps:
                periods.ended.append(self._finding(signal, periods))
            periods.step, periods.steps, periods.value = periods.streak_step, self.consecutive - 1, None
        periods.add(step, *broken)
        return self._finding(signal, periods) if begins else None

    def findings(self) -> list[Finding]:
        """Returns the findings so far, by their first step: of each signal the ongoing one and the last 100 others."""
        found: list[Finding] = []
        for signal, periods in self._periods.items():
            found += periods.ended
            if periods.steps:
                found.append(self._finding(signal, periods))
        return sorted(found, key=lambda finding: finding.step)

    def _finding(self, signal: str, periods: "_Periods") -> Finding:
        value = math.nan if periods.value is None else periods.value
        return Finding(
            kind=self.kind,
            name=signal,
            level=self.level,
            step=periods.step,
            last_step=periods.last_step,
            steps=periods.steps,
            ongoing=periods.quiet < QUIET_STEPS,
            value=value,
            threshold=periods.threshold,
            evidence=self.evidence.format(value=value, threshold=periods.threshold),
            rule=self.rule,
        )


class _Periods:
    """The periods in which one signal broke a rule; ``Episodes`` says when they begin and end."""

    __slots__ = ("ended", "last_step", "quiet", "step", "steps", "streak", "streak_step", "threshold", "value")

    def __init__(self) -> None:
        self.ended: deque[Finding] = deque(maxlen=_KEPT)
        self.step = self.last_step = self.steps = self.quiet = self.streak = self.streak_step = 0
        self.value: float | None = None
        self.threshold = math.nan

    def add(self, step: int, value: float, threshold: float) -> None:
        """Adds a step to the ongoing period; the value farthest from its limit is kept."""
        self.steps += 1
        self.last_step, self.quiet = step, 0
        if self.value is None or abs(value - threshold) > abs(self.value - self.threshold):
            self.value, self.threshold = value, threshold
