"""Where the time of a rank's steps goes: before the forward pass, in it, and in the backward passes."""

import time
from collections.abc import Sequence
from itertools import pairwise
from statistics import median

PHASES = ("data_ms", "forward_ms", "backward_ms")
"""The signals: medians over the steps since the last ones, in milliseconds."""


class StepPhases:
    """Collects the phases of steps; a step of which one was not seen counts for none."""

    def __init__(self) -> None:
        self._rows: list[tuple[float, ...]] = []
        self._ended_s: float | None = None

    def step(self, begun: Sequence[float | None]) -> None:
        """Takes when a step's forward and backward passes began, and when the last one ended."""
        moments = [moment for moment in (self._ended_s, *begun) if moment is not None]
        if len(moments) == len(PHASES) + 1 and moments == sorted(moments):
            self._rows.append(tuple((late - soon) * 1e3 for soon, late in pairwise(moments)))
        self._ended_s = None

    def step_ends(self) -> None:
        """Says that the optimizer has stepped: the next step begins."""
        self._ended_s = time.perf_counter()

    def forget(self) -> None:
        """Says that the time since the last step is none of a step."""
        self._ended_s = None

    def take(self) -> list[float]:
        """Returns the medians of the steps since the last call, in the order of ``PHASES``; nothing without steps."""
        rows, self._rows = self._rows, []
        return [median(column) for column in zip(*rows, strict=True)]
