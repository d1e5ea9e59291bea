"""When the attempts of a rank began and ended, from the rows that each wrote first and last."""

from collections.abc import Sequence
from dataclasses import dataclass

from tracker_adapters.store.segments.attempt_rows import attempts_with_first_numbers, time_of_last
from tracker_adapters.store.segments.opened import Segment


@dataclass(frozen=True, slots=True)
class AttemptTimes:
    """One opening of a run.

    Attributes:
        attempt: Its number, from 1.
        began_ns: When it began, in nanoseconds since 1970.
        last_ns: The time of the last artifact that it stored; None where it stored none.
        stored: How many artifacts it stored.
    """

    attempt: int
    began_ns: int
    last_ns: int | None
    stored: int


def attempt_times(segments: Sequence[Segment]) -> list[AttemptTimes]:
    """Returns the attempts of one rank, whose segments these are, by their numbers."""
    began: dict[int, tuple[int, int]] = {}
    for segment in segments:
        for attempt, first_seq, started_ns in attempts_with_first_numbers(segment):
            # Each further segment of an attempt says so again.
            began[attempt] = min(began.get(attempt, (first_seq, started_ns)), (first_seq, started_ns))
    last_seq = max((max(segment.last_seq(), segment.first_seq - 1) for segment in segments), default=0)
    firsts = [first for first, _ in began.values()]
    found = []
    for attempt, (first, started_ns) in sorted(began.items()):
        until = min((other for other in firsts if other > first), default=last_seq + 1) - 1
        stored = until - first + 1 if sum(other == first for other in firsts) == 1 or attempt == max(began) else 0
        times = [time for segment in segments if stored and (time := time_of_last(segment, until, attempt)) is not None]
        found.append(AttemptTimes(attempt, started_ns, max(times, default=None), stored))
    return found
