"""Statistics of all ranks together, exact and without communication in the training: each store is read once, in turn.

A norm is the root of the sum of squares over all shards, in float64; of copies, as under DistributedDataParallel, the
first rank's counts, once. Histograms of shards merge by their bins, counts, extremes, and Chan's formula for mean and
variance. What is a rank's own, such as its loss, is not averaged away: minimum, maximum and mean over ranks are given,
with the ranks where the extremes are.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from tracker_adapters.artifacts import Histogram
from tracker_adapters.errors import ArtifactError
from tracker_adapters.histograms.columns import HistogramColumns
from tracker_adapters.store.reading.rank_values import read_histogram
from tracker_adapters.store.reading.record import RunRecord
from tracker_adapters.store.segments.histogram_codec import decode

from stepscope.ranks.placements import Counted
from stepscope.ranks.starts import Start, Starts
from stepscope.ranks.sums import StepColumns, Steps, Values

_TOTAL = "total_norm/"
_NORM = "_norm/"
_TOGETHER = 256
"""How many histograms are merged at once."""
_COLUMNS = ("steps", "values", "ranks", "lowest", "highest", "lowest_rank", "highest_rank", "non_finite")


@dataclass(frozen=True, slots=True, eq=False)
class MergedSeries:
    """One scalar of all ranks, arrays of one length by step.

    Attributes:
        rule: ``norm`` for the norm of a whole tensor or of all together, else ``spread``.
        steps: int64 (n,); of a norm those at which every part was measured.
        values: float64 (n,): the norm, NaN where a part's is; else the mean over the ranks that are finite there, NaN
            where none is.
        ranks: How many ranks contribute to each.
        lowest, highest: float64 (n,): the finite extremes over ranks; of a norm equal to ``values``.
        lowest_rank, highest_rank: int64 (n,): where they are; -1 for a norm, and where no rank is finite.
        non_finite: int64 (n,): how many ranks are NaN or infinite there.
    """

    rule: str
    steps: Steps
    values: Values
    ranks: Steps
    lowest: Values
    highest: Values
    lowest_rank: Steps
    highest_rank: Steps
    non_finite: Steps

    def __len__(self) -> int:
        return len(self.steps)


class MergedRanks:
    """Reads a run's ranks as one; memory is bounded by a few series, however many ranks there are.

    Of a run that was resumed on another number of ranks, each step is merged over the ranks that took it.
    """

    def __init__(self, record: RunRecord, scope: str = "") -> None:
        """Takes the run, and the scope of the session whose tensors are meant."""
        self._record, self._prefix = record, f"{scope}/" if scope else ""
        self._starts = Starts(record, scope)

    def scalars(self, name: str) -> MergedSeries:
        """Returns a scalar of all ranks.

        ``gradient_norm/<tensor>`` and the other norms of parameters, and ``total_norm/<group>``, become norms of what
        all ranks hold; everything else is spread.

        Raises:
            ArtifactError: When no rank has it, or a total is of sharded and replicated tensors together and its tensors
                have no norms of their own.
        """
        if _TOTAL not in name and _NORM not in name and (only := self._starts.of_whole_run()) is not None:
            return self._spread(name, only)  # without a look at what each rank says of itself
        starts = self._starts.of_scalar(name)
        if len(starts) == 1:
            return self._scalars(name, starts[0])
        found: list[MergedSeries] = []
        errors: list[ArtifactError] = []
        for start in starts:
            try:
                found.append(self._scalars(name, start))
            except ArtifactError as error:
                errors.append(error)
        if not found:
            raise errors[0]
        return _joined(found)

    def histogram(self, name: str, step: int) -> Histogram:
        """Returns the histogram of a whole tensor, such as ``gradients/0.weight``, at a step that all its parts have.

        What is no parameter's, such as a layer's outputs, is of all ranks' batches together.

        Raises:
            ArtifactError: When no rank has it there, or not every part.
            DamagedError: When one is damaged.
        """
        start = self._starts.of_histogram(name, step)
        tensor = name.removeprefix(self._prefix).rpartition("/")[2]
        counted, has_placement = Counted(tensor), start.has_parameter(tensor)
        merged: list[HistogramColumns] = []
        blobs: list[bytes] = []
        last_ns = 0
        for rank, facts in start.ranks:
            if has_placement and not counted.takes(facts):
                continue
            found = read_histogram(self._record, rank, name, step, start.attempts_of(rank))
            if found is None and has_placement:
                raise ArtifactError(f"{self._record.path}: rank {rank} has no histogram {name!r} at step {step}")
            if found is not None:
                last_ns = max(last_ns, found[0])
                blobs.append(found[1])
            if len(blobs) == _TOGETHER:
                merged, blobs = [_as_one(merged, blobs)], []
        if not merged and not blobs:
            raise ArtifactError(f"{self._record.path}: no rank has a histogram {name!r} at step {step}")
        if has_placement and not counted.is_complete:
            raise ArtifactError(f"{self._record.path}: not every part of {name!r} has a store")
        return _as_one(merged, blobs).histogram(0, name, step=step, time_ns=last_ns)

    def _scalars(self, name: str, start: Start) -> MergedSeries:
        if name.startswith(self._prefix + _TOTAL):
            return self._total(name, start)
        bare = name.removeprefix(self._prefix)
        kind, found, tensor = bare.partition(_NORM)
        is_norm = bool(found) and "/" not in kind and name.startswith(self._prefix)
        if is_norm and start.has_parameter(tensor):
            return _as_norm(self._squares(name, tensor, start), name, self._record)
        return self._spread(name, start)

    def _squares(self, name: str, tensor: str, start: Start) -> tuple[StepColumns, int]:
        """Sums of squares and numbers of parts by step, and how many parts that hold something there are."""
        sums, counted, parts = StepColumns(0.0, 0.0), Counted(tensor), 0
        for rank, facts in start.ranks:
            if counted.takes(facts):
                parts += 1
                _add_squares(sums, *start.read(rank, name))
        if not counted.is_complete:
            raise ArtifactError(
                f"{self._record.path}: {tensor!r} lies in {counted.parts} parts, and not all of them have a store"
            )
        return sums, parts

    def _total(self, name: str, start: Start) -> MergedSeries:
        """The norm of a group: from the ranks' totals where each counts as a whole, else from its tensors' norms."""
        group = name.removeprefix(self._prefix + _TOTAL)
        sums, parts, mixed = StepColumns(0.0, 0.0), 0, False
        seen: set[str] = set()
        for rank, facts in start.ranks:
            if facts is None:
                continue
            new = [f"{one.part} {next(iter(one.elements), '')}" not in seen for one in facts.placed]
            mixed |= any(new) and not all(new)
            if new and all(new):
                parts += 1
                _add_squares(sums, *start.read(rank, name))
            seen.update(f"{one.part} {next(iter(one.elements), '')}" for one in facts.placed)
        if group.startswith(("activations", "activation_gradients")) or not parts:
            return self._spread(name, start)
        if not mixed:
            return _as_norm((sums, parts), name, self._record)
        return self._from_tensors(name, group, start)

    def _from_tensors(self, name: str, group: str, start: Start) -> MergedSeries:
        kind = group.replace("/", "_") if "/" in group else group.removesuffix("s")
        tensors = dict.fromkeys(
            tensor for _, facts in start.ranks for tensor in ({} if facts is None else facts.parameters)
        )
        sums, parts = StepColumns(0.0, 0.0), 0
        for tensor in tensors:
            squares, of_tensor = self._squares(f"{self._prefix}{kind}{_NORM}{tensor}", tensor, start)
            if len(squares.steps):
                parts += of_tensor
                rows = sums.rows(squares.steps)
                for column, more in zip(sums.columns, squares.columns, strict=True):
                    column[rows] += more
        return _as_norm((sums, parts), name, self._record)

    def _spread(self, name: str, start: Start) -> MergedSeries:
        found = StepColumns(0.0, 0.0, np.inf, -np.inf, -1.0, -1.0, 0.0)
        for rank, _ in start.ranks:
            steps, column = start.read(rank, name)
            if not len(steps):
                continue
            rows = found.rows(steps)
            count, total, low, high, low_rank, high_rank, broken = found.columns
            finite = np.isfinite(column)
            count[rows] += finite
            if finite.all():
                total[rows] += column
            else:
                total[rows] += np.where(finite, column, 0.0)
                broken[rows] += ~finite
                column = np.where(finite, column, np.nan)  # neither below nor above anything
            for best, holder, is_better in ((low, low_rank, np.less), (high, high_rank, np.greater)):
                better = np.flatnonzero(is_better(column, best[rows]))
                places = better if isinstance(rows, slice) else rows[better]
                best[places], holder[places] = column[better], rank
        if not len(found.steps):
            raise ArtifactError(f"{self._record.path}: no rank has a scalar {name!r}")
        count, total, low, high, low_rank, high_rank, broken = found.columns
        with np.errstate(invalid="ignore"):
            means = np.where(count > 0, total / count, np.nan)
        return MergedSeries(
            rule="spread",
            steps=found.steps,
            values=means,
            ranks=(count + broken).astype(np.int64),
            lowest=np.where(count > 0, low, np.nan),
            highest=np.where(count > 0, high, np.nan),
            lowest_rank=low_rank.astype(np.int64),
            highest_rank=high_rank.astype(np.int64),
            non_finite=broken.astype(np.int64),
        )


def _joined(parts: list[MergedSeries]) -> MergedSeries:
    """One series of those of several starts, which have no step in common."""
    columns = [np.concatenate([getattr(part, name) for part in parts]) for name in _COLUMNS]
    order = np.argsort(columns[0], kind="stable")
    return MergedSeries(parts[0].rule, *(column[order] for column in columns))


def _as_one(merged: list[HistogramColumns], blobs: list[bytes]) -> HistogramColumns:
    """Merges histograms that are decoded and others that are not; the result has one row."""
    columns = HistogramColumns.joined([*merged, decode(blobs)])
    return columns.merged(np.zeros(len(columns), np.int64))


def _add_squares(sums: StepColumns, steps: Steps, values: Values) -> None:
    if len(steps):
        rows = sums.rows(steps)
        sums.columns[0][rows] += np.square(values)
        sums.columns[1][rows] += 1


def _as_norm(found: tuple[StepColumns, int], name: str, record: RunRecord) -> MergedSeries:
    sums, parts = found
    squares, counts = sums.columns
    whole = counts == parts
    if not whole.any():
        raise ArtifactError(f"{record.path}: no step has {name!r} of every part, of which there are {parts}")
    values = np.sqrt(squares[whole])
    nowhere: npt.NDArray[np.int64] = np.full(len(values), -1, np.int64)
    return MergedSeries(
        rule="norm",
        steps=sums.steps[whole],
        values=values,
        ranks=counts[whole].astype(np.int64),
        lowest=values,
        highest=values,
        lowest_rank=nowhere,
        highest_rank=nowhere,
        non_finite=(~np.isfinite(values)).astype(np.int64),
    )
