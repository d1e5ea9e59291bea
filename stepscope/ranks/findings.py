"""Findings about ranks, in the words that they share."""

from collections.abc import Iterable
from typing import Any

from tracker_adapters.wording import some_of

from debuggers.detectors.finding import Finding

_MOST_NAMED = 8


def names_of(ranks: Iterable[int]) -> str:
    """Returns such as ``rank 1`` or ``ranks 1, 3, 5``; of many the first eight and how many there are."""
    numbers = sorted(set(ranks))
    return f"rank{'s' if len(numbers) > 1 else ''} {some_of(numbers, _MOST_NAMED)}"


def rank_finding(kind: str, name: str, step: int, last_step: int, **said: Any) -> Finding:
    """Returns a finding that goes on to the end of what was recorded; ``said`` is as for ``Finding.going_on``."""
    first = max(0, step)
    return Finding.going_on(kind, name, range(first, max(first, last_step) + 1), **said)
