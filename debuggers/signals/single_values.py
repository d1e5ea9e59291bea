"""Inputs that are one number throughout beside others that are not, as where a modality or a condition was lost.

Many inputs are such numbers in sound trainings: masks, kinds and places of tokens, states that a recurrence begins
with, queries of a decoder. They are as long as something else: as the tokens that they belong to, or as an output.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace

from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.signals.batch_statistics import WHOLE
from debuggers.signals.sampling import sampled_rows, usable, with_sign
from debuggers.torch_import import torch
from debuggers.utils import tensors_in

MOST_PASSES = 8
"""Passes of a step whose inputs are compared; of a step with more, nothing is said."""
_FEWEST_VALUES = 3
"""Values of a row from which it is no number, such as a temperature, nor the height and the width of a picture."""
_MOST_INPUTS = 16
_GLANCE = 1 << 10
"""Elements of a tensor on the host that are looked at first: those of most inputs differ."""


@dataclass(frozen=True, slots=True, eq=False)
class _SingleValue:
    """An input that may be one number.

    Attributes:
        position: Which of the inputs it is.
        shape: Its own.
        value: What all its values are, 0-d; NaN where they differ.
        is_apart: Whether none of its lengths but that of the batch is one of another input, nor of a graph's edges.
    """

    position: int
    shape: torch.Size
    value: torch.Tensor
    is_apart: bool


class SingleValues:
    """Those of a step's inputs that may be one number and mean something: none of a model of one input."""

    __slots__ = ("_found", "_is_asked", "_passes", "_shapes")

    def __init__(self, tensors: Sequence[torch.Tensor] = ()) -> None:
        """Takes what the first pass is given, all usable, and on one device."""
        candidates = _candidates(tensors) if 2 <= len(tensors) <= _MOST_INPUTS else []
        self._is_asked = bool(candidates)
        self._found = [
            _SingleValue(at, tensors[at].shape, value, is_apart)
            for at, is_apart in candidates
            if (value := _only_value(tensors[at])) is not None
        ]
        self._shapes = [tensor.shape for tensor in tensors] if self._found else []
        self._passes = 1

    def see_further(self, inputs: object) -> None:
        """Keeps those that are the same number in a further pass, as of a micro-batch."""
        if not self._found:
            return
        self._passes += 1
        device = self._found[0].value.device
        tensors = [value for tensor in tensors_in(inputs) if (value := usable(tensor)) is not None]
        tensors = [tensor for tensor in tensors if tensor.device == device]
        if self._passes > MOST_PASSES or len(tensors) != len(self._shapes):
            self._found = []
            return
        with quiet_computation(device.type):
            kept = []
            for one in self._found:
                later = tensors[one.position]
                if later.shape[1:] == one.shape[1:] and (value := _only_value(later)) is not None:
                    kept.append(replace(one, value=torch.where(one.value == value, value, torch.nan)))
        self._found = kept

    def see_outputs(self, outputs: object) -> None:
        """Keeps those that are as long as no output, and none of a model that makes more of what it is given.

        The first are states and queries, or say which outputs count. The second may be trained without its condition.
        """
        if not self._found:
            return
        shapes = [tensor.shape for tensor in tensors_in(outputs) if tensor.ndim]
        if any(shape in self._shapes and shape[1:].numel() > 1 for shape in shapes):
            self._found = []
        self._found = [one for one in self._found if not any(_share_a_length(one.shape, shape) for shape in shapes)]

    def statistics(self) -> dict[str, torch.Tensor | float]:
        """Returns ``inputs/one_value…`` of the first that is one number; NaN if none is."""
        if not self._found:
            return {"inputs/one_value": math.nan} if self._is_asked else {}
        nothing = torch.full_like(self._found[0].value, torch.nan)
        value, at, width, apart = nothing, nothing, nothing, nothing
        for one in reversed(self._found):
            is_other = torch.isnan(one.value)
            value = torch.where(is_other, value, one.value)
            at = torch.where(is_other, at, float(one.position))
            width = torch.where(is_other, width, float(one.shape[-1]))
            apart = torch.where(is_other, apart, float(one.is_apart))
        return {
            "inputs/one_value": value,
            "inputs/one_value_at": at,
            "inputs/one_value_width": width,
            "inputs/one_value_apart": apart,
        }


def _candidates(tensors: Sequence[torch.Tensor]) -> list[tuple[int, bool]]:
    """Which inputs to look at, and whether each is as long as no other one.

    Those that are as long are left out unless they may be a second measurement: rows of another one's very shape.
    """
    rows = next((tensor.shape[0] for tensor in tensors if tensor.ndim), 0)
    batch = [(at, one) for at, one in enumerate(tensors) if one.ndim and one.shape[0] == rows]
    found = []
    for at, one in batch if rows > 1 else ():
        others = [other.shape for place, other in batch if place != at]
        if not any(shape[1:].numel() > 1 for shape in others):  # nodes of graphs, and which graph each belongs to
            continue
        is_apart = not any(_share_a_length(one.shape, shape) for shape in others)
        is_second = one.ndim == 2 and one.is_floating_point() and one.shape in others
        if (is_apart or is_second) and _may_mean_something(one):
            found.append((at, is_apart and (rows, rows) not in others))  # nodes of a graph may have no features
    return found


def _may_mean_something(tensor: torch.Tensor) -> bool:
    """Whether a tensor is no mask of truth values, and no state of layers, which come before its batch."""
    shape = tensor.shape
    is_state = len(shape) > 2 and shape[1] == shape[0]
    return tensor.dtype != torch.bool and not is_state and shape[1:].numel() >= _FEWEST_VALUES


def _share_a_length(one: Sequence[int], other: Sequence[int]) -> bool:
    return not {length for length in one[1:] if length > 1}.isdisjoint(other[1:])


def _only_value(tensor: torch.Tensor) -> torch.Tensor | None:
    """What all values are, NaN where they differ; None where that is known at once."""
    if tensor.is_cpu:
        low, high = torch.aminmax(with_sign(sampled_rows(tensor, _GLANCE, 1)))
        if low != high:
            return None
    values = tensor if tensor.numel() <= WHOLE else sampled_rows(tensor, WHOLE)
    low, high = torch.aminmax(with_sign(values))
    return torch.where(low == high, low.double(), torch.nan)
