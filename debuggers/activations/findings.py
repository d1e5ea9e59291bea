"""Findings about activations: NaN and infinities (except masks), and dead units over a window of steps."""

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt
from tracker_adapters.emitter import Emitter

from debuggers.activations.unit_activity import Activity
from debuggers.detectors import Finding, Observation, activation_detectors, announce
from debuggers.measurement.name_index import NameIndex
from debuggers.measurement.summary_table import SummaryTable

MIN_INPUTS = 100
"""Inputs that a unit must have seen before it can be called dead: 1 % of them is at least one."""


class ActivationFindings:
    """Passes activations to the detectors, and emits an alert for each new finding."""

    def __init__(self, emitter: Emitter | None) -> None:
        self._emitter = emitter
        self._detectors = activation_detectors()
        self._outputs = NameIndex()
        self._masking: set[str] = set()
        self._layers = NameIndex()

    def see_outputs(self, step: int, names: Sequence[str], table: SummaryTable) -> None:
        """Takes the outputs of a step.

        Attention masks and masked logits consist of -inf, which softmax turns into zeros. A name whose outputs held
        -inf, but neither NaN nor +inf, in a step in which no output held those, may continue to hold it.
        """
        non_finite = table.non_finite.copy()
        negative = table.tally("neg_inf")
        lone = (negative > 0) & (negative == non_finite)
        if lone.any():
            if (lone | (non_finite == 0)).all():
                self._masking.update(names[row] for row in np.flatnonzero(lone).tolist())
            non_finite[[row for row in np.flatnonzero(lone).tolist() if names[row] in self._masking]] = 0
        self._see(step, self._outputs, names, "non_finite", non_finite)

    def see_units(self, step: int, activities: Mapping[str, Activity]) -> None:
        """Takes the activity of units up to a step; layers that saw fewer than 100 inputs are left out."""
        fractions = {
            name: activity.dead_fraction for name, activity in activities.items() if activity.inputs >= MIN_INPUTS
        }
        self._see(step, self._layers, tuple(fractions), "dead_fraction", np.array(list(fractions.values())))

    def findings(self) -> list[Finding]:
        """Returns all findings so far, by their first step."""
        return self._detectors.findings()

    def _see(self, step: int, index: NameIndex, names: Sequence[str], statistic: str, column: npt.ArrayLike) -> None:
        if not names:
            return
        rows = index.rows(names)
        present, values = np.zeros(len(index), np.bool_), np.full(len(index), np.nan)
        present[rows] = True
        values[rows] = column
        begun = self._detectors.see(Observation(step, index.names, present, {statistic: values}))
        if begun:
            announce(begun, self._emitter)
