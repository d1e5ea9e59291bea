"""The bounded history of gradients and updates: per tensor the statistics of the last steps."""

from collections.abc import Iterable, Iterator, Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.detectors.observation import Bools, Floats, Observation
from debuggers.errors import HistoryError
from debuggers.gradients.series_ring import SeriesRing
from debuggers.measurement.name_index import NameIndex, Rows
from debuggers.measurement.summary_table import SummaryTable

GRADIENT_STATISTICS = ("norm", "mean_magnitude", "largest_magnitude", "zero_fraction", "non_finite", "std", "mean")
UPDATE_STATISTICS = ("update_ratio",)


class GradientHistory:
    """Statistics of the last ``max_gradient_history`` steps at which something was recorded.

    Gradients have ``norm`` (Euclidean), ``mean_magnitude``, ``largest_magnitude``, ``std`` and ``mean`` over finite
    elements, ``zero_fraction`` and ``non_finite`` (a count); updates have ``update_ratio``, ``|Δw| / |w|``. Tensors may
    come and go: a step at which one was not measured is missing from its series, while a measured NaN is in it.

    A step that is still held is filled in, so that layers may be recorded one after the other, each with its own
    count of steps. Memory is 64 bytes a tensor a step; names may at most double it.
    """

    def __init__(self, max_gradient_history: int = 200) -> None:
        """Holds nothing yet.

        Raises:
            HistoryError: Unless ``max_gradient_history`` is at least 1.
        """
        check_value("max_gradient_history", max_gradient_history, at_least(1), HistoryError)
        self._index = NameIndex()
        self._gradients = SeriesRing(len(GRADIENT_STATISTICS), max_gradient_history)
        self._updates = SeriesRing(len(UPDATE_STATISTICS), max_gradient_history)
        self._overflow_expected = np.zeros(max_gradient_history, np.bool_)

    @property
    def names(self) -> tuple[str, ...]:
        """All names recorded so far, in order of appearance."""
        return tuple(self._index.names)

    @property
    def steps(self) -> npt.NDArray[np.int64]:
        """The held steps with gradients, in order of arrival."""
        return self._gradients.steps

    @property
    def update_steps(self) -> npt.NDArray[np.int64]:
        """The held steps with updates, in order of arrival."""
        return self._updates.steps

    @property
    def overflow_expected(self) -> Bools:
        """For each of ``steps``, whether infinities were normal there."""
        return self._overflow_expected[self._gradients.order]

    def record(
        self, step: int, names: Sequence[str], table: SummaryTable, *, expected_overflow: bool = False
    ) -> Observation:
        """Records the gradients of one step, and returns them for the detectors.

        Args:
            step: The training step.
            names: One for each row of the table, without repetition; pass the same tuple each step.
            table: What ``measure`` gave.
            expected_overflow: Whether infinities are normal here, as those that make a ``GradScaler`` skip the step.

        Raises:
            HistoryError: When names and rows differ in number, or a name appears twice.
        """
        _check_lengths("rows", names, len(table))
        rows = self._index.rows(names)
        values = _gradient_statistics(table)
        slot = self._gradients.write(step, rows, values, len(self._index))
        self._overflow_expected[slot] = expected_overflow
        return self._observation(step, rows, values, GRADIENT_STATISTICS, expected_overflow)

    def record_updates(self, step: int, names: Sequence[str], ratios: Floats) -> Observation:
        """Records ``|Δw| / |w|`` of one step, float64 (names,), and returns them for the detectors.

        Raises:
            HistoryError: When names and ratios differ in number, or a name appears twice.
        """
        _check_lengths("ratios", names, len(ratios))
        rows = self._index.rows(names)
        values = np.asarray(ratios, np.float64)[np.newaxis]
        self._updates.write(step, rows, values, len(self._index))
        return self._observation(step, rows, values, UPDATE_STATISTICS, False)

    def forget(self, names: Iterable[str]) -> None:
        """Begins anew with these names, as where parameters of other shapes go by them now."""
        self._index.forget(names)

    def series(self, name: str, statistic: str = "norm") -> tuple[npt.NDArray[np.int64], Floats]:
        """Returns the held steps at which a tensor was measured, and its values there.

        Raises:
            HistoryError: For an unknown name or statistic.
        """
        row, names = self._index.row(name), len(self._index)
        ring, _ = self._home(statistic)
        present = ring.present(names)[:, row]
        return ring.steps[present], self.window(statistic)[present, row]

    def window(self, statistic: str) -> Floats:
        """Returns one statistic of all tensors, float64 (steps, names); NaN where nothing was measured.

        Raises:
            HistoryError: For an unknown statistic.
        """
        ring, place = self._home(statistic)
        return ring.window(place, len(self._index))

    def present(self, statistic: str = "norm") -> Bools:
        """Returns where a statistic was measured, bool (steps, names)."""
        ring, _ = self._home(statistic)
        return ring.present(len(self._index))

    def observations(self) -> Iterator[Observation]:
        """Yields what is held, step by step, as the detectors saw it: gradients first, then updates."""
        expected = self.overflow_expected
        for statistics, steps in ((GRADIENT_STATISTICS, self.steps), (UPDATE_STATISTICS, self.update_steps)):
            windows = {statistic: self.window(statistic) for statistic in statistics}
            present = self.present(statistics[0])
            for place, step in enumerate(steps.tolist()):
                values = {statistic: window[place] for statistic, window in windows.items()}
                overflow = statistics is GRADIENT_STATISTICS and bool(expected[place])
                yield Observation(step, self._index.names, present[place], values, overflow)

    def _home(self, statistic: str) -> tuple[SeriesRing, int]:
        if statistic in GRADIENT_STATISTICS:
            return self._gradients, GRADIENT_STATISTICS.index(statistic)
        if statistic in UPDATE_STATISTICS:
            return self._updates, UPDATE_STATISTICS.index(statistic)
        known = ", ".join((*GRADIENT_STATISTICS, *UPDATE_STATISTICS))
        raise HistoryError(f"statistic {statistic!r} is unknown; expected one of {known}")

    def _observation(
        self, step: int, rows: Rows, values: Floats, statistics: Sequence[str], expected_overflow: bool
    ) -> Observation:
        n = len(self._index)
        if values.shape[1] == n and isinstance(rows, slice):
            by_name: Mapping[str, Floats] = dict(zip(statistics, values, strict=True))
            return Observation(step, self._index.names, np.ones(n, np.bool_), by_name, expected_overflow)
        spread = np.full((len(statistics), n), np.nan)
        spread[:, rows] = values
        present = np.zeros(n, np.bool_)
        present[rows] = True
        by_name = dict(zip(statistics, spread, strict=True))
        return Observation(step, self._index.names, present, by_name, expected_overflow)


def _gradient_statistics(table: SummaryTable) -> Floats:
    return np.array(
        [
            table.l2,
            table.mean_magnitude,
            table.largest_magnitude,
            table.zero_fraction,
            table.non_finite,
            table.std,
            table.moment("mean"),
        ]
    )


def _check_lengths(what: str, names: Sequence[str], length: int) -> None:
    if len(names) != length:
        raise HistoryError(f"{len(names)} names for {length} {what}; expected one name for each")
