"""How a training goes, by the numbers that a loop recorded: each judgement with its formula."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import fmean, median

from debuggers.model_diagnostics.records import ModelPerformanceMetrics

FEWEST = 8
"""Finite losses from which the course of a training is judged."""
PLATEAU = 0.01
"""A loss that fell by less than this share of its first value in the last third stands still."""


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainingDynamics:
    """How a training goes. What was recorded too rarely is None: it is not known, and not healthy.

    ``first`` and ``last`` are the medians of the first and the last fifth of the finite losses, at least three each.

    Attributes:
        records: Number of records that it was read from.
        non_finite: The share of all records, kept or not, whose loss is NaN or infinite.
        convergence: ``(first - last) / |first|``: the share by which the loss fell; negative if it rose.
        plateau: Whether the loss fell by less than ``0.01 |first|`` between the middle and the last third, by the
            medians of these; whether that is good (it has converged) or bad is for ``convergence`` to say.
        stability: ``level / (level + noise)`` in the last half of the losses: 1 for a loss that goes one way, 0.5 where
            its noise is as large as itself. The level is the median of their sizes. The noise is the median distance
            of neighbours, where only moves that are undone count: each rise together with one fall; the falls (or
            rises) that are left over are the trend, and count as 0.
        efficiency: ``convergence`` per 1000 steps.
        generalisation_gap: Last validation loss minus the ``last`` training loss, over ``|last|``.
        throughput: Mean samples per second of the records that have a finite one.
        throughput_change: Median of the last third over that of the first third, minus 1; -0.2 is a fifth slower.
    """

    records: int
    non_finite: float | None
    convergence: float | None
    plateau: bool | None
    stability: float | None
    efficiency: float | None
    generalisation_gap: float | None
    throughput: float | None
    throughput_change: float | None


def dynamics_of(records: Sequence[ModelPerformanceMetrics], *, non_finite: float | None) -> TrainingDynamics:
    """Returns how a training goes, from records in the order of their steps, and the share of losses not finite."""
    losses = [record.loss for record in records if math.isfinite(record.loss)]
    steps = [record.training_step for record in records if math.isfinite(record.loss)]
    speeds = _finite([record.throughput_samples_per_sec for record in records])
    enough = len(losses) >= FEWEST
    first, last = _ends(losses) if enough else (math.nan, math.nan)
    convergence = _ratio(first - last, first)
    return TrainingDynamics(
        records=len(records),
        non_finite=non_finite,
        convergence=convergence,
        plateau=_stands(losses, first) if enough else None,
        stability=_stability(losses[len(losses) // 2 :]) if enough else None,
        efficiency=None if convergence is None else _ratio(1000 * convergence, steps[-1] - steps[0]),
        generalisation_gap=_gap(records, last),
        throughput=fmean(speeds) if speeds else None,
        throughput_change=_change(speeds),
    )


def _ends(losses: Sequence[float]) -> tuple[float, float]:
    count = max(3, len(losses) // 5)
    return median(losses[:count]), median(losses[-count:])


def _stands(losses: Sequence[float], first: float) -> bool:
    third = len(losses) // 3
    return abs(median(losses[third:-third]) - median(losses[-third:])) < PLATEAU * abs(first)


def _stability(losses: Sequence[float]) -> float:
    level, moves = median(map(abs, losses)), [after - before for before, after in pairwise(losses)]
    undone = min(([abs(one) for one in moves if one * way > 0] for way in (1, -1)), key=len)
    noise = median([*undone, *undone, *[0.0] * (len(moves) - 2 * len(undone))])
    return 1.0 if noise == 0 else level / (level + noise)


def _gap(records: Sequence[ModelPerformanceMetrics], last: float) -> float | None:
    told = _finite([record.validation_loss for record in records])
    return _ratio(told[-1] - last, last) if told else None


def _change(speeds: Sequence[float]) -> float | None:
    if len(speeds) < FEWEST:
        return None
    third = len(speeds) // 3
    before = median(speeds[:third])
    return _ratio(median(speeds[-third:]) - before, before)


def _ratio(value: float, to: float) -> float | None:
    """``value / |to|``; None where that is no finite number."""
    return None if to == 0 or not math.isfinite(to) or not math.isfinite(value) else value / abs(to)


def _finite(values: Sequence[float | None]) -> list[float]:
    return [value for value in values if value is not None and math.isfinite(value)]
