"""Takes out rows of a segment so that what is left still shows what mattered. Rows come in order of arrival.

Scalars: of a bucket of neighbouring points the first, the lowest, the highest and the last one stay (M4: Jugel, Jerzak,
Hackenbroich and Markl, "M4: A Visualization-Oriented Time Series Data Aggregation", VLDB 2014), and the first NaN, +inf
and -inf. Doing it again to what is left gives the lowest and highest point of the larger bucket, exactly. So does the
point whose step is divisible by the highest power of two: ranks whose buckets begin elsewhere keep steps in common.
Histograms: neighbours are merged, which loses nothing but when each one was.
"""

from collections.abc import Sequence
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from tracker_adapters.store.segments.histogram_codec import decode, encode

POINTS_LEFT = 4
_MOST_DIVISIBLE = 2**62
"""Of step 0."""
Rows: TypeAlias = Sequence[tuple[Any, ...]]
_INTEGERS = ("seq", "series", "attempt", "step", "time_ns")
_ROW = np.dtype([*((name, np.int64) for name in _INTEGERS), ("value", np.float64)])
_Points: TypeAlias = npt.NDArray[np.void]


class ScalarThinner:
    """Thins the scalars of many series; a bucket is ``4 * 2**halvings`` points of one series and attempt."""

    def __init__(self, halvings: int) -> None:
        self._bucket = POINTS_LEFT << halvings
        self._begun = np.empty(0, _ROW)

    def push(self, rows: Rows) -> list[tuple[Any, ...]]:
        """Takes rows of SCALAR_COLUMNS; returns those that stay of the buckets that are full now."""
        if self._bucket == POINTS_LEFT:
            return list(rows)
        points = np.concatenate([self._begun, _points(rows)])
        points = points[np.lexsort((points["attempt"], points["series"]))]
        places, counts = _places(points)
        full = places < counts // self._bucket * self._bucket
        self._begun = points[~full]
        return _kept(points[full], places[full] // self._bucket)

    def finish(self) -> list[tuple[Any, ...]]:
        """Returns what stays of the buckets that were not filled: all points when they are four or fewer."""
        points, self._begun = self._begun, self._begun[:0]
        if not points.size:
            return []
        few = _places(points)[1] <= POINTS_LEFT
        return sorted([*_as_rows(points[few]), *_kept(points[~few], np.zeros(np.count_nonzero(~few), np.int64))])


class HistogramThinner:
    """Merges each ``2**halvings`` neighbouring histograms of one series and attempt."""

    def __init__(self, halvings: int) -> None:
        self._size = 1 << halvings
        self._begun: dict[int, list[tuple[Any, ...]]] = {}

    def push(self, rows: Rows) -> list[tuple[Any, ...]]:
        """Takes rows of HISTOGRAM_COLUMNS; returns the groups that are full now, each as one row like its last one."""
        if self._size == 1:
            return list(rows)
        groups: list[list[tuple[Any, ...]]] = []
        for row in rows:
            begun = self._begun.setdefault(row[1], [])
            if begun and begun[0][2] != row[2]:  # another attempt
                groups.append(begun)
                begun = self._begun[row[1]] = []
            begun.append(row)
            if len(begun) == self._size:
                groups.append(self._begun.pop(row[1]))
        return _merged(groups)

    def finish(self) -> list[tuple[Any, ...]]:
        """Returns the groups that were not filled."""
        groups, self._begun = list(self._begun.values()), {}
        return _merged(groups)


class EveryNth:
    """Keeps the first of every ``2**halvings`` artifacts that have the same key."""

    def __init__(self, halvings: int) -> None:
        self._mask = (1 << halvings) - 1
        self._seen: dict[Any, int] = {}

    def keeps(self, key: Any) -> bool:
        """Whether the next artifact with this key stays."""
        place = self._seen.get(key, 0)
        self._seen[key] = place + 1
        return not place & self._mask


def _points(rows: Rows) -> _Points:
    points = np.empty(len(rows), _ROW)
    if rows:
        *integers, values = zip(*rows, strict=True)
        for name, column in zip(_INTEGERS, integers, strict=True):
            points[name] = column
        points["value"] = np.array(values, np.float64)  # NULL becomes NaN
    return points


def _places(points: _Points) -> tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]:
    """Each point's place among those of its series and attempt, and how many these are; points come sorted by both."""
    series, attempts = points["series"], points["attempt"]
    if not points.size:
        return np.empty(0, np.int64), np.empty(0, np.int64)
    starts = np.flatnonzero(
        np.concatenate([[True], (series[1:] != series[:-1]) | (attempts[1:] != attempts[:-1])])
    ).astype(np.int64)
    counts = np.diff(starts, append=len(points))
    return np.arange(len(points)) - np.repeat(starts, counts), np.repeat(counts, counts)


def _kept(points: _Points, buckets: npt.NDArray[np.int64]) -> list[tuple[Any, ...]]:
    """What stays of adjoining buckets: a bucket ends where its number, the series or the attempt changes."""
    if not points.size:
        return []
    changes = buckets[1:] != buckets[:-1]
    for name in ("series", "attempt"):
        changes |= points[name][1:] != points[name][:-1]
    starts = np.flatnonzero(np.concatenate([[True], changes]))
    sizes = np.diff(starts, append=len(points))
    values = points["value"]
    finite = np.isfinite(values)
    stays = np.zeros(len(points), np.bool_)
    stays[starts] = stays[starts + sizes - 1] = True
    wanted = [np.isnan(values), values == np.inf, values == -np.inf]
    for extreme, missing in ((np.minimum, np.inf), (np.maximum, -np.inf)):
        best = extreme.reduceat(np.where(finite, values, missing), starts)
        wanted.append(finite & (values == np.repeat(best, sizes)))
    powers = points["step"] & -points["step"]  # of two, by which a step is divisible
    powers[powers == 0] = _MOST_DIVISIBLE
    wanted.append(powers == np.repeat(np.maximum.reduceat(powers, starts), sizes))
    bucket_of = np.repeat(np.arange(len(starts)), sizes)
    for mask in wanted:
        places = np.flatnonzero(mask)
        if places.size:
            _, firsts = np.unique(bucket_of[places], return_index=True)
            stays[places[firsts]] = True
    return sorted(_as_rows(points[stays]))


def _as_rows(points: _Points) -> list[tuple[Any, ...]]:
    rows: list[tuple[Any, ...]] = points.tolist()
    return rows


def _merged(groups: list[list[tuple[Any, ...]]]) -> list[tuple[Any, ...]]:
    """One row for each group, by arrival of its last one."""
    if not groups:
        return []
    groups.sort(key=lambda group: int(group[-1][0]))
    blobs = [row[5] for group in groups for row in group]
    numbers = np.repeat(np.arange(len(groups)), [len(group) for group in groups])
    merged = encode(decode(blobs).merged(numbers))
    return [(*group[-1][:5], blob) for group, blob in zip(groups, merged, strict=True)]
