"""Reads the roll-ups of a scalar: what lies in each range of steps, without reading its values."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tracker_adapters.store.segments.opened import Segment
from tracker_adapters.store.segments.schema import SUMMARY_SHIFT

_Part = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]
"""Of one series in one segment: buckets and last steps (n,); counts, non-finite ones, extremes, last values (n, 5)."""
_MOST_FINE = 200_000
"""Roll-ups beyond which their summaries are read, of many series at once."""


@dataclass(frozen=True, slots=True)
class ScalarRanges:
    """Roll-ups of one scalar, arrays of one length: each covers the ``span`` steps from ``first_steps``.

    ``counts`` are all values, ``non_finite`` those that are NaN or infinite; ``min`` and ``max`` are of the finite
    ones, NaN when there is none. ``last_steps`` are the highest steps with a value, and ``last`` the values there.
    Values of earlier attempts at the same steps are included, and so are those that compaction took out.
    """

    span: int
    first_steps: npt.NDArray[np.int64]
    counts: npt.NDArray[np.int64]
    non_finite: npt.NDArray[np.int64]
    min: npt.NDArray[np.float64]
    max: npt.NDArray[np.float64]
    last_steps: npt.NDArray[np.int64]
    last: npt.NDArray[np.float64]


def read_ranges(segments: Sequence[tuple[Segment, int]], max_ranges: int | None) -> ScalarRanges:
    """Returns the roll-ups of one series.

    Args:
        segments: At least one, each with the number that the series has in it.
        max_ranges: Join neighbours until at most this many are left; None for as fine as all segments have them.
    """
    shift = max(segment.ranges(fine=True, scalars=True)[1] for segment, _ in segments)
    if max_ranges is not None:
        shift = max(shift, _shift_for(segments, max_ranges))
    return _joined([_rows(segment, number, shift) for segment, number in segments], shift)


def _joined(parts: Sequence[_Part], shift: int) -> ScalarRanges:
    """Joins the roll-ups of one series in several segments."""
    buckets, last_steps, values = (np.concatenate([part[place] for part in parts]) for place in (0, 1, 2))
    order = np.lexsort((last_steps, buckets))
    buckets, last_steps, values = buckets[order], last_steps[order], values[order]
    starts = np.flatnonzero(np.concatenate([[True], buckets[1:] != buckets[:-1]]))
    ends = np.append(starts[1:], len(buckets))[: len(starts)] - 1
    return ScalarRanges(
        span=1 << shift,
        first_steps=buckets[starts] << shift,
        counts=np.add.reduceat(values[:, 0], starts).astype(np.int64),
        non_finite=np.add.reduceat(values[:, 1], starts).astype(np.int64),
        min=np.fmin.reduceat(values[:, 2], starts),
        max=np.fmax.reduceat(values[:, 3], starts),
        last_steps=last_steps[ends],
        last=values[ends, 4],
    )


def read_many_ranges(segments: Sequence[Segment], names: Iterable[str]) -> dict[str, ScalarRanges]:
    """Returns the roll-ups of many series, in one pass over each segment.

    All have the same span: 256 steps, or that of the summaries, 2**14 steps, where there would be very many.
    """
    wanted = frozenset(names)
    owners: list[dict[int, str]] = []
    for segment in segments:
        series = segment.series().items()
        owners.append({number: name for number, (kind, name) in series if kind == "scalar" and name in wanted})
    stored = sum(segment.connection.execute("SELECT count(*) FROM rollup").fetchone()[0] for segment in segments)
    fine = stored <= _MOST_FINE
    shift = max((segment.ranges(fine=fine, scalars=True)[1] for segment in segments), default=0)
    parts: dict[str, list[_Part]] = {}
    for segment, of in zip(segments, owners, strict=True):
        if not of:
            continue
        table, own_shift = segment.ranges(fine=fine, scalars=True)
        chosen = "" if len(of) == len(segment.series()) else f"WHERE series IN ({','.join(map(str, of))})"
        rows = segment.connection.execute(
            "SELECT series, bucket >> ?, last_step, count, non_finite, min, max, last_value "
            f"FROM {table} {chosen} ORDER BY series, is_late, bucket",
            (shift - own_shift,),
        ).fetchall()
        if not rows:
            continue
        integers = np.array([row[:3] for row in rows], np.int64)
        values = np.array([row[3:] for row in rows], np.float64)
        starts = np.flatnonzero(np.diff(integers[:, 0], prepend=integers[0, 0] - 1))
        for start, stop in zip(starts.tolist(), [*starts[1:].tolist(), len(rows)], strict=True):
            name = of.get(rows[start][0])
            if name is not None:
                part = integers[start:stop, 1], integers[start:stop, 2], values[start:stop]
                parts.setdefault(name, []).append(part)
    return {name: _joined(found, shift) for name, found in parts.items()}


def _shift_for(segments: Sequence[tuple[Segment, int]], max_ranges: int) -> int:
    """Binary logarithm of the span of at most ``max_ranges`` ranges."""
    first = last = None
    for segment, number in segments:
        table, _ = segment.ranges(fine=False, scalars=True)
        low, high = segment.connection.execute(
            f"SELECT min(first_step), max(last_step) FROM {table} WHERE series = ?", (number,)
        ).fetchone()
        if low is not None:
            first = low if first is None else min(first, low)
            last = high if last is None else max(last, high)
    shift = 0
    while first is not None and last is not None and (last >> shift) - (first >> shift) >= max(max_ranges, 1):
        shift += 1
    return shift


def _rows(segment: Segment, number: int, shift: int) -> _Part:
    table, own_shift = segment.ranges(fine=shift < SUMMARY_SHIFT, scalars=True)
    if own_shift > shift:
        table, own_shift = segment.ranges(fine=True, scalars=True)
    rows = segment.connection.execute(
        "SELECT bucket >> ?, last_step, count, non_finite, min, max, last_value "
        f"FROM {table} WHERE series = ? ORDER BY is_late",
        (shift - own_shift, number),
    ).fetchall()
    buckets, last_steps = (np.array([row[place] for row in rows], np.int64) for place in (0, 1))
    return buckets, last_steps, np.array([row[2:] for row in rows], np.float64).reshape(-1, 5)
