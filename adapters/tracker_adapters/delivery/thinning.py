"""Limits how many histograms of a name a sink shows, by merging neighbours as the run grows."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import groupby
from typing import Self

import msgspec
import numpy as np

from tracker_adapters.batch import Batch, Column, HistogramRows
from tracker_adapters.errors import RunError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.store.segments.histogram_codec import decode, encode

DEFAULT_LIMIT = 1000


@dataclass(slots=True)
class _Series:
    """One name: how many came, how many more belong to its open group, and what that group holds, if it is open."""

    seen: int = 0
    left: int = 0
    attempt: int = 0
    seq: int = 0
    step: int = 0
    time_ns: int = 0
    waiting: HistogramColumns | None = None


_StoredSeries = tuple[str, int, int, int, int, int, int, bytes | None]
_state_decoder = msgspec.msgpack.Decoder(list[_StoredSeries])


class Thinning:
    """Merges neighbouring histograms of a name: of n it lets about ``limit * (1 + log2(n / limit) / 2)`` through.

    The first ``limit`` of a name pass singly, the next ``limit`` are merged 2 by 2, the next ``2 * limit`` 4 by 4, and
    so on: whenever their number has doubled, so has the size of a group. Merging is exact, see ``Histogram.merge``; a
    merged histogram has sequence number, step and time of the last one in its group. The result depends on the order
    of the histograms alone, not on how they are cut into batches.

    When a later attempt goes back to an earlier step, what waits of the abandoned steps is dropped.
    """

    def __init__(self, limit: int | None = DEFAULT_LIMIT) -> None:
        """``limit`` is how many histograms of a name pass singly; None or 0 for all."""
        self._limit = limit or 0
        self._series: dict[str, _Series] = {}

    def apply(self, batch: Batch) -> Batch:
        """Returns the batch with the histograms that are due; the same object when all of them are, and singly.

        What is held back comes with a later batch, or with ``remaining``.
        """
        if not self._limit or not batch.histograms or self._all_single(batch):
            return batch
        rows = HistogramRows.of(batch.histograms.artifacts)
        held: list[HistogramColumns] = []
        groups_of_held: list[int] = []
        groups: list[int] = []
        last_rows: list[int] = []
        open_groups: dict[str, int] = {}
        for row, (name, step) in enumerate(zip(rows.names, rows.steps.tolist(), strict=True)):
            series = self._series.setdefault(name, _Series())
            if series.attempt != batch.attempt and step <= series.step:
                series.waiting = None
            group = open_groups.setdefault(name, len(last_rows))
            if group == len(last_rows):
                last_rows.append(row)
                if series.waiting is not None:
                    held.append(series.waiting)
                    groups_of_held.append(group)
                else:
                    series.left = self._group_size(series.seen)
            last_rows[group] = row
            groups.append(group)
            series.seen += 1
            series.left -= 1
            series.attempt, series.step = batch.attempt, step
            if not series.left:
                series.waiting = None
                del open_groups[name]
        merged = HistogramColumns.joined([*held, rows.columns]).merged(np.array([*groups_of_held, *groups], np.int64))
        for name, group in open_groups.items():
            series, row = self._series[name], last_rows[group]
            series.waiting = merged.take(np.array([group]))
            series.seq, series.time_ns = batch.histograms.seqs[row], int(rows.times_ns[row])
        still_open = set(open_groups.values())
        due = sorted((row, group) for group, row in enumerate(last_rows) if group not in still_open)
        due_rows = [row for row, _ in due]
        thinned = HistogramRows(
            [rows.names[row] for row in due_rows],
            rows.steps[due_rows],
            rows.times_ns[due_rows],
            merged.take(np.array([group for _, group in due], np.int64)),
        )
        return replace(batch, histograms=Column([batch.histograms.seqs[row] for row in due_rows], thinned))

    def remaining(self) -> list[Batch]:
        """Returns the groups that are still open as they are, and closes them: a batch for each attempt, in order.

        For the end of a run. The sequence numbers lie before those of batches that were let through already.
        """
        waiting = sorted(
            ((one.attempt, one.seq, name, one) for name, one in self._series.items() if one.waiting is not None),
            key=lambda row: row[:3],
        )
        found = [_closed(attempt, list(group)) for attempt, group in groupby(waiting, key=lambda row: row[0])]
        for *_, one in waiting:
            one.left, one.waiting = 0, None
        return found

    def state(self) -> bytes:
        """Returns what ``restore`` needs: about 30 bytes a name, and 600 more for one with an open group."""
        waiting = {name: one.waiting for name, one in self._series.items() if one.waiting is not None}
        blobs = encode(HistogramColumns.joined(list(waiting.values()))) if waiting else []
        blob_of = dict(zip(waiting, blobs, strict=True))
        return msgspec.msgpack.encode(
            [
                (name, one.seen, one.left, one.attempt, one.seq, one.step, one.time_ns, blob_of.get(name))
                for name, one in self._series.items()
            ]
        )

    @classmethod
    def restore(cls, limit: int | None, state: bytes) -> Self:
        """Returns a thinning that continues where another one was when it returned ``state``.

        Args:
            limit: As for a new one; a change holds from the next group on.
            state: What ``state`` returned; empty for a new one.

        Raises:
            RunError: When it is something else.
        """
        thinning = cls(limit)
        if not state:
            return thinning
        try:
            stored = _state_decoder.decode(state)
        except msgspec.MsgspecError as error:
            raise RunError(f"cannot continue thinning histograms: {error}; expected what state() returned") from error
        for name, seen, left, attempt, seq, step, time_ns, blob in stored:
            waiting = decode([blob]) if blob is not None else None
            thinning._series[name] = _Series(seen, left, attempt, seq, step, time_ns, waiting)
        return thinning

    def _all_single(self, batch: Batch) -> bool:
        """Whether every histogram of the batch passes as it is; they are counted then."""
        artifacts = batch.histograms.artifacts
        names = artifacts.names if isinstance(artifacts, HistogramRows) else [one.name for one in artifacts]
        counts = Counter(names)
        for name, count in counts.items():
            series = self._series.get(name)
            if count + (series.seen if series is not None else 0) > self._limit:
                return False
        for name, count in counts.items():
            self._series.setdefault(name, _Series()).seen += count
        return True

    def _group_size(self, seen: int) -> int:
        """How many belong to the group that begins after ``seen``: twice as many with each doubling."""
        return 1 << (seen // self._limit).bit_length()


def _closed(attempt: int, waiting: Sequence[tuple[int, int, str, _Series]]) -> Batch:
    """One batch of what waits for an attempt's names, as it is."""
    seqs = [seq for _, seq, _, _ in waiting]
    rows = HistogramRows(
        [name for _, _, name, _ in waiting],
        np.array([one.step for *_, one in waiting], np.int64),
        np.array([one.time_ns for *_, one in waiting], np.int64),
        HistogramColumns.joined([one.waiting for *_, one in waiting if one.waiting is not None]),
    )
    return Batch(first_seq=seqs[0], last_seq=seqs[-1], attempt=attempt, histograms=Column(seqs, rows))
