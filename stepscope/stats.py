"""What became of a run's artifacts, in the store and in each sink."""

from __future__ import annotations

from dataclasses import dataclass


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

    ``queued`` waits to be stored: 0 after a flush, unless the store cannot be written or others go on emitting.
    ``sinks`` is by sink name; two sinks of one name are told apart by their target.
    """

    emitted: int
    stored: int
    queued: int
    lost: dict[str, int]
    sinks: dict[str, SinkStats]
