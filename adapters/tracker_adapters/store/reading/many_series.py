"""Reads many scalars in one pass over a rank, where reading one after the other would visit each page for each."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from tracker_adapters.store.reading.columns import SegmentRows, extent, read_rows
from tracker_adapters.store.reading.replaced import LatestAttempts
from tracker_adapters.store.segments.many_rows import OnDamage

_Columns = tuple[npt.NDArray[np.int64], npt.NDArray[np.int64], npt.NDArray[np.float64]]


@dataclass(frozen=True, slots=True)
class _Scalars:
    """What is wanted of a rank."""

    names: frozenset[str]
    kinds: frozenset[str] = frozenset({"scalar"})
    first_step: int = 0
    last_step: int = 2**63 - 1
    all_attempts: bool = False

    def has_name(self, name: str) -> bool:
        return name in self.names


def read_scalars(
    run_folder: Path, rank: int, names: Iterable[str], on_damage: OnDamage
) -> Iterator[tuple[str, _Columns]]:
    """Yields for each of the names that a rank has: steps, times_ns and values (n,), of the latest attempts, by step.

    Rows that are damaged are left out, and ``on_damage`` is told how many.
    """
    wanted = _Scalars(frozenset(names))
    until = extent(run_folder, rank)
    attempts = LatestAttempts(run_folder, rank, wanted, until)
    parts = [attempts.kept(rows) for _, rows in read_rows(run_folder, rank, wanted, until, on_damage)]
    if not parts:
        return
    places: dict[str, int] = {}
    owners = np.concatenate([_owners(rows, places) for rows in parts])
    seqs, steps, times = (np.concatenate([getattr(rows, of) for rows in parts]) for of in ("seqs", "steps", "times_ns"))
    values = np.concatenate([rows.content for rows in parts])
    order = np.lexsort((seqs, steps, owners))
    ends = np.cumsum(np.bincount(owners, minlength=len(places)))
    for name, some in zip(places, np.split(order, ends[:-1]), strict=True):
        if len(some):
            yield name, (steps[some], times[some], values[some])


def _owners(rows: SegmentRows, places: dict[str, int]) -> npt.NDArray[np.int64]:
    """The place of each row's name, int64 (n,); names that are new get the next ones."""
    numbers, inverse = np.unique(rows.numbers, return_inverse=True)
    known = [places.setdefault(rows.series[number][1], len(places)) for number in numbers.tolist()]
    return np.array(known, np.int64)[inverse]
