"""What the ranks of a run have stored of themselves, and which of them count for a tensor."""

from collections.abc import Iterator

from msgspec.structs import replace
from tracker_adapters.store.reading.rank_values import read_rank_texts
from tracker_adapters.store.reading.record import RunRecord

from debuggers.diagnosis.rank_facts import RANK_NAME, RankFacts, decode_rank


def facts_of(record: RunRecord, scope: str = "") -> Iterator[tuple[int, dict[int, RankFacts]]]:
    """Yields each rank that has a store with what each of its attempts says of itself. One is open at a time.

    Args:
        record: The run.
        scope: The session's scope.
    """
    known: dict[frozenset[tuple[str, int]], dict[str, int]] = {}
    for rank in record.ranks:
        found = {}
        for attempt, text in read_rank_texts(record, rank, f"{scope}/{RANK_NAME}" if scope else RANK_NAME).items():
            facts = decode_rank(text)
            if facts is not None:  # most ranks have the same names and sizes, which thousands of ranks share then
                shared = (known.setdefault(frozenset(one.elements.items()), one.elements) for one in facts.placed)
                placed = [replace(one, elements=elements) for one, elements in zip(facts.placed, shared, strict=True)]
                found[attempt] = replace(facts, placed=tuple(placed))
        yield rank, found


class Counted:
    """Which ranks count for a tensor: of copies the first, and of shards each."""

    def __init__(self, tensor: str) -> None:
        """Takes the tensor's name."""
        self._tensor = tensor
        self._seen: set[tuple[str, int]] = set()
        self.parts = 0
        """In how many parts the tensor lies on the ranks, empty ones included."""

    def takes(self, facts: RankFacts | None) -> bool:
        """Whether this rank holds a part of the tensor that no rank before it held."""
        placed = None if facts is None else facts.of(self._tensor)
        if placed is None:
            return False
        key = placed.part, placed.parts
        if key in self._seen:
            return False
        self._seen.add(key)
        self.parts = max(self.parts, placed.parts)
        return placed.elements[self._tensor] > 0

    @property
    def is_complete(self) -> bool:
        """Whether every part was seen, also those that are empty."""
        return len(self._seen) == self.parts
