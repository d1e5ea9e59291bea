"""The starts of a run on different numbers of ranks: which ranks took a step, and how its tensors lay on them."""

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np
from tracker_adapters.errors import ArtifactError
from tracker_adapters.store.reading.rank_values import RankValues, read_histogram
from tracker_adapters.store.reading.record import RunRecord

from debuggers.diagnosis.rank_facts import RankFacts
from stepscope.ranks.placements import facts_of
from stepscope.ranks.sums import Steps, Values, unique_steps

_Said = dict[int, RankFacts]


@dataclass(frozen=True, slots=True)
class Start:
    """The ranks that trained together.

    Attributes:
        ranks: Each with what it says of itself; None where it says nothing.
        values: Reads their scalars.
        attempts: Of each rank those that belong to it; empty where all do.
        steps: Those that it took, int64 (n,); None for all.
    """

    ranks: list[tuple[int, RankFacts | None]]
    values: RankValues
    attempts: dict[int, Collection[int]] = field(default_factory=dict)
    steps: Steps | None = None

    def read(self, rank: int, name: str) -> tuple[Steps, Values]:
        """Returns a scalar of a rank, steps and values (n,), by step, each once."""
        steps, values = unique_steps(*self.values.read(rank, name, self.attempts_of(rank)))
        if self.steps is None:
            return steps, values
        taken = np.isin(steps, self.steps)
        return steps[taken], values[taken]

    def attempts_of(self, rank: int) -> Collection[int] | None:
        """Returns which attempts of a rank belong to it; None for all."""
        return self.attempts.get(rank)

    def has_parameter(self, tensor: str) -> bool:
        """Whether a rank holds a part of a parameter of this name."""
        return any(facts is not None and facts.of(tensor) is not None for _, facts in self.ranks)


class Starts:
    """Finds the start that a step belongs to: mostly there is one for all, however often the run was resumed.

    Starts are told apart by their number of ranks. A step belongs to that of the latest attempt at it of the lowest
    rank that has what is asked for; attempts of other ranks at it that belong to another start are those that the
    rewinding of a checkpoint has made void.
    """

    def __init__(self, record: RunRecord, scope: str) -> None:
        """Takes the run and the session's scope."""
        self._record, self._scope, self._values = record, scope, RankValues(record)
        self._said: list[tuple[int, _Said]] = []

    def of_whole_run(self) -> Start | None:
        """Returns the one start of a run that was never resumed, without what its ranks say; None of another run."""
        first = self._record.lowest_rank
        attempts = self._record.attempts(first) if first in self._record.ranks else []
        self._record.let_go(first)
        return Start([(rank, None) for rank in self._record.ranks], self._values) if len(attempts) < 2 else None

    def of_scalar(self, name: str) -> list[Start]:
        """Returns the starts that a scalar is of; one at least."""
        worlds = self._worlds()
        if len(worlds) < 2:
            return [self._whole()]
        owners = next((found for rank, said in self._said if len((found := self._owners(rank, said, name))[0])), None)
        if owners is None:
            return [self._whole()]
        steps, sizes = owners
        return [self._of(world, steps[sizes == world]) for world in worlds if (sizes == world).any()]

    def of_histogram(self, name: str, step: int) -> Start:
        """Returns the start that a histogram at a step is of."""
        worlds = self._worlds()
        if len(worlds) > 1:
            for rank, said in self._said:
                for attempt in sorted(said, reverse=True):
                    if read_histogram(self._record, rank, name, step, (attempt,)) is not None:
                        return self._of(said[attempt].world_size, None)
        return self._whole()

    def _worlds(self) -> list[int]:
        """The numbers of ranks that there were; a rank says its at its first step, and never takes it back."""
        if not any(said for _, said in self._said):
            self._said = list(facts_of(self._record, self._scope))
        worlds = sorted({facts.world_size for _, said in self._said for facts in said.values()})
        if len(worlds) > 1:
            self._said = [(rank, self._for_all_attempts(rank, said)) for rank, said in self._said]
        return worlds

    def _for_all_attempts(self, rank: int, said: _Said) -> _Said:
        """What a rank says, also for attempts that watched nothing: what the one before them says."""
        found: _Said = {}
        for attempt in (one.attempt for one in self._record.attempts(rank)):
            facts = said.get(attempt) or found.get(attempt - 1) or next(iter(said.values()), None)
            if facts is not None:
                found[attempt] = facts
        self._record.let_go(rank)
        return found

    def _whole(self) -> Start:
        return Start([(rank, said[max(said)] if said else None) for rank, said in self._said], self._values)

    def _of(self, world: int, steps: Steps | None) -> Start:
        ranks: list[tuple[int, RankFacts | None]] = []
        attempts: dict[int, Collection[int]] = {}
        for rank, said in self._said:
            own = [attempt for attempt, facts in said.items() if facts.world_size == world]
            if own or not said:
                ranks.append((rank, said[own[-1]] if own else None))
            if own:
                attempts[rank] = own
        return Start(ranks, self._values, attempts, steps)

    def _owners(self, rank: int, said: _Said, name: str) -> tuple[Steps, Steps]:
        """The steps of a rank's scalar, and how many ranks there were when it recorded each."""
        try:
            rows = self._record.scalar_rows(name, rank) if said else None
        except ArtifactError:
            rows = None
        self._record.let_go(rank)
        if rows is None:
            return np.empty(0, np.int64), np.empty(0, np.int64)
        kept = rows.latest()
        sizes = {attempt: facts.world_size for attempt, facts in said.items()}
        return rows.steps[kept], np.array([sizes.get(of, 0) for of in rows.attempts[kept].tolist()], np.int64)
