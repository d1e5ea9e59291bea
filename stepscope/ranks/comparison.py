"""Compares the ranks of a run with each other: everything that only their stores together show."""

from dataclasses import dataclass, field

from tracker_adapters.store.reading.record import RunRecord

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.facts import InvariantFacts
from debuggers.diagnosis.rank_facts import RankFacts
from stepscope.ranks.configurations import different_configurations, names_apart
from stepscope.ranks.desync import find_desync
from stepscope.ranks.findings import names_of
from stepscope.ranks.liveness import hung_ranks, missing_ranks, not_recorded
from stepscope.ranks.own_values import odd_losses, shared_batches
from stepscope.ranks.placements import rank_facts
from stepscope.ranks.speed import stragglers

WORLD_SIZE = "ranks"
"""The entry of a run's environment that says how many ranks its launcher announced."""
_STEPS = ("step_ms", "loss", "total_norm/gradients")


@dataclass(frozen=True, slots=True)
class RankComparison:
    """What the ranks' stores show together.

    Attributes:
        findings: In order of their first step.
        invariant: How often copies on several ranks were compared, and differed.
        world_size: How many ranks there are.
        not_compared: What was not compared, and why, one sentence each.
        reached: The last step of each rank that has a store; -1 for none.
    """

    findings: tuple[Finding, ...] = ()
    invariant: InvariantFacts = field(default_factory=lambda: InvariantFacts(name="replicas_equal"))
    world_size: int = 1
    not_compared: tuple[str, ...] = ()
    reached: dict[int, int] = field(default_factory=dict)


def compare_ranks(record: RunRecord, scope: str = "") -> RankComparison:
    """Compares all ranks that have a store; one store is open at a time, and a few series are in memory.

    Nothing is compared by the ranks' clocks, which may differ by minutes.
    """
    prefix = f"{scope}/" if scope else ""
    announced = record.info.environment.get(WORLD_SIZE, "")
    known = {
        rank: RankFacts(rank=rank) if facts is None else facts  # a run of an older version
        for rank, facts in rank_facts(record, scope)
    }
    notes = []
    world_size = max(
        [len(record.ranks), int(announced) if announced.isdigit() else 1, *(one.world_size for one in known.values())]
    )
    if world_size < 2:
        return RankComparison()
    reached = {rank: _last_step(record, prefix, rank) for rank in record.ranks}
    if absent := not_recorded(record, world_size):
        notes.append(f"{names_of(absent)} of {world_size}: no store, so that they are not compared")
    if apart := names_apart(known):
        notes.append(apart)
    desync = find_desync(record, prefix, known)
    findings = [
        *desync.findings,
        *odd_losses(record, prefix, known),
        *shared_batches(record, prefix, known),
        *(() if apart else different_configurations(record, prefix, known)),
        *(() if apart else stragglers(record, prefix, known)),
        *hung_ranks(record, prefix, reached),
        *missing_ranks(record, reached, world_size),
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
    return RankComparison(tuple(findings), invariant, world_size, tuple(notes), reached)


def _last_step(record: RunRecord, prefix: str, rank: int) -> int:
    """The last step of a rank, by what every session records; closes the rank's files again."""
    wanted = {prefix + name for name in _STEPS}
    last = max((info.last_step for info in record.names(rank) if info.name in wanted), default=-1)
    record.let_go(rank)
    return last
