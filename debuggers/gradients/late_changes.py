"""Whether weights keep changing after the last observed step, by torch's version counter."""

import weakref

from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import version_of

FEW = 10
"""So many changes may follow the last step: the step itself, a checkpoint that is loaded, averaged weights."""


class LateChanges:
    """Counts the changes in place of one parameter; reading the counter takes no time and waits for no device.

    An optimizer that was made anew in mid-training is not the one that is watched: its steps are seen only here.
    """

    def __init__(self) -> None:
        self._parameter: weakref.ref[torch.Tensor] | None = None
        self._count = self._most = self._intervals = 0

    def see(self, parameters: list[torch.Tensor]) -> None:
        """Takes the parameters of a step, before the optimizer's step."""
        parameter = None if self._parameter is None else self._parameter()
        if parameter is None:
            self._parameter, self._count = weakref.ref(parameters[0]), version_of(parameters[0])
            return
        self._most = max(self._most, version_of(parameter) - self._count)
        self._count = version_of(parameter)
        self._intervals += 1

    def are_there(self) -> bool:
        """Whether there were far more changes since the last step than between any two; False if there were no two."""
        parameter = None if self._parameter is None else self._parameter()
        if parameter is None or not self._intervals:
            return False
        return version_of(parameter) - self._count > FEW + 2 * self._most
