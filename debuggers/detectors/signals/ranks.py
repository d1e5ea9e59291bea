"""Ranks out of step: judged from the series of several ranks when a run is read, without communication in training."""

import math
from collections.abc import Mapping, Sequence
from statistics import median

from tracker_adapters.artifacts import AlertLevel

from debuggers.detectors.finding import Finding

SLOWEST_SPEED = 0.75
MIN_STEPS = 20

RankSeries = Mapping[int, tuple[Sequence[int], Sequence[float]]]
"""By rank: the steps, ascending, and the values there."""

_STRAGGLING = "straggling_rank"
_DESYNC = "checksums of replicated parameters that were equal on all ranks differ (after TrainCheck's invariant)"
_NON_FINITE = "a value that is NaN or infinite on some ranks, and finite on others"
_STRAGGLER = "speed < 0.75 of the best rank's, by the median time of a step, from 20 steps on"


def ranks_out_of_step(checksums: RankSeries) -> list[Finding]:
    """Returns a finding if the weights of replicated training differ between ranks from some step on.

    The ranks must have been equal at the first step that all of them have: shards of one model differ from the start,
    and rightly. A NaN equals another NaN here.

    Args:
        checksums: The signal ``weight_checksum`` of each rank.
    """
    by_step = _common_steps(checksums)
    differing = [step for step, values in by_step.items() if not _are_equal(values)]
    if not differing or differing[0] == next(iter(by_step)):
        return []
    values = by_step[differing[0]]
    low, high = min(values), max(values)
    evidence = f"the checksums of {len(values)} ranks differ, from {low:.9g} to {high:.9g}"
    numbers = {"value": high, "threshold": low}
    return [_finding("ranks_out_of_step", "weight_checksum", differing, **numbers, evidence=evidence, rule=_DESYNC)]


def non_finite_ranks(values: RankSeries) -> list[Finding]:
    """Returns a finding for each rank that has NaN or infinity at a step at which another rank is finite.

    Args:
        values: The losses or gradient norms of each rank.
    """
    by_step = _common_steps(values)
    found = []
    for place, rank in enumerate(values):
        steps = [
            step
            for step, row in by_step.items()
            if not math.isfinite(row[place]) and any(math.isfinite(other) for other in row)
        ]
        if steps:
            evidence = f"not finite, while other ranks of {len(values)} are"
            numbers = {"value": by_step[steps[0]][place], "threshold": math.inf}
            found.append(
                _finding("non_finite_rank", f"rank {rank}", steps, **numbers, evidence=evidence, rule=_NON_FINITE)
            )
    return found


def straggling_ranks(step_ms: RankSeries) -> list[Finding]:
    """Returns a finding of level info for each rank whose speed is below three quarters of the fastest one's.

    Ranks that wait for each other at every step take equally long: then only what they measure before that tells.

    Args:
        step_ms: The signal ``step_ms`` of each rank.
    """
    medians = {
        rank: (median(times), steps)
        for rank, (steps, values) in step_ms.items()
        if len(times := [value for value in values if 0 < value < math.inf]) >= MIN_STEPS
    }
    if len(medians) < 2:
        return []
    fastest = min(time for time, _ in medians.values())
    limit = fastest / SLOWEST_SPEED
    return [
        _finding(
            _STRAGGLING,
            f"rank {rank}",
            steps,
            value=time,
            threshold=limit,
            evidence=f"a step takes {time:.4g} ms, more than {limit:.4g} ms; the fastest rank's takes {fastest:.4g} ms",
            rule=_STRAGGLER,
        )
        for rank, (time, steps) in medians.items()
        if time > limit
    ]


def _common_steps(series: RankSeries) -> dict[int, tuple[float, ...]]:
    """The values of all ranks at each step that all of them have; empty with fewer than two ranks."""
    if len(series) < 2:
        return {}
    ranks = [dict(zip(steps, values, strict=True)) for steps, values in series.values()]
    shared = sorted(set(ranks[0]).intersection(*ranks[1:]))
    return {int(step): tuple(float(rank[step]) for rank in ranks) for step in shared}


def _are_equal(values: Sequence[float]) -> bool:
    return all(value == values[0] or (math.isnan(value) and math.isnan(values[0])) for value in values)


def _finding(
    kind: str, name: str, steps: Sequence[int], *, value: float, threshold: float, evidence: str, rule: str
) -> Finding:
    level: AlertLevel = "info" if kind == _STRAGGLING else "error"
    return Finding(
        kind=kind,
        name=name,
        level=level,
        step=int(steps[0]),
        last_step=int(steps[-1]),
        steps=len(steps),
        ongoing=True,
        value=value,
        threshold=threshold,
        evidence=evidence,
        rule=rule,
    )
