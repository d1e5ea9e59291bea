"""Reads one statistic of many tensors from a store: at first its roll-ups, then every value, then what is new."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.histograms.layout import MAX, MEAN, MIN, TALLIES
from tracker_adapters.store.reading.columns import Extent, SegmentRows, extent, read_rows
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.reading.replaced import LatestAttempts
from tracker_adapters.store.segments.histogram_codec import decode

from debuggers.detectors.narrow_range import shares_outside
from stepscope.viewer.answers.layer_statistics import Statistic
from stepscope.viewer.answers.layer_table import FINITE, NOT_FINITE, LayerTable


@dataclass(frozen=True, slots=True)
class _Wanted:
    """The series of a statistic."""

    names: frozenset[str]
    kinds: frozenset[str]
    first_step: int = 0
    last_step: int = 2**63 - 1
    all_attempts: bool = False

    def has_name(self, name: str) -> bool:
        return name in self.names


@dataclass(slots=True)
class ReadLayers:
    """A statistic as far as it was read.

    Attributes:
        tensors: The rows of the table.
        table: Their values.
        reached: How far the store was read.
        damaged: How many rows were left out because they are damaged.
    """

    tensors: tuple[str, ...]
    table: LayerTable
    reached: Extent = field(default_factory=lambda: Extent(0, 0))
    damaged: int = 0

    @property
    def nbytes(self) -> int:
        """What it takes in memory."""
        return self.table.nbytes


def read_layers(folder: Path, rank: int, statistic: Statistic, before: ReadLayers | None = None) -> ReadLayers:
    """Reads all values of a statistic, or adds those that are new since.

    Args:
        folder: The run's.
        rank: Whose values.
        statistic: Which.
        before: What was read earlier; it is added to where the tensors are the same and no attempt recorded a step
            again, else read anew.

    Raises:
        RunError: When the store cannot be read.
    """
    tensors = tuple(statistic.names)
    until = extent(folder, rank)
    read = before
    if read is None or read.tensors != tensors or until.last_attempt > 1 or until.last_seq < read.reached.last_seq:
        read = ReadLayers(tensors, LayerTable(len(tensors)))
    wanted = _Wanted(frozenset(statistic.names.values()), frozenset({"histogram" if statistic.measure else "scalar"}))
    places = {name: row for row, name in enumerate(statistic.names.values())}
    attempts = LatestAttempts(folder, rank, wanted, until)

    def note_damage(count: int) -> None:
        read.damaged += count

    for _, found in read_rows(folder, rank, wanted, until, note_damage, after_seq=read.reached.last_seq):
        part = attempts.kept(found)
        if len(part):
            rows, steps, values = _rows(part, places), part.steps, part.content
            if statistic.measure:
                values = measured(decode(values), statistic.measure)
                known = ~np.isnan(values)
                rows, steps, values = rows[known], steps[known], values[known]
            read.table.add(rows, steps, values)
    read.reached = until
    return read


def read_overview(record: RunRecord, rank: int, statistic: Statistic) -> ReadLayers:
    """Reads the roll-ups of a statistic's scalars, which takes a hundredth of the time that all values take."""
    names: Sequence[str] = tuple(statistic.names.values())
    found = record.many_scalar_ranges(names, rank)
    shift = max((one.span.bit_length() - 1 for one in found.values()), default=0)
    read = ReadLayers(tuple(statistic.names), LayerTable(len(names), shift=shift))
    for row, name in enumerate(names):
        if name in found:
            ranges = found[name]
            bits = np.where(np.isnan(ranges.min), 0, FINITE) | np.where(ranges.non_finite > 0, NOT_FINITE, 0)
            rows = np.full(len(bits), row)
            read.table.add_ranges(rows, ranges.first_steps, ranges.min, ranges.max, bits.astype(np.uint8))
    return read


def measured(columns: HistogramColumns, measure: str) -> npt.NDArray[np.float64]:
    """Returns a number of each histogram (n,), of those in ``histogram_measures``; NaN where it has no such value."""
    kind, _, dtype = measure.partition("_")
    if kind in ("flushed", "saturated"):
        return shares_outside(columns, dtype)[kind == "saturated"]
    tally = dict(zip(TALLIES, columns.tallies.T, strict=True))
    if measure == "mean":
        return columns.moments[:, MEAN]
    if measure == "std":
        return columns.stds
    if measure == "largest":
        return np.fmax(np.abs(columns.moments[:, MIN]), np.abs(columns.moments[:, MAX]))
    counted = tally["zero"] if measure == "zeros" else tally["nan"] + tally["pos_inf"] + tally["neg_inf"]
    with np.errstate(invalid="ignore", divide="ignore"):
        shares: npt.NDArray[np.float64] = counted / tally["count"]
    return shares


def _rows(part: SegmentRows, places: Mapping[str, int]) -> npt.NDArray[np.int64]:
    numbers, inverse = np.unique(part.numbers, return_inverse=True)
    return np.array([places[part.series[number][1]] for number in numbers.tolist()], np.int64)[inverse]
