"""Which parameters belong to one of several parts of a kind, of which a row may choose some: experts of a mixture."""

import re

import numpy as np
import numpy.typing as npt

from debuggers.detectors.observation import Bools, Observation

_NUMBER = re.compile(r"(?<=\.)\d+(?=\.)")
"""The number of a part in a parameter's name, such as that in ``experts.2.fc.weight``."""


class AlikeParts:
    """Which rows belong to which parts, and which parts are of one kind: ``experts.0`` and ``experts.1`` are."""

    def __init__(self) -> None:
        self._known = 0
        self._part_of: dict[str, int] = {}
        self._kind_of: dict[str, int] = {}
        self._rows: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self._parts: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self._kinds: list[int] = []
        self._first_rows: list[int] = []
        self._side_by_side: Bools = np.empty(0, np.bool_)

    def unchosen(self, observation: Observation, alive: Bools) -> Bools:
        """The rows of parts without any gradient, while other parts of the kind have one, and so has what comes before.

        In a chain of layers a gradient that ends reaches nothing that comes before: where an earlier part had one while
        a later one had none, they stand side by side.
        """
        self._learn(observation, len(alive))
        found = np.zeros(len(alive), np.bool_)
        if not self._kinds or not alive.any():
            return found
        kinds, first_rows = np.array(self._kinds), np.array(self._first_rows)
        has_gradient = np.zeros(len(kinds), np.bool_)
        has_gradient[self._parts[alive[self._rows]]] = True
        others_have = np.zeros(len(first_rows), np.bool_)
        others_have[kinds[has_gradient]] = True
        self._see_order(has_gradient, kinds)
        others_have &= (int(alive.argmax()) < first_rows) | self._side_by_side
        found[self._rows[(~has_gradient & others_have[kinds])[self._parts]]] = True
        return found

    def _see_order(self, has_gradient: Bools, kinds: npt.NDArray[np.int_]) -> None:
        """Notes the kinds of which an earlier part has a gradient and a later one has none."""
        known, parts = len(self._side_by_side), np.arange(len(kinds))
        self._side_by_side = np.append(self._side_by_side, np.zeros(len(self._first_rows) - known, np.bool_))
        first = np.full(len(self._first_rows), len(kinds))
        np.minimum.at(first, kinds[has_gradient], parts[has_gradient])
        self._side_by_side[kinds[~has_gradient & (parts > first[kinds])]] = True

    def _learn(self, observation: Observation, rows: int) -> None:
        if rows <= self._known:
            return
        pairs = []
        for row in range(self._known, rows):
            name = observation.names[row]
            for number in _NUMBER.finditer(name):
                kind = self._kind_of.setdefault(name[: number.start()], len(self._kind_of))
                if kind == len(self._first_rows):
                    self._first_rows.append(row)
                part = self._part_of.setdefault(name[: number.end()], len(self._part_of))
                if part == len(self._kinds):
                    self._kinds.append(kind)
                pairs.append((row, part))
        new = np.array(pairs, np.intp).reshape(-1, 2)
        self._rows, self._parts = np.append(self._rows, new[:, 0]), np.append(self._parts, new[:, 1])
        self._known = rows
