"""Finds the rows of a rank that a later attempt replaced, within a memory limit."""

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracker_adapters.artifacts import KINDS
from tracker_adapters.store.reading.attempts import Replacements, Span
from tracker_adapters.store.reading.columns import Extent, Integers, SegmentRows, Wanted, wanted_series
from tracker_adapters.store.reading.segments import opened_segments
from tracker_adapters.store.segments.attempt_rows import spans_of_attempts, steps_of_attempts
from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.schema import table_of

SHOWN_BY_STEP = frozenset(kind for kind, cls in KINDS.items() if cls.by_step)
"""Kinds of which readers show the latest attempt at a step; of the others they show everything."""
_Series = tuple[str, str]


@dataclass(slots=True)
class _Attempt:
    """What one attempt recorded of a series: its first and last step, and those where it was compacted.

    ``again`` are the steps that an earlier attempt may have recorded too.
    """

    steps: Span
    compacted: Span | None = None
    again: Integers = field(default_factory=lambda: np.empty(0, np.int64))


_Attempts = dict[int, _Attempt]


class LatestAttempts:
    """Knows which rows of a rank were replaced by a later attempt.

    Only the steps are kept that several attempts can have recorded: sixteen bytes for each of them and each series.
    """

    def __init__(self, run_folder: Path, rank: int, selection: Wanted, until: Extent) -> None:
        self._of_series: dict[_Series, Replacements] = {}
        tables = sorted({table_of(kind) for kind in selection.kinds & SHOWN_BY_STEP})
        if selection.all_attempts or until.last_attempt < 2 or not tables:
            return
        found: dict[_Series, _Attempts] = defaultdict(dict)
        for segment, _ in opened_segments(run_folder, rank):
            for table in tables:
                _add_spans(found, segment, table, selection, until)
        found = {key: attempts for key, attempts in found.items() if _may_overlap(attempts)}
        if found:
            for segment, _ in opened_segments(run_folder, rank):
                for table in tables:
                    _add_again(found, segment, table, until)
        self._of_series = {key: _replacements(attempts) for key, attempts in found.items()}

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the series of which something may have been recorded again."""
        return tuple(sorted({name for _, name in self._of_series}))

    def kept(self, rows: SegmentRows) -> SegmentRows:
        """Returns the rows that no later attempt replaced."""
        return rows.where(~self.replaced(rows)) if self._of_series else rows

    def replaced(self, rows: SegmentRows) -> npt.NDArray[np.bool_]:
        """Returns for each row whether a later attempt replaced it; bool (n,)."""
        replaced = np.zeros(len(rows), np.bool_)
        order = np.argsort(rows.numbers, kind="stable")
        for places in np.split(order, np.flatnonzero(np.diff(rows.numbers[order])) + 1):
            replacements = self._of_series.get(rows.series[int(rows.numbers[places[0]])])
            if replacements is not None:
                replaced[places] = replacements.replaced(attempts=rows.attempts[places], steps=rows.steps[places])
        return replaced


def _add_spans(
    found: Mapping[_Series, _Attempts], segment: Segment, table: str, selection: Wanted, until: Extent
) -> None:
    series = segment.series()
    wanted = wanted_series(series, table, selection)
    chosen = set(series) if wanted is None else set(wanted)
    for number, attempt, first, last in spans_of_attempts(segment, table, until.last_seq):
        if number in chosen and series[number][0] in SHOWN_BY_STEP:
            known = found[series[number]].setdefault(attempt, _Attempt((first, last)))
            known.steps = _joined(known.steps, (first, last))
            if segment.level:
                known.compacted = _joined(known.compacted or (first, last), (first, last))


def _joined(one: Span, other: Span) -> Span:
    return min(one[0], other[0]), max(one[1], other[1])


def _may_overlap(attempts: _Attempts) -> bool:
    return any(attempt.steps[0] <= reached for attempt, reached in _with_reached(attempts))


def _with_reached(attempts: _Attempts) -> Iterator[tuple[_Attempt, int]]:
    """Yields each attempt with the last step that those before it reached."""
    reached = -1
    for _, attempt in sorted(attempts.items()):
        yield attempt, reached
        reached = max(reached, attempt.steps[1])


def _add_again(of_series: Mapping[_Series, _Attempts], segment: Segment, table: str, until: Extent) -> None:
    series = segment.series()
    reached = {
        key: {id(attempt): step for attempt, step in _with_reached(attempts)} for key, attempts in of_series.items()
    }
    highest = max(step for steps in reached.values() for step in steps.values())
    for number, attempt, steps in steps_of_attempts(segment, table, until.last_seq, highest):
        key = series.get(number, ("", ""))
        known = of_series.get(key, {}).get(attempt)
        if known is not None:
            steps = steps[steps <= reached[key][id(known)]]
            known.again = np.unique(np.concatenate([known.again, steps]))


def _replacements(attempts: _Attempts) -> Replacements:
    return Replacements(
        attempts=np.repeat([*attempts], [len(attempt.again) for attempt in attempts.values()]),
        steps=np.concatenate([attempt.again for attempt in attempts.values()]),
        compacted={number: attempt.compacted for number, attempt in attempts.items() if attempt.compacted is not None},
    )
