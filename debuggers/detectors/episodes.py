"""Turns "the rule is broken at this step" into findings that begin, last and end."""

from collections import deque
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from debuggers.detectors.observation import Bools, Floats, Observation

QUIET_STEPS = 10
_KEPT = 1000
_NEVER = -QUIET_STEPS - 1


@dataclass(frozen=True, slots=True)
class Episode:
    """A period in which a row broke a rule; the fields are those of ``Finding``."""

    row: int
    step: int
    last_step: int
    steps: int
    ongoing: bool
    value: float
    threshold: float


class Episodes:
    """The episodes of one rule over all rows.

    An episode begins when the rule is broken at ``consecutive_steps`` observed steps in a row. It ends after 10
    observed steps without it, so that an intermittent problem is reported once. The last 1,000 ended ones are kept.
    """

    def __init__(self, consecutive_steps: int, worst: np.ufunc) -> None:
        self._consecutive_steps = consecutive_steps
        self._worst = worst
        self._over: deque[Episode] = deque(maxlen=_KEPT)
        self._streaks = False
        self._observed, self._streak, self._streak_step, self._steps, self._step, self._last_step, self._last_seen = (
            np.empty(0, np.int64) for _ in range(7)
        )
        self._value, self._threshold = np.empty(0), np.empty(0)

    def update(
        self, observation: Observation, broken: Bools, values: Floats, thresholds: Floats | float
    ) -> list[Episode]:
        """Adds a step, with ``broken`` for each row; returns the episodes that begin."""
        if len(broken) != len(self._observed):
            self._grow(len(broken))
        self._observed += observation.present
        if not broken.any():
            if self._streaks:
                self._streak[observation.present] = 0
                self._streaks = bool(self._streak.any())
            return []
        rows = self._lasting_rows(observation, broken)
        if not len(rows):
            return []
        begins = rows[self._observed[rows] - self._last_seen[rows] > QUIET_STEPS]
        self._begin(begins)
        limits = np.broadcast_to(thresholds, values.shape)
        worse = rows[self._worst(values[rows], self._value[rows]) != self._value[rows]]
        self._value[worse], self._threshold[worse] = values[worse], limits[worse]
        self._steps[rows] += 1
        self._last_step[rows] = observation.step
        self._last_seen[rows] = self._observed[rows]
        return [self._episode(int(row)) for row in begins]

    def all(self) -> list[Episode]:
        """Returns the ended and the ongoing episodes, by their first step."""
        current = [self._episode(int(row)) for row in np.flatnonzero(self._steps)]
        return sorted([*self._over, *current], key=lambda episode: (episode.step, episode.row))

    def _lasting_rows(self, observation: Observation, broken: Bools) -> npt.NDArray[np.intp]:
        """The rows in which the rule has been broken for long enough."""
        self._streaks = True
        self._streak[observation.present & ~broken] = 0
        self._streak[broken] += 1
        self._streak_step[broken & (self._streak == 1)] = observation.step
        return np.flatnonzero(broken & (self._streak >= self._consecutive_steps))

    def _begin(self, rows: npt.NDArray[np.intp]) -> None:
        self._over.extend(self._episode(int(row)) for row in rows if self._steps[row])
        self._step[rows] = self._streak_step[rows]
        self._steps[rows] = self._consecutive_steps - 1
        self._value[rows] = -self._worst.reduce(np.array([-np.inf, np.inf]))

    def _episode(self, row: int) -> Episode:
        return Episode(
            row=row,
            step=int(self._step[row]),
            last_step=int(self._last_step[row]),
            steps=int(self._steps[row]),
            ongoing=bool(self._observed[row] - self._last_seen[row] < QUIET_STEPS),
            value=float(self._value[row]),
            threshold=float(self._threshold[row]),
        )

    def _grow(self, size: int) -> None:
        new = size - len(self._observed)
        for key in ("_observed", "_streak", "_streak_step", "_steps", "_step", "_last_step"):
            setattr(self, key, np.append(getattr(self, key), np.zeros(new, np.int64)))
        self._last_seen = np.append(self._last_seen, np.full(new, _NEVER, np.int64))
        self._value = np.append(self._value, np.full(new, np.nan))
        self._threshold = np.append(self._threshold, np.full(new, np.nan))
