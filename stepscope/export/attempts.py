"""Finds what a later attempt recorded again, so that it can be left out as the run's readers do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tracker_adapters.store.segments.opened import Segment

from stepscope.export.reading import (
    Extent,
    Integers,
    SegmentRows,
    integers_of,
    opened_segments,
    table_of,
    wanted_series,
)
from stepscope.export.selection import Selection

SHOWN_BY_STEP = frozenset({"scalar", "histogram", "image", "text", "table"})
"""Kinds of which readers show the latest attempt at a step; of the others they show everything."""
_Series = tuple[str, str]
_Span = tuple[int, int]


@dataclass(slots=True)
class _Attempt:
    """What one attempt recorded of a series: its first and last step, and those where it was compacted.

    ``again`` are the steps that an earlier attempt may have recorded too.
    """

    steps: _Span
    compacted: _Span | None = None
    again: Integers = field(default_factory=lambda: np.empty(0, np.int64))

    def replaces(self, steps: Integers) -> npt.NDArray[np.bool_]:
        """Whether it replaces what earlier attempts recorded at these steps."""
        at = np.searchsorted(self.again, steps)
        replaced: npt.NDArray[np.bool_] = at < self.again.size
        replaced[replaced] = self.again[at[replaced]] == steps[replaced]
        if self.compacted is not None:  # it may have lost the very steps
            replaced |= (steps >= self.compacted[0]) & (steps <= self.compacted[1])
        return replaced


_Attempts = dict[int, _Attempt]
_SOUND = "typeof(attempt) = 'integer' AND typeof(step) = 'integer'"
"""A damaged row, which readers leave out, replaces nothing."""


class LatestAttempts:
    """Knows which rows of a rank were replaced by a later attempt.

    The rule is that of ``tracker_adapters.store.reading.attempts``.
    Only the steps are kept that several attempts can have recorded: eight bytes for each of them and each series.
    """

    def __init__(self, run_folder: Path, rank: int, selection: Selection, until: Extent) -> None:
        self._of_series: dict[_Series, _Attempts] = {}
        tables = sorted({table_of(kind) for kind in selection.kinds & SHOWN_BY_STEP})
        if selection.all_attempts or until.last_attempt < 2 or not tables:
            return
        found: dict[_Series, _Attempts] = defaultdict(dict)
        for segment, _ in opened_segments(run_folder, rank):
            for table in tables:
                _add_spans(found, segment, table, selection, until)
        self._of_series = {key: attempts for key, attempts in found.items() if _may_overlap(attempts)}
        if self._of_series:
            for segment, _ in opened_segments(run_folder, rank):
                for table in tables:
                    _add_again(self._of_series, segment, table, until)

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
            attempts = self._of_series.get(rows.series[int(rows.numbers[places[0]])], {})
            for number, attempt in attempts.items():
                earlier = places[rows.attempts[places] < number]
                replaced[earlier] |= attempt.replaces(rows.steps[earlier])
        return replaced


def _add_spans(
    found: Mapping[_Series, _Attempts], segment: Segment, table: str, selection: Selection, until: Extent
) -> None:
    series = segment.series()
    wanted = wanted_series(series, table, selection)
    chosen = set(series) if wanted is None else set(wanted)
    statement = (
        f"SELECT series, attempt, min(step), max(step) FROM {table} WHERE seq <= ? AND {_SOUND} "
        "GROUP BY series, attempt"
    )
    for number, attempt, first, last in segment.connection.execute(statement, (until.last_seq,)):
        if number in chosen and series[number][0] in SHOWN_BY_STEP:
            known = found[series[number]].setdefault(attempt, _Attempt((first, last)))
            known.steps = _joined(known.steps, (first, last))
            if segment.level:
                known.compacted = _joined(known.compacted or (first, last), (first, last))


def _joined(one: _Span, other: _Span) -> _Span:
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
    statement = (
        f"SELECT series, attempt, group_concat(step) FROM {table} "
        f"WHERE seq <= ? AND step <= ? AND attempt > 1 AND {_SOUND} GROUP BY series, attempt"
    )
    for number, attempt, text in segment.connection.execute(statement, (until.last_seq, highest)):
        key = series.get(number, ("", ""))
        known = of_series.get(key, {}).get(attempt)
        if known is not None:
            steps = integers_of(text)
            steps = steps[steps <= reached[key][id(known)]]
            known.again = np.unique(np.concatenate([known.again, steps]))
