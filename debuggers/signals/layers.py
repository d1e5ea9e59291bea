"""Signals of layers at one step: outputs of leaf modules, sampled when they return."""

import math
import time
import weakref
from collections import Counter
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
from debuggers.signals.layer_statistics import (
    STATISTICS,
    as_arrays,
    dead_share,
    elements_of_a_unit,
    groups_of_one_shape,
    statistics_of,
    statistics_on_host,
)
from debuggers.signals.readers import RECTIFIERS, is_rectified, kind_of_module, makers_of, readers_of
from debuggers.signals.sampling import sampled_rows, usable
from debuggers.signals.signal_log import SignalLog
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number
from debuggers.torch_internals.tensors import version_of
from debuggers.utils import tensors_in

MOST_LAYERS = 500
MOST_ELEMENTS = 1 << 14
NEAR = 0.01
FEWEST = 4
"""Elements of a unit from which one without a positive element counts: of fewer, half of them have none by chance."""
SIGNALS = (*STATISTICS, "saturated", "dead_units", "phase_std")
FEWEST_STEPS = 5
"""Sampled steps in which a layer was called without gradients, from which it is so on purpose or by mistake."""
NEARLY_EACH = 0.8
"""Share of the sampled steps: validations come in fewer."""
_FLOAT32 = 1e-6
"""Share of a size that rounding to float32 and the order of sums may change."""
_TANH, _SIGMOID = math.atanh(1 - NEAR), math.log(1 / NEAR - 1)


class LayerSignals:
    """Takes the first output of at most 500 leaf modules in one forward pass, at most 16,384 elements of each.

    The share of zeros is left out for modules that are called again in the pass. Units are dimension 1 of outputs with
    four dimensions or more, else the last. Whose output is read by a functional relu, tanh, sigmoid or sine is learned
    from the graph of the first pass, and so are modules of other classes that end in such a relu.

    Attributes:
        takes: Whether outputs are taken now.
        called: The layers in the order in which the first pass that was taken called them.
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
        self._rectified: set[str] = set()
        self._judged: tuple[str, ...] = ()
        self._called: set[str] = set()
        self._without: set[str] = set()
        self._steps_without: Counter[str] = Counter()
        self.called: tuple[str, ...] = ()
        self._steps = 0
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
        self._latest: _Described | None = None

    def attach(self) -> None:
        """Hooks the layers for the coming step."""
        self.detach()
        if self._members is None or self._members.have_changed():
            self._members = ModuleMembers(self._model)
            every = select_modules(self._model, None)
            self._judged = tuple(entry.name for entry in every if _is_judged(entry))[:MOST_LAYERS]
            named = [entry for entry in every if not entry.opaque]
            self._layers = [entry for entry in named if entry.module is not self._model or len(named) == 1][
                :MOST_LAYERS
            ]
            self._readers, self._observers = None, []
            self._rectified.clear()
        if self._observers:
            self._hooks.put_back(self._observers)
        else:
            hooks = [(entry.module, partial(self._see, entry.name)) for entry in self._layers]
            self._observers = self._hooks.add_forward(hooks)

    @property
    def unseen(self) -> tuple[list[str], int]:
        """The layers that compute something and were called in no sampled step, and how many such layers there are.

        Of those that a compiled module holds, and of weights that are used without calling their layer, hooks see
        nothing.
        """
        return [name for name in self._judged if name not in self._called], len(self._judged)

    @property
    def without_gradients(self) -> list[str]:
        """The layers that were called in nearly each sampled step, and always without gradients, outside of a pass."""
        fewest = max(FEWEST_STEPS, NEARLY_EACH * self._steps)
        return [name for name, count in self._steps_without.items() if count >= fewest and name not in self._called]

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
        self.called = self.called or tuple(kinds)
        self.forget()
        self._steps += 1
        without, self._without = self._without, set()
        self._steps_without.update(list(without))  # at once: a validation may run in another thread
        if not samples:
            return
        on_host = {name: sample for name, sample in samples.items() if sample.is_cpu}
        groups = groups_of_one_shape({name: sample for name, sample in samples.items() if name not in on_host})
        for place, names in enumerate(groups):
            values[f"group/{place}"] = [samples[name] for name in names]
        readers = {name: kinds[name] or readers.get(name, "") for name in samples}
        taken = _Taken(step, time.time_ns(), readers, on_host, groups, DeferredValues(values))
        self._arrivals.push(taken.deferred, partial(self._take, taken))

    def _see(self, name: str, module: torch.nn.Module, args: Any, output: Any) -> None:
        if not self.takes and not torch.is_grad_enabled():
            self._without.add(name)
        if not self.takes or is_capturing():
            return
        self._called.add(name)
        if name in self._kinds:
            self._values[f"again/{name}"] = 1.0
            return
        with self._stopwatch, self._isolation.guard("looking at a layer"):
            found = _first_float((output,) if isinstance(output, torch.Tensor) else tensors_in(output))
            if found is None:
                return
            given, values = found
            kind = kind_of_module(module)
            if not kind and self._readers is None and given.grad_fn is not None and is_rectified(given.grad_fn):
                self._rectified.add(name)
            kind = self._kinds[name] = "relu" if name in self._rectified else kind
            if isinstance(module, torch.nn.Softmax):
                self._log.note_outputs([name])
            if self._readers is None and given.grad_fn is not None:
                self._nodes[node_number(given.grad_fn)] = name
            latest = self._latest
            with quiet_computation(values.device.type):
                if latest is not None and latest.is_of(output):  # an idle ``Dropout`` returns what it was given
                    own = latest
                else:
                    own = _Described(output, _copied(sampled_rows(values, MOST_ELEMENTS)))
                self._samples[name] = own.sample
                reads = kind or ("relu" if self._readers is None else self._readers.get(name))
                if reads == "relu" and elements_of_a_unit(values) >= FEWEST:
                    if own.dead is None:
                        # A unit without a positive element has none either once it is rectified.
                        rectified = latest if isinstance(module, RECTIFIERS) and args else None
                        own.dead = rectified.dead if rectified is not None and rectified.is_of(args[0]) else None
                    if own.dead is None:
                        own.dead = dead_share(values)
                    self._values[f"dead/{name}"] = own.dead
            self._latest = own

    def _take(self, taken: "_Taken") -> None:
        arrays = taken.deferred.resolve()
        signals: dict[str, dict[str, float]] = {signal: {} for signal in SIGNALS}
        signals |= statistics_on_host(taken.on_host)
        of_device: dict[str, Floats] = {}
        for place, names in enumerate(taken.groups):
            samples = arrays[f"group/{place}"]
            of_device.update(zip(names, samples, strict=True))
            for signal, values in statistics_of(samples).items():
                signals[signal].update(zip(names, values.tolist(), strict=True))
        for name, reader in taken.readers.items():
            if (bounds := _bounds(reader)) is not None:
                sample = of_device[name] if name in of_device else as_arrays([taken.on_host[name]])
                near = (sample < bounds[0]) | (sample > bounds[1])
                signals["saturated"][name] = float(np.count_nonzero(near) / near.size)
            if reader.startswith("sine"):
                signals["phase_std"][name] = abs(_factor(reader)) * signals["output_std"][name]
            if reader == "relu" and f"dead/{name}" in arrays:
                share = float(arrays[f"dead/{name}"])
                # Of some units, rows that are all alike say nothing: such as the first token of sentences.
                if share == 1 or not _are_alike(signals, name):
                    signals["dead_units"][name] = share
            if f"again/{name}" in arrays:  # a recurrence begins with a state of zeros
                del signals["output_zeros"][name]
        for signal, of_layers in signals.items():
            found = tuple(name for name in taken.readers if name in of_layers)
            self._log.put_tensors(taken.step, signal, found, [of_layers[name] for name in found], taken.time_ns)


def _is_judged(entry: NamedModule) -> bool:
    """Whether there is something to say of a layer's outputs: it has weights of its own, or is an activation."""
    has_weights = any(True for _ in entry.module.parameters(recurse=False))
    return entry.opaque or has_weights or bool(kind_of_module(entry.module))


