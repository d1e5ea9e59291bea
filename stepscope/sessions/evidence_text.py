"""Facts and findings as a text of the run, so that a training that was killed is diagnosed from its store."""

import time
from collections.abc import Iterable

from tracker_adapters.emitter import Emitter

from debuggers.detectors import Finding
from debuggers.diagnosis.facts import FACTS_NAME, Facts
from debuggers.diagnosis.stored_facts import encode

FIRST_STEPS = frozenset([1, 10, 50])
"""Steps after which the text is stored however soon."""
EVERY_STEPS = 100
EVERY_S = 30.0


class EvidenceText:
    """Stores the text ``stepscope/evidence`` after steps 1, 10 and 50, and then every 100 steps and 30 s at most."""

    def __init__(self, emitter: Emitter | None) -> None:
        """Without an emitter nothing is stored."""
        self._emitter = emitter
        self._steps = self._stored_at = 0
        self._stored_s = 0.0
        self._is_due = False

    def is_due(self) -> bool:
        """Counts a step, and returns whether the text is to be stored, until it is."""
        self._steps += 1
        late = self._steps - self._stored_at >= EVERY_STEPS and time.monotonic() - self._stored_s >= EVERY_S
        self._is_due |= self._steps in FIRST_STEPS or late
        return self._emitter is not None and self._is_due

    def put(self, step: int, facts: Facts, findings: Iterable[Finding]) -> None:
        """Stores the text at a step."""
        self._stored_at, self._stored_s, self._is_due = self._steps, time.monotonic(), False
        if self._emitter is not None:
            self._emitter.text(FACTS_NAME, encode(facts, findings), step=step)
