"""Findings about ranks, in the words that they share."""

import math
from collections.abc import Iterable

from tracker_adapters.artifacts import AlertLevel

from debuggers.detectors.finding import Finding

_MOST_NAMED = 8


def names_of(ranks: Iterable[int]) -> str:
    """Returns such as ``rank 1`` or ``ranks 1, 3, 5``; of many the first eight and how many there are."""
    numbers = sorted(set(ranks))
    named = ", ".join(map(str, numbers[:_MOST_NAMED]))
    more = f" and {len(numbers) - _MOST_NAMED} more" if len(numbers) > _MOST_NAMED else ""
    return f"rank{'s' if len(numbers) > 1 else ''} {named}{more}"


def rank_finding(
    kind: str,
    name: str,
    step: int,
    last_step: int,
    *,
    evidence: str,
    rule: str,
    level: AlertLevel = "error",
    value: float = math.nan,
    threshold: float = math.nan,
) -> Finding:
    """Returns a finding that goes on to the end of what was recorded."""
    return Finding(
        kind=kind,
        name=name,
        level=level,
        step=max(0, step),
        last_step=max(0, step, last_step),
        steps=max(1, last_step - step + 1),
        ongoing=True,
        value=value,
        threshold=threshold,
        evidence=evidence,
        rule=rule,
    )
