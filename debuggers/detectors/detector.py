"""The base of all detectors: a rule that checks one step at a time, over all tensors at once."""

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import ClassVar

import numpy as np
from tracker_adapters.artifacts import AlertLevel

from debuggers.detectors.episodes import Episode, Episodes
from debuggers.detectors.finding import Finding
from debuggers.detectors.observation import Bools, Floats, Observation


class Detector(ABC):
    """One rule. It keeps a bounded history of earlier steps, and never changes what it is given.

    Attributes:
        kind: Name of the rule and of its alerts.
        level: Level of its alerts.
        statistics: The statistics that it needs.
        judged: The statistic whose value is reported as evidence.
        rule: The formula with its default, and the source of both.
        evidence: Format string of the evidence, with ``{value}`` and ``{threshold}``.
        consecutive_steps: Observed steps in a row at which the rule must be broken before it is reported.
        worst: ``np.fmin`` or ``np.fmax``: whether the smallest or largest value is the worst.
    """

    kind: ClassVar[str]
    level: ClassVar[AlertLevel]
    statistics: ClassVar[frozenset[str]]
    judged: ClassVar[str]
    rule: ClassVar[str]
    evidence: ClassVar[str]
    consecutive_steps: ClassVar[int] = 1
    worst: ClassVar[np.ufunc]

    def __init__(self) -> None:
        self._episodes = Episodes(self.consecutive_steps, self.worst)
        self._names: Sequence[str] = ()

    @abstractmethod
    def check(self, observation: Observation) -> tuple[Bools, Floats | float]:
        """Returns whether each row breaks the rule, bool (n,), and the limit of all rows or of each."""

    def see(self, observation: Observation) -> list[Finding]:
        """Checks a step and returns the findings that begin at it; ``findings`` has the ongoing ones too."""
        broken, thresholds = self.check(observation)
        begun = self._episodes.update(observation, broken, observation.values[self.judged], thresholds)
        self._names = observation.names
        return [self._finding(episode) for episode in begun]

    def findings(self) -> list[Finding]:
        """Returns the ongoing findings and the last 1,000 ended ones, by their first step."""
        return [self._finding(episode) for episode in self._episodes.all()]

    def _finding(self, episode: Episode) -> Finding:
        return Finding(
            kind=self.kind,
            name=self._names[episode.row],
            level=self.level,
            step=episode.step,
            last_step=episode.last_step,
            steps=episode.steps,
            ongoing=episode.ongoing,
            value=episode.value,
            threshold=episode.threshold,
            evidence=self.evidence.format(value=episode.value, threshold=episode.threshold),
            rule=self.rule,
        )


class Detectors:
    """Several detectors that see the same steps."""

    def __init__(self, detectors: list[Detector]) -> None:
        self._detectors = detectors
        self._judging: dict[tuple[str, ...], list[Detector]] = {}  # by the statistics that an observation has

    def see(self, observation: Observation) -> list[Finding]:
        """Gives a step to the detectors whose statistics it has; returns the findings that begin."""
        held = tuple(observation.values)
        judging = self._judging.get(held)
        if judging is None:
            judging = [detector for detector in self._detectors if detector.statistics.issubset(held)]
            self._judging[held] = judging
        return [finding for detector in judging for finding in detector.see(observation)]

    def findings(self) -> list[Finding]:
        """Returns all findings so far, by their first step."""
        return sorted(
            (finding for detector in self._detectors for finding in detector.findings()),
            key=lambda finding: (finding.step, finding.kind),
        )
