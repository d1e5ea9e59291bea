"""Signals of layers at one step: outputs of leaf modules, sampled when they return."""

import math
import time
import weakref
from collections.abc import Iterable, Mapping
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
from debuggers.torch_internals.tensors import version_of
from debuggers.utils import tensors_in

MOST_LAYERS = 500
MOST_ELEMENTS = 1 << 14
RECTIFIERS = (torch.nn.ReLU, torch.nn.ReLU6)
NEAR = 0.01
SIGNALS = ("output_zeros", "output_mean", "output_std", "output_batch_std", "saturated", "dead_units")
_MOST_TOGETHER = 1 << 13
"""Elements of samples that are described together."""
_TANH, _SIGMOID = math.atanh(1 - NEAR), math.log(1 / NEAR - 1)


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
        self._values: dict[str, torch.Tensor | list[torch.Tensor] | float] = {}
        self._samples: dict[str, torch.Tensor] = {}
        self._kinds: dict[str, str] = {}
        self._nodes: dict[int, str] = {}
        self._found: dict[str, str] = {}
        self._makers: set[str] = set()
        self._latest: tuple[weakref.ref[torch.Tensor], int, torch.Tensor] | None = None

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

    def begin_pass(self, *, goes_on: bool = False) -> None:
        """Says that the pass begins that is taken, or goes on; layers exchanged since ``attach`` are followed."""
        if not goes_on:
            self.forget()
        self.takes = True
        if not goes_on and self._members is not None and self._members.have_changed():
            self.attach()

    def detach(self) -> None:
        """Takes the hooks off."""
        self._hooks.remove()

    def end_pass(self, output: Any) -> None:
        """Says that the pass, or a part of it, has returned: in the first one, learns what reads the layers' outputs.

        That is in its graph. Of several parts, the last one's outputs are the model's.
        """
        self.takes = False
        if self._readers is None and self._nodes:
            self._found |= readers_of(tensors_in(output), self._nodes)
            self._makers = makers_of(tensors_in(output), self._nodes)

    def end_step(self, step: int) -> None:
        """Ends a sampled step: keeps and emits what was taken, as soon as it is on the host."""
        if self._readers is None and self._nodes:
            self._readers = self._found
            self._log.note_outputs(self._makers)
        values, samples, kinds, readers = self._values, self._samples, self._kinds, self._readers or {}
        self.forget()
        if not samples:
            return
        groups = _of_one_shape(samples)
        on_host: dict[int, list[torch.Tensor]] = {}
        for place, names in enumerate(groups):
            tensors = [samples[name] for name in names]
            if tensors[0].is_cpu:
                on_host[place] = tensors
            else:
                values[f"group/{place}"] = tensors
        readers = {name: kinds[name] or readers.get(name, "") for name in samples}
        taken = _Taken(step, time.time_ns(), kinds, readers, groups, on_host, DeferredValues(values))
        self._arrivals.push(taken.deferred, partial(self._take, taken))

    def _see(self, name: str, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not self.takes or is_capturing():
            return
        if name in self._kinds:
            self._values[f"again/{name}"] = 1.0
            return
        with self._stopwatch, self._isolation.guard("looking at a layer"):
            found = _first_float((output,) if isinstance(output, torch.Tensor) else tensors_in(output))
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
                self._samples[name] = sample.clone() if sample.is_cpu else sample.to(torch.float64, copy=True)
                if kind == "relu" or (not kind and (self._readers is None or self._readers.get(name) == "relu")):
                    self._values[f"dead/{name}"] = self._dead_units(kind, args, output, values)

    def _dead_units(self, kind: str, args: Any, output: Any, values: torch.Tensor) -> torch.Tensor:
        """The share of dead units; a rectifier's is that of what it was given, if that was looked at and is unchanged.

        A unit without a positive element has none either once it is rectified.
        """
        if kind == "relu" and self._latest is not None and args:
            latest, version, share = self._latest
            known = latest()
            if known is not None and args[0] is known and version_of(known) == version:
                return share
        share = _dead_units(values)
        alike = isinstance(output, torch.Tensor) and not output.is_inference()
        self._latest = (weakref.ref(output), version_of(output), share) if alike else None
        return share

    def _take(self, taken: "_Taken") -> None:
        arrays = taken.deferred.resolve()
        signals: dict[str, dict[str, float]] = {signal: {} for signal in SIGNALS}
        for place, names in enumerate(taken.groups):
            samples = _stacked(taken.on_host[place]) if place in taken.on_host else arrays[f"group/{place}"]
            for signal, values in _statistics(samples).items():
                signals[signal].update(zip(names, values.tolist(), strict=True))
            for name, sample in zip(names, samples, strict=True):
                if (near := _saturated(sample, taken.kinds[name], taken.readers[name])) is not None:
                    signals["saturated"][name] = float(np.count_nonzero(near) / near.size)
        for name, reader in taken.readers.items():
            if reader == "relu" and f"dead/{name}" in arrays:
                signals["dead_units"][name] = float(arrays[f"dead/{name}"])
            if f"again/{name}" in arrays:  # a recurrence begins with a state of zeros
                del signals["output_zeros"][name]
        for signal, of_layers in signals.items():
            found = tuple(name for name in taken.readers if name in of_layers)
            self._log.put_tensors(taken.step, signal, found, [of_layers[name] for name in found], taken.time_ns)


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """What was taken at one step.

    Attributes:
        step: The step.
        time_ns: When it ended.
        kinds: See ``_kind_of``, by layer.
        readers: The kind, or else what reads the output, by layer.
        groups: Layers whose samples have one shape.
        on_host: By the place of the group, samples that lie there.
        deferred: The rest.
    """

    step: int
    time_ns: int
    kinds: dict[str, str]
    readers: dict[str, str]
    groups: list[list[str]]
    on_host: dict[int, list[torch.Tensor]]
    deferred: DeferredValues


def _of_one_shape(samples: Mapping[str, torch.Tensor]) -> list[list[str]]:
    """The names by the shapes of their samples; few together, so that their memory is small and is used again."""
    groups: list[list[str]] = []
    last: dict[tuple[object, ...], list[str]] = {}
    for name, sample in samples.items():
        key = (sample.shape, sample.device)
        group = last.get(key)
        if group is None or (len(group) + 1) * sample.numel() > _MOST_TOGETHER:
            group = last[key] = []
            groups.append(group)
        group.append(name)
    return groups


def _stacked(samples: list[torch.Tensor]) -> Floats:
    array = np.empty((len(samples), *samples[0].shape))
    torch.cat([one.reshape(-1) for one in samples], out=torch.from_numpy(array.reshape(-1)))
    return array


def _statistics(samples: Floats) -> dict[str, Floats]:
    """Statistics of samples (layers, rows, columns), each (layers,)."""
    layers, rows, columns = samples.shape
    size = rows * columns
    flat = samples.reshape(layers, size)
    found = {"output_zeros": (size - np.count_nonzero(flat, axis=1)) / size}
    with np.errstate(all="ignore"):
        # ``mean`` and ``std``, without what NumPy does around them.
        mean = np.add.reduce(flat, axis=1) / size
        found["output_mean"] = mean
        if size > 1:
            centred = flat - mean[:, None]
            centred *= centred
            found["output_std"] = np.sqrt(np.add.reduce(centred, axis=1) / size)
        if rows > 1:
            centred = np.subtract(
                samples, (np.add.reduce(samples, axis=1) / rows)[:, None], out=centred.reshape(samples.shape)
            )
            centred *= centred
            found["output_batch_std"] = np.add.reduce(np.sqrt(np.add.reduce(centred, axis=1) / rows), axis=1) / columns
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
