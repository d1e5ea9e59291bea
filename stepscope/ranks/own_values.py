"""What is a rank's own: a loss that is not finite on some ranks alone, batches that several ranks share."""

import math
from collections.abc import Iterator

import numpy as np

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.signals import PREFIX
from stepscope.ranks.findings import names_of, rank_finding
from stepscope.ranks.last_start import LastStart

_LEAST_BATCHES, _COMPARED = 3, 10
_LEAST_RANKS, _LEAST_STEPS, _FAR = 8, 20, 6.0
_NORMAL = 1.4826
"""By how much the median distance of normal numbers from their median falls short of their standard deviation."""
_SHARED = 0.9
"""Share of the checks at which two ranks have the same batch, from which they do so by mistake (stepscope's choice)."""


def odd_losses(start: LastStart) -> Iterator[Finding]:
    """Yields a finding for the ranks whose loss is NaN or infinite first, while that of others is finite.

    A step later averaged gradients have made all of them so. One of level info names ranks whose loss lies far from
    that of the others, of eight or more.
    """
    firsts, lasts = {}, {}
    levels: dict[int, float] = {}
    for rank in start.facts:
        steps, losses = start.read(rank, "loss")
        broken = np.flatnonzero(~np.isfinite(losses))
        if len(steps):
            firsts[rank] = int(steps[broken[0]]) if len(broken) else math.inf
            lasts[rank] = int(steps[-1])
            late = losses[len(losses) // 2 :]
            if len(steps) >= _LEAST_STEPS and np.isfinite(late).any():
                levels[rank] = float(np.median(late[np.isfinite(late)]))
    first = min(firsts.values(), default=math.inf)
    guilty = [rank for rank, step in firsts.items() if step == first]
    others = [rank for rank in firsts if rank not in guilty and lasts[rank] >= first]
    if first < math.inf and others:
        evidence = f"the loss of {names_of(guilty)} is not finite at step {int(first)}; that of {names_of(others)} is"
        rule = "NaN or infinity in the loss of some ranks at the first step that has any"
        last = max(lasts[rank] for rank in guilty)
        yield rank_finding("non_finite_rank", names_of(guilty), int(first), last, evidence=evidence, rule=rule)
    yield from _outliers(levels, lasts)


def _outliers(levels: dict[int, float], lasts: dict[int, int]) -> Iterator[Finding]:
    if len(levels) < _LEAST_RANKS:
        return
    found = np.array(list(levels.values()))
    middle = float(np.median(found))
    spread = float(np.median(np.abs(found - middle))) * _NORMAL
    far = (np.abs(found - middle) > _FAR * spread) & (np.abs(found - middle) > abs(middle) / 2)
    for rank in np.array(list(levels))[far].tolist():
        evidence = f"its loss is {levels[rank]:.3g} in the later half, and {middle:.3g} that of the median rank"
        rule = "6 robust standard deviations, and half of the median, away from the median rank; of 8 ranks or more"
        numbers = {"value": levels[rank], "threshold": middle}
        yield rank_finding(
            "outlier_rank", f"rank {rank}", 0, lasts[rank], evidence=evidence, rule=rule, level="info", **numbers
        )


def shared_batches(start: LastStart) -> Iterator[Finding]:
    """Yields a finding for ranks that are given the same batches, where each should have its own.

    That is so where data parallelism is all there is: ranks of a tensor-parallel group share their batches rightly.
    Batches that never change tell nothing.
    """
    known = {}
    sharing: dict[int, list[int]] = {}
    since = last = 0
    for rank, facts in start.facts.items():
        if facts.strategy not in ("ddp", "fsdp") or any(len(one.mesh_shape) > 1 for one in facts.placed):
            continue
        steps, numbers = start.read(rank, f"{PREFIX}batch_checksum")
        begin = tuple(steps[:_LEAST_BATCHES].tolist()), tuple(numbers[:_LEAST_BATCHES].tolist())
        if len(steps) < _LEAST_BATCHES or len(np.unique(numbers)) < 2:
            continue
        if begin not in known:
            known[begin] = rank, steps[:1000], numbers[:1000]
            continue
        other, their_steps, theirs = known[begin]
        common, here, there = np.intersect1d(steps, their_steps, assume_unique=True, return_indices=True)
        if np.mean(numbers[here] == theirs[there]) >= _SHARED:
            sharing.setdefault(other, []).append(rank)
            since, last = int(common[0]), int(common[-1])
    if sharing:
        groups = [names_of([rank, *others]) for rank, others in sharing.items()]
        evidence = f"{'; '.join(groups[:_COMPARED])} are given the same batches at all checked steps"
        rule = "the first input of the model is equal to the bit on two ranks, at nine in ten checks or more"
        yield rank_finding("same_batch_on_ranks", groups[0], since, last, evidence=evidence, rule=rule)
