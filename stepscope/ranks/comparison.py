"""Compares the ranks of a run with each other: everything that only their stores together show."""

from dataclasses import dataclass, field

import numpy as np
from tracker_adapters.store.reading.record import RunRecord

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.facts import InvariantFacts
from debuggers.diagnosis.rank_facts import RankFacts
from stepscope.ranks.configurations import different_configurations, names_apart
from stepscope.ranks.desync import find_desync
from stepscope.ranks.findings import names_of
from stepscope.ranks.last_start import LastStart
from stepscope.ranks.liveness import hung_ranks, missing_ranks, not_recorded
from stepscope.ranks.own_values import odd_losses, shared_batches
from stepscope.ranks.speed import own_times, stragglers


@dataclass(frozen=True, slots=True)
class RankComparison:
    """What the ranks' stores show together.

    Attributes:
        findings: In order of their first step.
        invariant: How often copies on several ranks were compared, and differed.
        world_size: How many ranks there are.
        not_compared: What was not compared, and why, one sentence each.
        reached: The last step of each rank that has a store; -1 for none.
        facts: What each of these says of itself.
        own_ms: The median milliseconds of a rank's step without waiting, of ranks whose steps were timed.
    """

    findings: tuple[Finding, ...] = ()
    invariant: InvariantFacts = field(default_factory=lambda: InvariantFacts(name="replicas_equal"))
    world_size: int = 1
    not_compared: tuple[str, ...] = ()
    reached: dict[int, int] = field(default_factory=dict)
    facts: dict[int, RankFacts] = field(default_factory=dict)
    own_ms: dict[int, float] = field(default_factory=dict)


def compare_ranks(record: RunRecord, scope: str = "") -> RankComparison:
    """Compares all ranks that have a store; one store is open at a time, and a few series are in memory.

    Of a run that was resumed, its last start is compared. Nothing is compared by the ranks' clocks, which may differ by
    minutes.
    """
    start = LastStart(record, scope)
    if start.world_size < 2:
        return RankComparison()
    known, notes = start.facts, []
    if absent := not_recorded(start):
        notes.append(f"{names_of(absent)} of {start.world_size}: no store")
    idle = [rank for rank, step in start.reached.items() if step < 0]
    if 0 < len(idle) < len(start.reached):
        notes.append(f"{names_of(idle)}: no step was recorded")
    if start.earlier:
        them = "it" if len(start.earlier) == 1 else "them"
        notes.append(
            f"{names_of(start.earlier)}: only an earlier start had {them}; the last one has {start.world_size} ranks"
        )
    if apart := names_apart(known):
        notes.append(apart)
    desync = find_desync(start)
    steps, times = own_times(start)
    findings = [
        *desync.findings,
        *odd_losses(start),
        *shared_batches(start),
        *(() if apart else different_configurations(start)),
        *(() if apart else stragglers(steps, times)),
        *hung_ranks(start),
        *missing_ranks(start),
    ]
    findings.sort(key=lambda one: one.step)
    parted = min(desync.findings, key=lambda one: one.step, default=None)
    invariant = InvariantFacts(
        name="replicas_equal",
        checked=desync.checked,
        broken=desync.differing if parted else 0,
        first_step=None if parted is None else parted.step,
        where="" if parted is None else parted.evidence,
    )
    own_ms = {rank: float(np.median(own)) for rank, own in times.items() if len(own)}
    return RankComparison(tuple(findings), invariant, start.world_size, tuple(notes), start.reached, known, own_ms)
