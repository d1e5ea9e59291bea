"""Arguments for and against one cause, and the confidence that they give together."""

import math
from collections.abc import Sequence

from debuggers.diagnosis.cause import Cause

CERTAIN, STRONG, MODERATE, WEAK = 0.95, 0.7, 0.4, 0.2
"""Weights of a piece of evidence: the share of trainings with this sign that have this cause, as judged beforehand."""


class Argument:
    """Collects what speaks for and against a cause.

    Independent signs are combined as by a noisy or: n signs with weights w give 1 - Π(1 - w). What speaks against it
    multiplies the result with 1 - w each.
    """

    def __init__(self, code: str) -> None:
        self.code = code
        self._for: list[tuple[float, str]] = []
        self._against: list[tuple[float, str]] = []
        self._where: dict[str, None] = {}
        self._since: int | None = None
        self.advice = ""

    def add(self, weight: float, text: str, *, since: int | None = None, where: Sequence[str] = ()) -> "Argument":
        """Adds a sign of the cause; the cause is as old as its earliest sign."""
        self._for.append((weight, text))
        self._where.update(dict.fromkeys(where))
        if since is not None:
            self._since = since if self._since is None else min(since, self._since)
        return self

    def begins(self, step: int) -> None:
        """Says since when the cause is there, where that is known better than by its signs."""
        self._since = step

    def against(self, weight: float, text: str) -> "Argument":
        """Adds what speaks against it."""
        self._against.append((weight, text))
        return self

    @property
    def confidence(self) -> float:
        """From 0 to 1."""
        doubt = math.prod(1 - weight for weight, _ in self._for)
        return (1 - doubt) * math.prod(1 - weight for weight, _ in self._against)

    @property
    def cause(self) -> Cause | None:
        """The cause; None if nothing speaks for it."""
        if not self._for:
            return None
        return Cause(
            code=self.code,
            confidence=self.confidence,
            since_step=self._since,
            where=tuple(self._where),
            evidence=tuple(text for _, text in sorted(self._for, key=lambda pair: -pair[0])),
            against=tuple(text for _, text in self._against),
            advice=self.advice,
        )
