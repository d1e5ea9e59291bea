"""Counts how often each unit of a layer is active, to find dead ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt
from tracker_adapters.values.tensors import local_part

from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.instrumentation.module_selection import NamedModule, Selection, select_modules
from debuggers.torch_import import torch

RECTIFIERS: tuple[type[torch.nn.Module], ...] = (torch.nn.ReLU, torch.nn.ReLU6)
"""Activations whose units can die: where the output is zero, so is the gradient."""
DEAD_BELOW = 0.01
"""Share of the inputs in which a unit must be active to live (SageMaker Debugger, rule DeadRelu)."""
WINDOW = 100
"""Recorded steps after which counting starts anew: a unit that dies late would else hide behind its past."""

_CHANNELS_LAST = -1
_UNIT_DIMENSIONS: tuple[tuple[tuple[type[torch.nn.Module], ...], int], ...] = (
    ((torch.nn.Conv1d, torch.nn.ConvTranspose1d), -2),
    ((torch.nn.Conv2d, torch.nn.ConvTranspose2d), -3),
    ((torch.nn.Conv3d, torch.nn.ConvTranspose3d), -4),
    ((torch.nn.Linear, torch.nn.Bilinear, torch.nn.LayerNorm, torch.nn.Embedding, torch.nn.RNNBase), _CHANNELS_LAST),
)


_Counts: TypeAlias = dict[str, tuple[torch.Tensor, int]]


@dataclass(frozen=True, slots=True, eq=False)
class Activity:
    """How often the units of one layer were active.

    Attributes:
        fractions: float64 (units,): share of the inputs in which each unit's output was above zero.
        inputs: How many inputs each unit saw.
    """

    fractions: npt.NDArray[np.float64]
    inputs: int

    @property
    def dead(self) -> npt.NDArray[np.intp]:
        """Indices of the units that were active in less than 1 % of the inputs (``DEAD_BELOW``)."""
        return np.flatnonzero(self.fractions < DEAD_BELOW)

    @property
    def dead_fraction(self) -> float:
        """Share of the units that are dead."""
        return len(self.dead) / len(self.fractions)


def unit_dimension(module: torch.nn.Module) -> int | None:
    """Returns the dimension, from the end, in which a layer's output holds its units; None if it keeps its input's.

    The second from the end after a 1-d convolution, the third after a 2-d one, the fourth after a 3-d one; the last
    after linear, embedding and recurrent layers and layer normalisation.
    """
    for types, dimension in _UNIT_DIMENSIONS:
        if isinstance(module, types):
            return dimension
    return None


class UnitActivity:
    """Counts by layer, on the layer's device: ``add`` and ``end_step`` never wait for it."""

    def __init__(self) -> None:
        self._counts: _Counts = {}
        self._counts_before: _Counts = {}
        self._steps = 0
        self._window: dict[str, tuple[DeferredTensor, int]] = {}

    def add(self, name: str, output: torch.Tensor, dimension: int | None) -> None:
        """Counts the units of an output that are above zero; NaN is not.

        Each position counts as an input: a filter is applied to every patch, as a linear layer is to every token.
        When the number of units changes, counting starts anew.

        Args:
            name: The layer.
            output: Any shape with at least one dimension; else it is ignored.
            dimension: Where its units lie, from the end, as ``unit_dimension`` gives it for the layer before. Where
                that is unknown or the output has fewer dimensions: dimension 1 of four or more, else the last.
        """
        values = local_part(output.detach())
        if not values.ndim or not values.numel():
            return
        if dimension is None or values.ndim < -dimension:
            dimension = 1 - values.ndim if values.ndim >= 4 else _CHANNELS_LAST
        units = values.shape[dimension]
        others = [axis for axis in range(values.ndim) if axis != values.ndim + dimension]
        active = values > 0
        count = active.sum(others) if others else active.to(torch.int64)
        before, inputs = self._counts.get(name, (None, 0))
        if before is None or before.shape != count.shape or before.device != count.device:
            before, inputs = torch.zeros_like(count), 0
        # Not in place: a tensor made in inference mode could not be changed outside.
        self._counts[name] = before + count, inputs + values.numel() // units

    def forget(self, layers: Sequence[str]) -> None:
        """Counts layers anew, which are other modules from now on; so are their further calls and tensors."""
        begins = tuple(f"{layer}{mark}" for layer in layers for mark in ":.")
        for name in [name for name in self._counts_before | self._counts if name in layers or name.startswith(begins)]:
            for counts in (self._counts, self._counts_before, self._window):
                counts.pop(name, None)

    def end_step(self) -> None:
        """Closes the window after 100 steps."""
        self._steps += 1
        if self._steps % WINDOW == 0 and self._counts:
            self._counts_before, self._counts = self._counts, {}
            self._window = {
                name: (DeferredTensor(count), inputs) for name, (count, inputs) in self._counts_before.items()
            }

    def take_window(self) -> dict[str, Activity]:
        """Returns the activity in the last full window, once, as soon as it is on the host; else nothing."""
        if not all(count.ready() for count, _ in self._window.values()):
            return {}
        window, self._window = self._window, {}
        return {name: _activity(count.resolve(), inputs) for name, (count, inputs) in window.items()}

    def read(self) -> dict[str, Activity]:
        """Returns the activity in the last full window and since; waits for the devices."""
        activities = {}
        for name in self._counts_before | self._counts:
            parts = [counts[name] for counts in (self._counts_before, self._counts) if name in counts]
            # What no longer has the same units is left out.
            same = [part for part in parts if part[0].shape == parts[-1][0].shape]
            total = sum(count.cpu().numpy() for count, _ in same)
            activities[name] = _activity(np.asarray(total), sum(inputs for _, inputs in same))
        return activities


def _activity(count: npt.NDArray[np.int64], inputs: int) -> Activity:
    return Activity(count / inputs, inputs)


def choose_layers(
    model: torch.nn.Module, modules: Selection | None, unit_activity: bool | Selection
) -> tuple[list[NamedModule], set[int]]:
    """Returns the modules to measure, in the model's order, and the ids of those whose units are counted."""
    chosen = select_modules(model, modules)
    if isinstance(unit_activity, bool):
        return chosen, {id(entry.module) for entry in chosen if unit_activity and isinstance(entry.module, RECTIFIERS)}
    counted = {id(entry.module) for entry in select_modules(model, unit_activity)}
    wanted = counted | {id(entry.module) for entry in chosen}
    return [entry for entry in select_modules(model, "*") if id(entry.module) in wanted], counted
