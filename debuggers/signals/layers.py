"""Signals of layers at one step: outputs of leaf modules, sampled when they return."""

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np

from debuggers.host_arrays.graph_capture import is_capturing
from debuggers.instrumentation.call_observers import Observer
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.module_changes import ModuleMembers
from debuggers.instrumentation.module_selection import NamedModule, select_modules
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.signals.deferred_values import DeferredValues, Floats
from debuggers.signals.readers import makers_of, readers_of
from debuggers.signals.sampling import WHOLE_LAYER, sampled_rows, usable
from debuggers.signals.signal_log import SignalLog
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number
from debuggers.utils import tensors_in

MOST_LAYERS = 500
MOST_ELEMENTS = 1 << 14
RECTIFIERS = (torch.nn.ReLU, torch.nn.ReLU6)
NEAR = 0.01
_TANH, _SIGMOID = math.atanh(1 - NEAR), math.log(1 / NEAR - 1)


@dataclass(frozen=True, slots=True, eq=False)
class _Layer:
    name: str
    kind: str


class LayerSignals:
    """Takes the first output of at most 500 leaf modules in one forward pass, at most 16,384 elements of each.

    The share of zeros is left out for modules that are called again in the pass. Units are dimension 1 of outputs with
    four dimensions or more, else the last. Whose output is read by a functional relu, tanh or sigmoid is learned from
    the graph of the first pass.

    Attributes:
        takes: Whether outputs are taken now.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        log: SignalLog,
        arrivals: ArrivalQueue,
        isolation: Isolation,
        stopwatch: Stopwatch,
    ) -> None:
        self._model, self._log, self._arrivals = model, log, arrivals
        self._isolation, self._stopwatch = isolation, stopwatch
        self._hooks = Hooks()
        self._members: ModuleMembers | None = None
        self._layers: list[NamedModule] = []
        self._observers: list[Observer] = []
        self._readers: dict[str, str] | None = None
        self.forget()

    def forget(self) -> None:
        """Drops what was taken since the last step."""
        self.takes = False
        self._values: dict[str, torch.Tensor | float] = {}
        self._kinds: dict[str, str] = {}
        self._nodes: dict[int, str] = {}

    def attach(self) -> None:
        """Hooks the layers for the coming step."""
        self.detach()
        if self._members is None or self._members.have_changed():
            self._members = ModuleMembers(self._model)
            named = [entry for entry in select_modules(self._model, None) if not entry.opaque]
            self._layers = [entry for entry in named if entry.module is not self._model or len(named) == 1][
                :MOST_LAYERS
            ]
            self._readers, self._observers = None, []
        if self._observers:
            self._hooks.put_back(self._observers)
        else:
            hooks = [(entry.module, partial(self._see, entry.name)) for entry in self._layers]
            self._observers = self._hooks.add_forward(hooks)

    def begin_pass(self) -> None:
        """Says that the pass begins that is taken; layers exchanged since ``attach`` are followed."""
        self.forget()
        self.takes = True
        if self._members is not None and self._members.have_changed():
            self.attach()

    def detach(self) -> None:
        """Takes the hooks off."""
        self._hooks.remove()

    def end_pass(self, output: Any) -> None:
        """Says that the pass has returned: at the first one, learns from its graph what reads the layers' outputs."""
        self.takes = False
        if self._readers is None and self._nodes:
            self._readers = readers_of(tensors_in(output), self._nodes)
            self._log.note_outputs(makers_of(tensors_in(output), self._nodes))
        self._nodes = {}

    def end_step(self, step: int) -> None:
        """Ends a sampled step: keeps and emits what was taken, as soon as it is on the host."""
        values, kinds, readers = self._values, self._kinds, self._readers or {}
        self.forget()
        if values:
            deferred = DeferredValues(values)
            self._arrivals.push(deferred, partial(self._take, step, time.time_ns(), kinds, readers, deferred))

    def _see(self, name: str, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not self.takes or is_capturing():
            return
        if name in self._kinds:
            self._values[f"again/{name}"] = 1.0
            return
        with self._stopwatch, self._isolation.guard("looking at a layer"):
            found = _first_float(tensors_in(output))
            if found is None:
                return
            given, values = found
            kind = self._kinds[name] = _kind_of(module)
            if isinstance(module, torch.nn.Softmax):
                self._log.note_outputs([name])
            if self._readers is None and given.grad_fn is not None:
                self._nodes[node_number(given.grad_fn)] = name
            with quiet_computation(values.device.type):
                # A copy: what comes after may change it in place.
                sample = sampled_rows(values, MOST_ELEMENTS)
                self._values[f"sample/{name}"] = sample.to(torch.float64, copy=True)
                if kind == "relu" or (not kind and (self._readers is None or self._readers.get(name) == "relu")):
                    self._values[f"dead/{name}"] = _dead_units(values)

    def _take(
        self, step: int, time_ns: int, kinds: dict[str, str], readers: dict[str, str], deferred: DeferredValues
    ) -> None:
        arrays = deferred.resolve()
        signals: dict[str, dict[str, float]] = {}
        for name, kind in kinds.items():
            sample = arrays.get(f"sample/{name}")
            if sample is None:
                continue
            reader = kind or readers.get(name, "")
            for signal, value in _statistics(sample, kind, reader).items():
                if (
                    signal != "output_zeros" or f"again/{name}" not in arrays
                ):  # a recurrence begins with a state of zeros
                    signals.setdefault(signal, {})[name] = value
            if reader == "relu" and f"dead/{name}" in arrays:
                signals.setdefault("dead_units", {})[name] = float(arrays[f"dead/{name}"])
        for signal, values in signals.items():
            self._log.put_tensors(step, signal, tuple(values), list(values.values()), time_ns)


def _statistics(sample: Floats, kind: str, reader: str) -> dict[str, float]:
    rows, size = len(sample), sample.size
    found = {"output_zeros": float((size - np.count_nonzero(sample)) / size)}
    with np.errstate(all="ignore"):
        # The bits of ``mean`` and ``std``, without what NumPy does around them.
        mean = np.add.reduce(sample, axis=None) / size
        found["output_mean"] = float(mean)
        if size > 1:
            centred = sample - mean
            centred *= centred
            found["output_std"] = math.sqrt(np.add.reduce(centred, axis=None) / size)
        if rows > 1:
            columns = sample - np.add.reduce(sample, axis=0) / rows
            columns *= columns
            found["output_batch_std"] = float(np.sqrt(np.add.reduce(columns, axis=0) / rows).mean())
        if (flat := _saturated(sample, kind, reader)) is not None:
            found["saturated"] = float(flat.mean())
    return found


def _saturated(sample: Floats, kind: str, reader: str) -> Any:
    """Which elements are within 0.01 of a bound: of the module's own output, or of what reads it."""
    low, _, high = kind.partition(":")
    if high:
        return (sample < float(low) + NEAR) | (sample > float(high) - NEAR)
    limit = {"tanh": _TANH, "sigmoid": _SIGMOID}.get(reader)
    return None if limit is None or kind else np.abs(sample) > limit


def _kind_of(module: torch.nn.Module) -> str:
    """``relu``, the bounds of an activation as ``low:high``, or nothing."""
    if isinstance(module, RECTIFIERS):
        return "relu"
    if isinstance(module, torch.nn.Tanh):
        return "-1:1"
    if isinstance(module, torch.nn.Sigmoid | torch.nn.Hardsigmoid | torch.nn.Softmax):
        return "0:1"
    if isinstance(module, torch.nn.Hardtanh):
        return f"{module.min_val}:{module.max_val}"
    return ""


def _first_float(tensors: Iterable[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor] | None:
    for tensor in tensors:
        values = usable(tensor)
        if values is not None and values.is_floating_point() and values.ndim:
            return tensor, values
    return None


def _dead_units(values: torch.Tensor) -> torch.Tensor:
    """The share of units without a positive element; of many rows some."""
    if values.numel() > WHOLE_LAYER:
        values = values[:: -(-values.numel() // WHOLE_LAYER)]
    units = 1 if values.ndim >= 4 else values.ndim - 1
    others = [axis for axis in range(values.ndim) if axis != units]
    largest = values.amax(others) if others else values
    return (largest <= 0).double().mean()
