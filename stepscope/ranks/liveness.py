"""Which rank has stopped, at which step and where; and ranks that never started."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.rank_facts import HEARTBEAT_NAME
from stepscope.ranks.findings import names_of, rank_finding
from stepscope.ranks.last_start import LastStart

_HEAD = re.compile(r"last step: (-?\d+)\nseconds since: (\d+)\ncollectives: (-?\d+)\nin: (.*)\n")
_WAITING = ("torch/distributed/", "torch/autograd/graph.py", "torch/_tensor.py")
"""Files in whose functions a rank waits for others: collectives, and backward passes that reduce gradients."""
_FILE = re.compile(r'^  File "([^"]+)", line ', re.MULTILINE)
_RULE = "no step for a minute on any rank (STEPSCOPE_HANG_SECONDS), to the end of what was recorded"


LIVE_HANG_S = 300.0
"""Seconds without a step after which a run that is live has hung (stepscope's own choice)."""


@dataclass(frozen=True, slots=True)
class Stack:
    """Where a rank was when no step had ended for a while.

    Attributes:
        step: Its last step; -1 before the first.
        seconds: For how long by then.
        collectives: How many it had begun; -1 where unknown.
        waits: Whether it was in a collective or a backward pass.
        place: The innermost frame of the training's own code, such as ``train.py, line 12, in load``.
    """

    step: int
    seconds: int
    collectives: int
    waits: bool
    place: str

    @classmethod
    def of(cls, text: str) -> "Stack | None":
        """Reads what a rank has stored; None for something else."""
        head = _HEAD.match(text)
        if head is None:
            return None
        files = [path.replace("\\", "/") for path in _FILE.findall(text)]
        waits = any(part in path for path in files for part in _WAITING)
        return cls(int(head[1]), int(head[2]), int(head[3]), waits, head[4])


def hung_ranks(start: LastStart) -> Iterator[Finding]:
    """Yields a finding that names the ranks for which the others wait, where no rank takes a step any more.

    Those that say nothing at all, or else those that are in no collective, or else those that have begun the fewest.
    Each rank is judged by its own clock. While the run is live, five minutes have to pass: others wait rightly while
    one validates, or writes a checkpoint.
    """
    record, reached = start.record, start.reached
    if record.info.status == "finished":
        return
    stacks = {rank: _last_stack(start, rank, step) for rank, step in reached.items()}
    known = {rank: stack for rank, stack in stacks.items() if stack is not None}
    silent = [
        rank for rank in stacks if rank not in known and reached[rank] <= max(reached[one] for one in known or [rank])
    ]
    if not any(stack.waits for stack in known.values()) or len(known) + len(silent) < len(stacks):
        return  # a validation or a checkpoint of all ranks may take as long
    if record.is_live and min(_silent_s(start, rank) for rank in known) < LIVE_HANG_S:
        return
    step = max(stack.step for stack in known.values())
    begun = {stack.collectives for stack in known.values()}
    apart = [rank for rank, stack in known.items() if not stack.waits]
    behind = [rank for rank, stack in known.items() if stack.collectives == min(begun)] if len(begun) > 1 else []
    guilty = silent or (apart if len(apart) < len(known) else []) or behind
    waiting = [rank for rank in known if rank not in guilty]
    if not guilty:
        evidence = f"all ranks wait since step {step}: rank {min(known)} in {known[min(known)].place}"
        name = "all ranks"
    else:
        name = names_of(guilty)
        first = min(guilty)
        where = f"is in {known[first].place}" if first in known else "ended, or says nothing"
        evidence = f"rank {first} {where} after step {reached[first] if first in silent else known[first].step}"
        if waiting:
            other = known[min(waiting)]
            evidence += (
                f"; {names_of(waiting)} waited for {other.seconds} s and more, rank {min(waiting)} in {other.place}"
            )
    yield rank_finding("hung_rank", name, step, step, evidence=evidence, rule=_RULE)


def missing_ranks(start: LastStart) -> Iterator[Finding]:
    """Yields a finding for ranks without a store, where no rank has taken a step: the others wait for them.

    Where training goes on, ranks that are not recorded are a choice: ``not_recorded`` names them.
    """
    absent = not_recorded(start)
    if absent and max(start.reached.values(), default=-1) < 0 and start.record.info.status != "finished":
        evidence = f"{names_of(absent)} of {start.world_size} opened no run, and no other rank has taken a step"
        rule = "ranks that the launcher announced have no store, and there is no step"
        yield rank_finding("missing_rank", names_of(absent), 0, 0, evidence=evidence, rule=rule)


def not_recorded(start: LastStart) -> list[int]:
    """Returns the ranks of the last start that have no store."""
    return sorted(set(range(start.world_size)) - start.facts.keys())


def _last_stack(start: LastStart, rank: int, reached: int) -> Stack | None:
    """The stack that a rank stored after its last step; None where a step came after it."""
    text = start.stack(rank)
    stack = None if text is None else Stack.of(text)
    return stack if stack is not None and stack.step >= reached else None


def _silent_s(start: LastStart, rank: int) -> float:
    """Seconds from a rank's last step to its last heartbeat."""
    beats, steps = start.times_ns(rank, HEARTBEAT_NAME), start.times_ns(rank, "step_ms")
    if not len(beats):
        return 0.0
    return float(beats[-1] - (steps[-1] if len(steps) else beats[0])) / 1e9
