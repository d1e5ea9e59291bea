"""Notices from outside that gradients were filled, set to zero or changed, without reading a value."""

from collections.abc import Sequence

from debuggers.host_arrays.readable import is_freed
from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import version_of

MOST = 8
"""Parameters that are looked at."""
_SAMPLED = 64


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
        self._noted = self._now()

    @property
    def present(self) -> bool:
        """Whether one of the parameters has a gradient now."""
        return any(parameter.grad is not None for parameter in self._parameters)

    def note(self) -> int:
        """Remembers the gradients as they are now, and returns how often they were changed since it was called last.

        That is how often the one was changed that changed most; a new or removed one counts as 1.
        """
        before, self._noted = self._noted, self._now()
        if before == self._noted:
            return 0
        return max(
            (version - last if gradient == known else 1) if (gradient, version) != (known, last) else 0
            for (gradient, version), (known, last) in zip(self._noted, before, strict=True)
        )

    def are_zero(self) -> bool:
        """Whether there is no gradient, or as far as can be told only zeros: always so of what lies on a device."""
        for parameter in self._parameters:
            gradient = parameter.grad
            if gradient is None or not gradient.is_cpu or gradient.layout is not torch.strided or is_freed(gradient):
                continue
            values = gradient.detach().flatten()[:: max(1, gradient.numel() // _SAMPLED)]
            if bool(values.count_nonzero()):
                return False
        return True

    def _now(self) -> list[tuple[int, int]]:
        # An identity may come again after a gradient is gone; a look at every pass finds it gone before.
        gradients = [parameter.grad for parameter in self._parameters]
        try:
            return [(0, 0) if one is None else (id(one), version_of(one)) for one in gradients]
        except RuntimeError:  # one was made in inference mode, where nothing counts versions
            return [(0, 0) if one is None else (id(one), _version(one)) for one in gradients]


def _version(gradient: torch.Tensor) -> int:
    return 0 if gradient.is_inference() else version_of(gradient)
