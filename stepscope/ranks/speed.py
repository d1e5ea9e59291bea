"""Stragglers: the time of a rank's step without what it waits for others, against the fastest rank's."""

from collections.abc import Iterator

import numpy as np

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.signals import PREFIX
from stepscope.ranks.findings import rank_finding
from stepscope.ranks.last_start import LastStart
from stepscope.ranks.sums import Steps, Values

SLOWEST_SPEED = 0.75
LEAST_MS = 5.0
"""A rank that is slower by less is within the noise of a machine."""
_LEAST_WINDOWS, _MOSTLY = 2, 0.8
_PHASES = ("data_ms", "forward_ms", "backward_ms")
_RULE = (
    "the time of a step without waiting is more than 4/3 of the fastest rank's (NVIDIA Resiliency Extension: a speed "
    f"below 0.75) and {LEAST_MS:g} ms longer, in 8 of 10 windows of ten steps, of two or more"
)


def own_times(start: LastStart) -> tuple[Steps, dict[int, Values]]:
    """Returns the steps that end a window, and for each rank the milliseconds of a step without waiting there.

    Ranks wait for each other in the backward pass, and in the forward pass where parameters are sharded: of these
    phases everybody is given the shortest time that a rank takes, as the one that comes last waits least. What lies
    before is a rank's own.
    """
    found: dict[int, list[tuple[Steps, Values]]] = {}
    for rank in start.facts:
        series = [start.read(rank, f"{PREFIX}{phase}") for phase in _PHASES]
        if all(len(steps) for steps, _ in series):
            found[rank] = series
    if len(found) < 2:
        return np.empty(0, np.int64), {}
    steps = _common([steps for series in found.values() for steps, _ in series])
    rows = np.array([[values[np.isin(at, steps)] for at, values in series] for series in found.values()])
    data, forward, backward = rows[:, 0], rows[:, 1], rows[:, 2]
    waits = np.array([start.facts[rank].strategy not in ("", "ddp") for rank in found])
    if len(steps):
        forward = np.where(waits[:, None], forward.min(0), forward)
        backward = np.broadcast_to(backward.min(0), backward.shape)
    return steps, dict(zip(found, data + forward + backward, strict=True))


def stragglers(steps: Steps, times: dict[int, Values]) -> Iterator[Finding]:
    """Yields a warning for each rank that is slower by itself than three quarters of the fastest one's speed.

    It takes what ``own_times`` returns.
    """
    if len(steps) < _LEAST_WINDOWS:
        return
    best = np.min(list(times.values()), axis=0)
    for rank, own in times.items():
        slow = (own * SLOWEST_SPEED > best) & (own - best >= LEAST_MS)
        if slow.mean() >= _MOSTLY:
            since = int(steps[np.flatnonzero(slow)[0]])
            took, fastest = float(np.median(own)), float(np.median(best))
            evidence = f"a step takes it {took:.3g} ms without waiting, and {fastest:.3g} ms the fastest rank"
            numbers = {"value": took, "threshold": fastest / SLOWEST_SPEED}
            yield rank_finding(
                "straggling_rank",
                f"rank {rank}",
                since,
                int(steps[-1]),
                evidence=evidence,
                rule=_RULE,
                level="warning",
                **numbers,
            )


def _common(series: list[Steps]) -> Steps:
    common = series[0]
    for steps in series[1:]:
        common = np.intersect1d(common, steps, assume_unique=True)
    return common
