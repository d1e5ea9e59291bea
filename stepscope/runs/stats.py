"""What became of a run's artifacts, in the store and in each sink."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Self

from tracker_adapters.store.ledger import Position
from tracker_adapters.store.writing.emit_queue import StoreCounts


@dataclass(frozen=True, slots=True)
class SinkStats:
    """What became of the stored artifacts in one sink: stored = delivered + pending + the sum of failed.

    ``state`` is waiting, delivering, retrying, quarantined or done; ``error`` the last failure's message, empty while
    all is well; ``updated_ns`` when the sink last got somewhere, in nanoseconds since the epoch.
    """

    delivered: int
    pending: int
    failed: dict[str, int]
    state: str
    error: str
    updated_ns: int


@dataclass(frozen=True, slots=True)
class RunStats:
    """What became of the artifacts of all attempts: emitted = stored + queued + the sum of lost.

    ``queued`` waits to be stored: 0 after a flush, unless the store cannot be written or others continue emitting.
    ``sinks`` is by sink name; two sinks of one name are distinguished by their target.
    """

    emitted: int
    stored: int
    queued: int
    lost: dict[str, int]
    sinks: dict[str, SinkStats]

    @classmethod
    def of(cls, counts: StoreCounts, lost: dict[str, int], positions: Sequence[Position]) -> Self:
        """Puts together what the store and the sinks know.

        Args:
            counts: What the store has taken.
            lost: How many artifacts were lost in all attempts, by reason.
            positions: How far each sink is; asked for before the counts.
        """
        # A sink may be faster than the thread that has committed and still has to count it.
        stored = max([counts.stored, *(position.seq for position in positions)])
        names = [position.sink for position in positions]
        sinks = {}
        for position in positions:
            label = position.sink if names.count(position.sink) == 1 else f"{position.sink}:{position.target}"
            sinks[label] = SinkStats(
                delivered=position.delivered,
                pending=stored - position.seq,
                failed=position.failed,
                state=position.state,
                error=position.error,
                updated_ns=position.updated_ns,
            )
        return cls(
            emitted=counts.stored + counts.queued + sum(lost.values()),
            stored=stored,
            queued=counts.stored + counts.queued - stored,
            lost=lost,
            sinks=sinks,
        )
