"""Notices from outside that gradients were filled, set to zero or changed, without reading a value."""

from collections.abc import Callable, Sequence
from operator import attrgetter, eq
from typing import Any

from debuggers.host_arrays.readable import is_freed
from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import version_of

MOST = 8
"""Parameters that are looked at."""
_SAMPLED = 64
_gradient_of: Callable[[Any], Any] = attrgetter("grad")
_NOTHING = id(None)


class GradientMarks:
    """Remembers the gradients of a few parameters, evenly spread, by identity and version.

    A version counts the changes in place, so that nothing waits for a device. Of one parameter it takes half a
    microsecond.
    """

    def __init__(self, parameters: Sequence[torch.Tensor]) -> None:
        """Takes parameters that require a gradient, in the model's order."""
        stride = max(1, (len(parameters) - 1) // (MOST - 1)) if len(parameters) > 1 else 1
        self._parameters = list(parameters[::stride][: MOST - 1])
        if parameters and parameters[-1] is not self._parameters[-1]:
            self._parameters.append(parameters[-1])
        self._none = ([_NOTHING] * len(self._parameters), [0] * len(self._parameters))
        self._noted = self._now()

    @property
    def parameters(self) -> Sequence[torch.Tensor]:
        """The parameters that are looked at."""
        return self._parameters

    @property
    def present(self) -> bool:
        """Whether one of the parameters had a gradient when ``note`` was called last."""
        return self._noted is not self._none

    def note(self) -> int:
        """Remembers the gradients as they are now, and returns how often they were changed since it was called last.

        That is how often the one was changed that changed most; a new or removed one counts as 1.
        """
        before, self._noted = self._noted, self._now()
        if before == self._noted:
            return 0
        (before_ids, before_versions), (ids, versions) = before, self._noted
        # All are new, or gone, between most looks.
        if not any(map(eq, before_ids, ids)):
            return 1
        pairs = zip(ids, before_ids, versions, before_versions, strict=True)
        return max(version - last if one == other else 1 for one, other, version, last in pairs)

    def are_zero(self, counts: Callable[[torch.Tensor], bool] = lambda parameter: True) -> bool:
        """Whether there is no gradient, or as far as can be told only zeros: always so of what lies on a device.

        Call it right after ``note``. A gradient that is not zero is left out if ``counts`` denies its parameter.
        """
        if self._noted is self._none:
            return True
        for parameter in self._parameters:
            gradient = parameter.grad
            if gradient is None or not gradient.is_cpu or gradient.layout is not torch.strided or is_freed(gradient):
                continue
            values = gradient.detach().flatten()[:: max(1, gradient.numel() // _SAMPLED)]
            if bool(values.count_nonzero()) and counts(parameter):
                return False
        return True

    def _now(self) -> tuple[list[int], list[int]]:
        """The gradients' identities and versions."""
        # An identity may come again after a gradient is gone; a look at every pass finds it gone before.
        gradients = list(map(_gradient_of, self._parameters))
        ids = list(map(id, gradients))
        if ids == self._none[0]:
            return self._none
        try:
            if _NOTHING not in ids:
                return ids, list(map(version_of, gradients))
            return ids, [0 if one is None else version_of(one) for one in gradients]
        except RuntimeError:  # one was made in inference mode, where nothing counts versions
            return ids, list(map(_version, gradients))


def _version(gradient: torch.Tensor | None) -> int:
    return 0 if gradient is None or gradient.is_inference() else version_of(gradient)
