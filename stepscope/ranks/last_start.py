"""What each rank has recorded since the training was started last: what it did before was another training."""

import numpy as np
from tracker_adapters.errors import ArtifactError
from tracker_adapters.store.reading.rank_values import RankValues, read_rank_texts
from tracker_adapters.store.reading.record import RunRecord

from debuggers.diagnosis.rank_facts import STACK_NAME, RankFacts
from stepscope.ranks.placements import facts_of
from stepscope.ranks.sums import Steps, Values, unique_steps

WORLD_SIZE = "ranks"
"""The entry of a run's environment that says how many ranks its launcher announced."""
_STEPS = ("step_ms", "loss", "total_norm/gradients")


class LastStart:
    """Reads of each rank what its last watched training has recorded, and tells ranks that only an earlier one had.

    A run may be resumed from a checkpoint before the last step, and on fewer ranks or more. An attempt that watched
    nothing is no start.
    """

    def __init__(self, record: RunRecord, scope: str = "") -> None:
        """Takes the run, and the session's scope; reads two texts of each rank."""
        self.record = record
        self.prefix = f"{scope}/" if scope else ""
        self.facts: dict[int, RankFacts] = {}
        """What each rank of the last start says of itself, without more than its number where it says nothing."""
        self.reached: dict[int, int] = {}
        """The last step of each of these ranks; -1 for none."""
        self.earlier: list[int] = []
        """The ranks that only an earlier start had."""
        self._values = RankValues(record)
        self._stacks: dict[int, str] = {}
        self._attempts: dict[int, tuple[int, ...]] = {}
        known: dict[int, RankFacts | None] = {}
        for rank, said in facts_of(record, scope):
            stacks = read_rank_texts(record, rank, self.prefix + STACK_NAME)
            attempt = max(max(said, default=0), max(stacks, default=0))
            known[rank] = said.get(attempt)
            if attempt:
                self._attempts[rank] = (attempt,)
            if attempt in stacks:
                self._stacks[rank] = stacks[attempt]
        announced = record.info.environment.get(WORLD_SIZE, "")
        first = next((facts.world_size for facts in known.values() if facts is not None), 1)
        size = int(announced) if announced.isdigit() and int(announced) > 1 else first
        for rank, facts in known.items():
            if facts is not None and facts.world_size != size and rank >= size:
                self.earlier.append(rank)
            else:
                self.facts[rank] = RankFacts(rank=rank) if facts is None else facts  # of an older version, or no step
        sizes = () if self.earlier else (facts.world_size for facts in self.facts.values())
        self.world_size = max(size, max(self.facts, default=0) + 1, *sizes)
        """How many ranks there are."""
        self.reached = {rank: self._last_step(rank) for rank in self.facts}

    def read(self, rank: int, name: str) -> tuple[Steps, Values]:
        """Returns a scalar of the session, ``name`` without the scope: steps and values (n,), by step, each once.

        Raises:
            RunError: When the store cannot be read.
        """
        return unique_steps(*self._values.read(rank, self.prefix + name, self._attempts.get(rank)))

    def stack(self, rank: int) -> str | None:
        """Returns the last stack that a rank has stored; None where there is none."""
        return self._stacks.get(rank)

    def times_ns(self, rank: int, name: str) -> Steps:
        """Returns when a rank recorded a scalar, in order of arrival, int64 (n,); empty where it has none."""
        try:
            rows = self.record.scalar_rows(self.prefix + name, rank)
        except ArtifactError:
            return np.empty(0, np.int64)
        of = self._attempts.get(rank)
        return rows.times_ns if of is None else rows.times_ns[rows.attempts == of[0]]

    def _last_step(self, rank: int) -> int:
        """The last step of a rank, by what every session records; closes the rank's files again."""
        if self._attempts.get(rank, (1,)) != (1,):
            return max((int(steps[-1]) for name in _STEPS if len(steps := self.read(rank, name)[0])), default=-1)
        wanted = {self.prefix + name for name in _STEPS}
        last = max((info.last_step for info in self.record.names(rank) if info.name in wanted), default=-1)
        self.record.let_go(rank)
        return last
