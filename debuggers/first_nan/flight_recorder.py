"""A flight recorder: a few statistics of each leaf module's output in the last steps."""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Sequence
from typing import Any

from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.checked_values import at_least, check_value

from debuggers.errors import DebuggerConfigError
from debuggers.first_nan.forward_capture import outside_of_graphs
from debuggers.host_arrays.readable import readable_tensor
from debuggers.instrumentation.closing import Closing
from debuggers.instrumentation.hooks import HookFunction, Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.module_changes import ModuleMembers
from debuggers.instrumentation.module_selection import select_modules
from debuggers.instrumentation.training_pass import is_training_forward
from debuggers.layer_values.values import spread
from debuggers.measurement.kernels.availability import is_usable
from debuggers.measurement.kernels.spread import spread_of
from debuggers.torch_import import torch

STATISTICS = ("mean", "std", "minimum", "maximum")
MAX_CALLS = 4096
"""Calls of modules that are kept of a step."""

Row = tuple[Any, ...]
"""Mean, std (with Bessel's correction), minimum and maximum; on a device 0-d tensors."""


class NonFiniteWatch(Closing):
    """Keeps mean, std, minimum and maximum of every call of every leaf module in the last steps.

    All four are NaN or infinite if an output holds NaN or infinities. Only forward passes with gradients count;
    recomputation by activation checkpointing does not. On a device, the work is enqueued, and read only on request.
    Modules inside a compiled one are left out, because their hooks would break its graph. A module that is added or
    replaced is watched from the next pass on.

    Attributes:
        names: The modules that are watched.
        left_out: The modules that are not, because they are compiled.
    """

    def __init__(self, model: torch.nn.Module, *, history: int = 20) -> None:
        """Adds its hooks.

        Args:
            model: The model, wrapped or not.
            history: Number of steps that are kept.

        Raises:
            DebuggerConfigError: If ``history`` is no positive integer.
        """
        check_value("history", history, at_least(1), DebuggerConfigError)
        self._model = model
        self._isolation = Isolation("isolate", lambda message: None)
        self._current: list[tuple[str, Row]] = []
        self._steps: deque[tuple[int, list[tuple[str, Row]]]] = deque(maxlen=history)
        self._unfinished: int | None = None
        self._hooks, self._layer_hooks = Hooks(), Hooks()
        if (whole := outside_of_graphs(model)) is not None:
            self._hooks.add_before_forward(whole, self._begin_pass)
            self._hooks.add_forward([(whole, self._end_pass)])
        self._watch_layers()

    @property
    def failures(self) -> dict[tuple[str, str], int]:
        """Counts of failed measurements, by module and type of exception; the log has the first of each."""
        return dict(self._isolation.counts)

    def end_step(self, number: int) -> None:
        """Ends a step, which has all forward passes since the last call.

        A pass that raised is dropped when the next one begins.
        """
        self._drop_unfinished()
        self._steps.append((number, self._current))
        self._current = []
        self._follow()

    def first_non_finite(self) -> str | None:
        """Returns the module with the first non-finite output since the last step; reads devices.

        Ignores modules whose output held the same kind of value in an earlier step, such as those that mask with minus
        infinity, and, until a step has ended, all whose output is only minus infinity.
        """
        usual: set[tuple[str, str]] | None = None
        for name, row in self._current:
            if not (kind := _kind(row)):
                continue
            if usual is None:
                usual = {(other, _kind(past)) for _, calls in self._steps for other, past in calls}
            if (name, kind) not in usual and (self._steps or kind != "-inf"):
                return name
        return None

    def history(self, name: str) -> list[dict[str, float]]:
        """Returns the statistics of a module in the last steps and this one, oldest first; reads devices.

        Each entry has ``step``, ``call`` (from 1) and the four statistics; a step that has not ended has the next
        number.
        """
        ongoing = self._steps[-1][0] + 1 if self._steps else 0
        entries = []
        for number, calls in [*self._steps, *([(ongoing, self._current)] if self._current else [])]:
            rows = [row for module, row in calls if module == name or module.startswith(f"{name}.")]
            for call, row in enumerate(rows, 1):
                entries.append({"step": number, "call": call, **dict(zip(STATISTICS, _read(row), strict=True))})
        return entries

    def close(self) -> None:
        """Removes the hooks and keeps the statistics; calling it again does nothing."""
        self._hooks.remove()
        self._layer_hooks.remove()

    def _begin_pass(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if is_training_forward():
            self._follow()
            self._drop_unfinished()
            self._unfinished = len(self._current)

    def _end_pass(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if is_training_forward():
            self._unfinished = None

    def _follow(self) -> None:
        """Watches modules that were added or replaced, and drops those that were removed."""
        if len(self._layer_hooks) and self._members.have_changed():
            self._layer_hooks.remove()
            self._watch_layers()

    def _watch_layers(self) -> None:
        self._members = ModuleMembers(self._model)
        modules = select_modules(self._model)
        self.names = tuple(entry.name for entry in modules if not entry.opaque)
        self.left_out = tuple(entry.name for entry in modules if entry.opaque)
        self._layer_hooks.add_forward((entry.module, self._keeper(entry.name)) for entry in modules if not entry.opaque)

    def _drop_unfinished(self) -> None:
        if self._unfinished is not None:
            del self._current[self._unfinished :]
            self._unfinished = None

    def _keeper(self, name: str) -> HookFunction:
        place = f"measuring the output of {name}"

        def keep(module: torch.nn.Module, inputs: Any, output: Any) -> None:
            if not is_training_forward() or len(self._current) >= MAX_CALLS:
                return
            with self._isolation.guard(place):  # an output may be any object
                tensor = output if isinstance(output, torch.Tensor) else _first_tensor(output)
                if tensor is not None and (row := _measure(tensor.detach())) is not None:
                    self._current.append((name, row))

        return keep


def _measure(values: torch.Tensor) -> Row | None:
    """Returns the statistics of an output, or of its local shard; None without real values."""
    if type(values) is not torch.Tensor:
        try:
            values = readable_tensor(values)
        except ArtifactError:
            return None
    size = values.numel()
    if not size or not values.is_floating_point() or values.layout != torch.strided:
        return None
    if not values.is_cpu:
        low, high = torch.aminmax(values)
        variance, mean = torch.var_mean(values, correction=int(size > 1))
        return mean, variance.sqrt(), low, high
    if values.dtype not in (torch.float32, torch.float64):
        values = values.float()
    if size > 1 and is_usable() and values.is_contiguous() and (found := spread_of(values)) is not None:
        return found  # a few microseconds an output, a tenth of what torch takes on small ones
    return tuple(spread(values).values())


def _first_tensor(output: Any) -> torch.Tensor | None:
    if isinstance(output, dict):
        output = tuple(output.values())
    if isinstance(output, Sequence):
        return next((item for item in output if isinstance(item, torch.Tensor)), None)
    return None


def _kind(row: Row) -> str:
    """Returns the worst non-finite value of an output, ``nan``, ``inf`` or ``-inf``; empty if there is none."""
    _, _, low, high = _read(row)
    if math.isnan(high):
        return "nan"
    return "inf" if high == math.inf else "-inf" if low == -math.inf else ""


def _read(row: Row) -> list[float]:
    return [float(value) for value in row]
