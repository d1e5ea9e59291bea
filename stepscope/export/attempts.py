"""Finds what a later attempt recorded again, so that it can be left out as the run's readers do."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
from tracker_adapters.store.tail import Segment

from stepscope.export.reading import ATTEMPT, STEP, SegmentRows, last_attempt, opened_segments, table_of, wanted_series
from stepscope.export.selection import Selection

SHOWN_BY_STEP = frozenset({"scalar", "histogram", "image", "text", "table"})
"""Kinds of which readers show the latest attempt at a step; of the others they show everything."""
_Series = tuple[str, str]
_Integers = npt.NDArray[np.int64]


class LatestAttempts:
    """Knows which rows of a rank were recorded again at the same step by a later attempt.

    Only the steps are kept that several attempts can have recorded: eight bytes for each of them and each series.
    """

    def __init__(self, run_folder: Path, rank: int, selection: Selection) -> None:
        self._again: dict[_Series, list[tuple[int, _Integers]]] = {}
        if selection.all_attempts:
            return
        ranges = _ranges_by_attempt(run_folder, rank, selection)
        overlapping = {key: by_attempt for key, by_attempt in ranges.items() if _may_overlap(by_attempt)}
        if overlapping:
            self._again = _steps_again(run_folder, rank, overlapping)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the series of which something was recorded again."""
        return tuple(sorted({name for _, name in self._again}))

    def keep(self, found: SegmentRows) -> list[Any]:
        """Returns the rows that no later attempt replaces, in their order."""
        places = self._replaced_places(found)
        return [row for place, row in enumerate(found.rows) if place not in places] if places else found.rows

    def replaced(self, found: SegmentRows) -> list[Any]:
        """Returns the other rows."""
        return [found.rows[place] for place in sorted(self._replaced_places(found))]

    def _replaced_places(self, found: SegmentRows) -> set[int]:
        places: set[int] = set()
        if not self._again:
            return places
        by_series: dict[int, list[int]] = defaultdict(list)
        for place, row in enumerate(found.rows):
            by_series[row[1]].append(place)
        for number, in_series in by_series.items():
            later = self._again.get(found.series[number])
            if later is not None:
                places.update(_replaced(found.rows, in_series, later))
        return places


def _replaced(rows: Sequence[Any], places: list[int], later: list[tuple[int, _Integers]]) -> Iterator[int]:
    steps = np.array([rows[place][STEP] for place in places], np.int64)
    attempts = np.array([rows[place][ATTEMPT] for place in places], np.int64)
    mask = np.zeros(len(places), np.bool_)
    for attempt, again in later:
        at = np.searchsorted(again, steps)
        known = at < again.size
        known[known] = again[at[known]] == steps[known]
        mask |= known & (attempts < attempt)
    yield from np.array(places)[mask].tolist()


def _ranges_by_attempt(run_folder: Path, rank: int, selection: Selection) -> dict[_Series, dict[int, tuple[int, int]]]:
    """The first and last step of each attempt at each series; nothing of a run with one attempt."""
    found: dict[_Series, dict[int, tuple[int, int]]] = defaultdict(dict)
    if last_attempt(run_folder, rank) < 2:
        return found
    for segment, _ in opened_segments(run_folder, rank):
        for key, attempt, first, last in _ranges(segment, selection):
            old = found[key].get(attempt, (first, last))
            found[key][attempt] = (min(old[0], first), max(old[1], last))
    return found


def _ranges(segment: Segment, selection: Selection) -> Iterator[tuple[_Series, int, int, int]]:
    series = segment.series()
    for table in sorted({table_of(kind) for kind in selection.kinds & SHOWN_BY_STEP}):
        wanted = wanted_series(series, table, selection)
        chosen = set(series) if wanted is None else set(wanted)
        statement = f"SELECT series, attempt, min(step), max(step) FROM {table} GROUP BY series, attempt"
        for number, attempt, first, last in segment.connection.execute(statement):
            if number in chosen and series[number][0] in SHOWN_BY_STEP:
                yield series[number], attempt, first, last


def _may_overlap(by_attempt: dict[int, tuple[int, int]]) -> bool:
    highest = -1
    for attempt in sorted(by_attempt):
        first, last = by_attempt[attempt]
        if first <= highest:
            return True
        highest = max(highest, last)
    return False


def _steps_again(
    run_folder: Path, rank: int, overlapping: dict[_Series, dict[int, tuple[int, int]]]
) -> dict[_Series, list[tuple[int, _Integers]]]:
    """The steps that each attempt recorded and an earlier one may have recorded too."""
    collected: dict[_Series, dict[int, list[_Integers]]] = defaultdict(lambda: defaultdict(list))
    for segment, _ in opened_segments(run_folder, rank):
        for number, key in segment.series().items():
            by_attempt = overlapping.get(key, {})
            for attempt in by_attempt:
                highest = max((last for one, (_, last) in by_attempt.items() if one < attempt), default=-1)
                steps = segment.connection.execute(
                    f"SELECT step FROM {table_of(key[0])} WHERE series = ? AND attempt = ? AND step <= ?",
                    (number, attempt, highest),
                ).fetchall()
                if steps:
                    collected[key][attempt].append(np.unique(np.array(steps, np.int64)))
    return {
        key: [(attempt, np.unique(np.concatenate(parts))) for attempt, parts in sorted(by_attempt.items())]
        for key, by_attempt in collected.items()
    }
