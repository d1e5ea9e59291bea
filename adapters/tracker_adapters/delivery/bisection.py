"""Finds the one artifact that a sink refuses, among thousands that it takes.

A batch that fails again and again is tried in halves, down to single artifacts; after each success the next batch is
twice as large, until all is well. So a tracker that is too slow for large batches settles at a size that it can take.

An artifact that fails alone is not yet proven to be at fault: the tracker may be down. It is skipped only when the sink
takes another one of its kind after that, refuses this one again, and so on some times: a tracker that fails now and
then must not cost what it would take. Where it takes only other kinds, a part of the tracker may be down, such as its
file server: then it takes many tries, until the kind is known to be refused.
"""

import json
from collections.abc import Collection
from dataclasses import asdict, dataclass, field
from typing import Self

import msgspec

from tracker_adapters.store.reading.tail import MAX_ROWS

FAILURES_TO_SPLIT = 3
"""Failures of a batch before it is split: most failures pass by themselves."""
CONVICTIONS = 3
"""How often a suspect has to fail: between any two failures the sink took another artifact of its kind."""
WEAK_CONVICTIONS = 10
"""The same where the sink took only artifacts of other kinds."""


@dataclass(slots=True)
class Bisection:
    """How many artifacts to try next, and which one is suspected; plain data that the ledger keeps.

    Attributes:
        rows: Artifacts to try next at most.
        failures: Failures since all was well.
        suspect: Sequence number of an artifact that failed alone, or 0.
        proven: Whether the sink took another artifact since the suspect's last failure.
        same_kind: Whether the last one that it took was of the suspect's kind.
        convictions: Failures of the suspect after such a proof, and its first one.
        refused_kinds: Kinds of which one was skipped and none was taken since.
    """

    rows: int = MAX_ROWS
    failures: int = 0
    suspect: int = 0
    proven: bool = False
    same_kind: bool = False
    convictions: int = 0
    refused_kinds: list[str] = field(default_factory=list)

    def failed(self, first: int, last: int, *, hung: bool = False) -> bool:
        """Notes that the artifacts from ``first`` to ``last`` were not taken.

        Args:
            first: Sequence number of the first one.
            last: Of the last one.
            hung: Whether the sink did not answer; then fewer artifacts are tried at once.

        Returns:
            Whether the next try differs, so that it need not wait.
        """
        self.failures += 1
        if last > first:
            if hung or self.failures >= FAILURES_TO_SPLIT:
                self.rows = (last - first + 1) // 2
                return True
            return False
        if self.suspect != first:
            self._clear_suspect()
            self.suspect, self.convictions = first, 1
            return True
        if self.proven:
            self.proven = False
            self.convictions += 1
            return True
        return False

    def accepted(self, rows: int, kinds: Collection[str]) -> None:
        """Notes that so many artifacts of these kinds were taken."""
        self.refused_kinds = [kind for kind in self.refused_kinds if kind not in kinds]
        self._clear_suspect()
        self.rows = min(MAX_ROWS, 2 * max(rows, self.rows))
        if self.rows == MAX_ROWS:
            self.failures = 0

    def took_another(self, *, same_kind: bool) -> None:
        """Notes that the sink took another artifact while there was a suspect; of its kind?"""
        self.proven, self.same_kind = True, same_kind

    def is_proven_to_refuse(self, kind: str) -> bool:
        """Whether the suspect, which is of this kind, is at fault."""
        enough = CONVICTIONS if self.same_kind or kind in self.refused_kinds else WEAK_CONVICTIONS
        return not self.proven and self.convictions >= enough

    def skipped(self, kind: str) -> None:
        """Notes that the suspect, which is of this kind, is passed over."""
        if kind not in self.refused_kinds:
            self.refused_kinds.append(kind)
        self._clear_suspect()

    def encode(self) -> str:
        """Returns it as text; empty while all is well."""
        return json.dumps(asdict(self)) if self != Bisection() else ""

    @classmethod
    def decode(cls, text: str) -> Self:
        """Returns what ``encode`` stood for; a new one for anything else."""
        try:
            return msgspec.convert(json.loads(text), cls) if text else cls()
        except (ValueError, RecursionError, msgspec.MsgspecError):
            return cls()

    def _clear_suspect(self) -> None:
        self.suspect, self.convictions = 0, 0
        self.proven = self.same_kind = False
