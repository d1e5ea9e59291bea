"""Reads chosen rows of a rank as columns, over all its segments."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from tracker_adapters.store.reading.segments import opened_segments
from tracker_adapters.store.segments.attempt_rows import last_attempt
from tracker_adapters.store.segments.many_rows import OnDamage, read_many
from tracker_adapters.store.segments.schema import table_of
from tracker_adapters.store.segments.soundness import floats, integers, sound_rows

Integers = npt.NDArray[np.int64]


class Wanted(Protocol):
    """What a reader wants of a rank."""

    @property
    def kinds(self) -> frozenset[str]:
        """Words such as ``scalar``."""
        ...

    @property
    def first_step(self) -> int:
        """The first step that is wanted."""
        ...

    @property
    def last_step(self) -> int:
        """The last step that is wanted."""
        ...

    @property
    def all_attempts(self) -> bool:
        """Whether what a later attempt recorded again is wanted too."""
        ...

    def has_name(self, name: str) -> bool:
        """Whether artifacts of this name are wanted."""
        ...


@dataclass(frozen=True, slots=True)
class SegmentRows:
    """Rows of one table of a segment, by column.

    Attributes:
        series: The (kind, name) of each number in ``numbers``.
        seqs: Sequence numbers, int64 (n,), as are ``numbers``, ``attempts``, ``steps`` and ``times_ns``.
        content: Of scalars the values, float64 (n,); of histograms their bytes; of others (meta, data, blob).
    """

    series: dict[int, tuple[str, str]]
    seqs: Integers
    numbers: Integers
    attempts: Integers
    steps: Integers
    times_ns: Integers
    content: Any

    def __len__(self) -> int:
        return len(self.seqs)

    def where(self, wanted: npt.NDArray[np.bool_]) -> SegmentRows:
        """Returns the rows for which ``wanted``, of shape (n,), is true."""
        content = self.content
        return SegmentRows(
            self.series,
            self.seqs[wanted],
            self.numbers[wanted],
            self.attempts[wanted],
            self.steps[wanted],
            self.times_ns[wanted],
            content[wanted] if isinstance(content, np.ndarray) else [content[i] for i in np.flatnonzero(wanted)],
        )


@dataclass(frozen=True, slots=True)
class Extent:
    """What a rank holds at one moment: the numbers of its last artifact and of its last attempt, 0 for none."""

    last_seq: int
    last_attempt: int


def extent(run_folder: Path, rank: int) -> Extent:
    """Returns what a rank holds now; what comes later is not read, so that attempts and rows fit each other."""
    last_seq = last_attempt_seen = 0
    for segment, _ in opened_segments(run_folder, rank):
        last_attempt_seen = max(last_attempt_seen, last_attempt(segment))
        last_seq = max(last_seq, segment.last_seq())
    return Extent(last_seq, last_attempt_seen)


def read_rows(
    run_folder: Path,
    rank: int,
    selection: Wanted,
    until: Extent,
    on_damage: OnDamage = lambda count: None,
    *,
    after_seq: int = 0,
) -> Iterator[tuple[str, SegmentRows]]:
    """Yields ``(table, rows)`` of what a rank held then and the selection wants, by segment, table and arrival.

    Several parts follow each other for each table; attempts are not looked at. What is damaged is left out, and
    ``on_damage`` is told how many rows that are, as far as they can be told. Only what came after the artifact
    ``after_seq`` is read.

    Raises:
        RunError: When the store cannot be read.
    """
    tables = list(dict.fromkeys(map(table_of, sorted(selection.kinds))))
    for segment, after in opened_segments(run_folder, rank):
        seqs = (max(after + 1, segment.first_seq, after_seq + 1), min(segment.last_seq(), until.last_seq))
        series = segment.series()
        for table in tables:
            wanted = wanted_series(series, table, selection)
            if wanted != []:
                steps = (selection.first_step, selection.last_step)
                parts = read_many(segment, table, seqs=seqs, steps=steps, series=wanted, on_damage=on_damage)
                for part in parts:
                    columns = part if isinstance(part, tuple) else _sound(part, table, series, on_damage)
                    if columns is not None:
                        rows = SegmentRows(series, *columns)
                        if not set(np.unique(rows.numbers).tolist()) <= series.keys():
                            rows = rows.where(np.isin(rows.numbers, list(series)))
                            on_damage(len(columns[0]) - len(rows))
                        if len(rows):
                            yield table, rows


def _sound(
    rows: list[Any], table: str, series: dict[int, tuple[str, str]], on_damage: OnDamage
) -> tuple[Any, ...] | None:
    """The columns of those rows that are as they were written."""
    sound = sound_rows(table, rows, series)
    on_damage(len(rows) - len(sound))
    if not sound:
        return None
    columns = list(zip(*sound, strict=True))
    content: Any = columns[5] if table != "artifact" else [*zip(*columns[5:], strict=True)]
    return (*map(integers, columns[:5]), floats(content) if table == "scalar" else content)


def wanted_series(series: dict[int, tuple[str, str]], table: str, selection: Wanted) -> list[int] | None:
    """Returns the numbers of the series that are wanted of a table; None stands for all."""
    here = [number for number, (kind, _) in series.items() if table_of(kind) == table]
    wanted = [
        number for number in here if series[number][0] in selection.kinds and selection.has_name(series[number][1])
    ]
    return None if wanted and len(wanted) == len(here) else wanted
