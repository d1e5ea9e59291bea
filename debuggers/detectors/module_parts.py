"""Which parameters belong to one module: a bias may have no gradient by construction."""

import numpy as np
import numpy.typing as npt

from debuggers.detectors.observation import Bools, Observation


class ModuleParts:
    """Which rows are biases, and which rows share a module."""

    def __init__(self) -> None:
        self._number_of: dict[str, int] = {}
        self._module: npt.NDArray[np.intp] = np.empty(0, np.intp)
        self._bias: Bools = np.empty(0, np.bool_)
        self._lone: Bools = np.empty(0, np.bool_)

    def idle_biases(self, observation: Observation, alive: Bools) -> Bools:
        """The biases of modules in which another parameter has a gradient or update, and lone ones.

        Of a bias whose weight is frozen nothing tells whether its layer is out of reach, or before a normalisation.
        """
        self._learn(observation, len(alive))
        modules = np.zeros(len(self._number_of), np.bool_)
        modules[self._module[alive]] = True
        return self._bias & modules[self._module] | self._lone

    def lone_biases(self, observation: Observation, rows: int) -> Bools:
        """The biases of modules without another parameter that has had a gradient; none if there are only biases."""
        self._learn(observation, rows)
        return self._lone

    def _learn(self, observation: Observation, rows: int) -> None:
        if rows <= len(self._module):
            return
        new = [name.rpartition(".") for name in observation.names[len(self._module) : rows]]
        numbers = [self._number_of.setdefault(module, len(self._number_of)) for module, _, _ in new]
        self._module = np.append(self._module, np.array(numbers, np.intp))
        self._bias = np.append(self._bias, np.array([parameter.endswith("bias") for _, _, parameter in new], np.bool_))
        others = np.zeros(len(self._number_of), np.bool_)
        others[self._module[~self._bias]] = True
        self._lone = ~others[self._module] if others.any() else np.zeros(len(self._module), np.bool_)