class _Described:
    """An output that was looked at: what is known of it as long as it is not changed.

    Attributes:
        sample: Some of its elements.
        dead: Its share of dead units, if it was asked for.
    """

    __slots__ = ("_output", "_version", "dead", "sample")

    def __init__(self, output: Any, sample: torch.Tensor) -> None:
        has_version = isinstance(output, torch.Tensor) and not output.is_inference()
        self._output = weakref.ref(output) if has_version else None
        self._version = version_of(output) if has_version else 0
        self.sample = sample
        self.dead: torch.Tensor | float | None = None

    def is_of(self, output: Any) -> bool:
        """Whether it is of that very output, as it is now."""
        known = None if self._output is None else self._output()
        return known is not None and known is output and version_of(known) == self._version


@dataclass(frozen=True, slots=True, eq=False)
class _Taken:
    """What was taken at one step.

    Attributes:
        step: The step.
        time_ns: When it ended.
        readers: The kind (see ``kind_of_module``), or else what reads the output, by layer.
        on_host: Samples that lie there, by layer.
        groups: Layers whose samples have one shape, of the others.
        deferred: The rest.
    """

    step: int
    time_ns: int
    readers: dict[str, str]
    on_host: dict[str, torch.Tensor]
    groups: list[list[str]]
    deferred: DeferredValues


def _are_alike(signals: dict[str, dict[str, float]], name: str) -> bool:
    """Whether a layer puts out the same for all rows, but for the rounding of float32."""
    between, size = signals["output_batch_std"].get(name), signals["output_std"].get(name, 0.0)
    return between is not None and between <= _FLOAT32 * math.hypot(size, signals["output_mean"].get(name, 0.0))


def _bounds(reader: str) -> tuple[float, float] | None:
    """Beyond which an element is within 0.01 of a bound: of the module's own output, or of what reads it."""
    low, _, high = reader.partition(":")
    if high:
        return float(low) + NEAR, float(high) - NEAR
    limit = {"tanh": _TANH, "sigmoid": _SIGMOID}.get(reader.partition("*")[0])
    return None if limit is None else (-limit / abs(_factor(reader)), limit / abs(_factor(reader)))


def _factor(reader: str) -> float:
    """What a layer's output is multiplied with before it is read."""
    return float(reader.partition("*")[2] or 1)


def _first_float(tensors: Iterable[torch.Tensor]) -> tuple[torch.Tensor, torch.Tensor] | None:
    for tensor in tensors:
        values = usable(tensor)
        if values is not None and values.is_floating_point() and values.ndim:
            return tensor, values
    return None


def _copied(sample: torch.Tensor) -> torch.Tensor:
    """A copy, because what comes after may change it in place: in memory of its own, row after row."""
    if sample.is_cpu:
        return sample.clone(memory_format=torch.contiguous_format)
    return sample.to(torch.float64, copy=True)
