"""Times of modules in the steps of the training itself: forward by their calls, backward by the gradients that arrive.

Of each moment it is noted whose computation begins, and the time up to the next one is added to it. A gradient that
arrives at a tensor begins the backward pass of the innermost module that made this tensor: the one that returned it
first, or else the one that was running when it was handed on. So a module has the time of its own operations without
that of the modules inside of it, and all of them together that of the passes.
"""

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import partial
from itertools import pairwise
from typing import Any, TypeAlias

from debuggers.host_arrays.graph_capture import is_capturing
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.module_selection import NamedModule, select_modules
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.instrumentation.training_pass import is_training_forward
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.observed_training.backward_passes import BackwardObservation
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import node_number
from debuggers.utils import tensors_in

MOST_MODULES = 10_000
_MOST_TENSORS = 16
_NOBODY = -1
Moment: TypeAlias = "int | torch.cuda.Event"
_Mark: TypeAlias = "tuple[Moment, float, int, bool]"
"""When, the seconds of measuring so far, whose computation begins, and whether in the backward pass."""


@dataclass(slots=True)
class ModuleStep:
    """What a module took in one step, without the modules inside of it.

    Attributes:
        calls: Number of calls in forward passes of the training.
        forward_s: In seconds.
        backward_s: In seconds; None if no gradient arrived.
        memory_bytes: Bytes of the tensors that a module without submodules has made and returned.
    """

    calls: int = 0
    forward_s: float = 0.0
    backward_s: float | None = None
    memory_bytes: int = 0


Take: TypeAlias = Callable[[dict[int, ModuleStep]], None]


class StepTimes:
    """Times the modules of a model from ``attach`` to ``detach``. It never waits for a device before ``drain``.

    On CUDA, events on the device's own stream are noted, elsewhere the host's clock.

    Attributes:
        modules: Those that are timed, at most 10,000; a step's numbers are by their places.
    """

    def __init__(self, model: torch.nn.Module, isolation: Isolation, stopwatch: Stopwatch, take: Take) -> None:
        """Hooks nothing yet; ``take`` gets the numbers of each step, as soon as they are on the host."""
        self._model, self._isolation, self._stopwatch, self._take = model, isolation, stopwatch, take
        self.modules: list[NamedModule] = []
        self._leaves: set[int] = set()
        self._hooks = Hooks()
        self._passes: BackwardObservation | None = None
        self._arrivals = ArrivalQueue()
        self._moment: Callable[[], Moment] = time.perf_counter_ns
        self._forget()

    def _forget(self) -> None:
        self._marks: list[_Mark] = []
        self._stack: list[int | None] = []
        self._known: set[tuple[int, int]] = set()
        self._found: dict[int, ModuleStep] = {}
        self._makers: set[int] = set()
        self._inputs: dict[int, set[int]] = {}
        self._gradients = Hooks()
        self._thread: int | None = None

    def attach(self) -> None:
        """Hooks all modules, and observes backward passes; does nothing if they are hooked."""
        if self._passes is not None:
            return
        if any(one.is_cuda for one in self._model.parameters()):
            self._moment = _event
        self.modules = [one for one in select_modules(self._model, "*") if not one.opaque][:MOST_MODULES]
        leaves = {id(one.module) for one in select_modules(self._model)}
        self._leaves = {place for place, one in enumerate(self.modules) if id(one.module) in leaves}
        for place, entry in enumerate(self.modules):
            self._hooks.add_around_forward(entry.module, partial(self._begin, place), partial(self._end, place))
        self._hooks.add_forward(
            [(entry.module, partial(self._returned, place)) for place, entry in enumerate(self.modules)]
        )
        self._passes = BackwardObservation(self._begin_backward)

    def detach(self) -> None:
        """Takes all hooks off, and drops what was seen since the last step."""
        self._hooks.remove()
        self._gradients.remove()
        if self._passes is not None:
            self._passes.remove()
            self._passes = None
        self._forget()

    def end_step(self, *, counts: bool = True) -> None:
        """Says that a step has ended: what was noted since the last one is its, and is dropped unless it counts."""
        marks, gradients, makers = self._marks, self._gradients, self._leaves | self._makers
        found = {place: step for place, step in self._found.items() if place in makers}
        self._forget()
        gradients.remove()
        if marks and counts:
            self._arrivals.push(_Arriving(marks[-1][0]), partial(self._count, marks, found))

    def drain(self) -> None:
        """Takes what is on its way; waits for the device."""
        self._arrivals.drain()

    def _mark(self, owner: int, *, backward: bool = False) -> None:
        self._marks.append((self._moment(), self._stopwatch.seconds, owner, backward))

    @property
    def _caller(self) -> int:
        return next((one for one in reversed(self._stack) if one is not None), _NOBODY)

    def _begin(self, place: int, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        here = threading.get_ident()
        if self._thread not in (None, here):
            return
        counts = is_training_forward() and not is_capturing()
        if not counts:
            self._stack.append(None)
            return
        self._mark(_NOBODY)
        with self._stopwatch, self._isolation.guard("timing a layer"):
            self._thread = here
            given = tensors_in((args, kwargs))[:_MOST_TENSORS]
            self._follow(given, self._caller)
            self._inputs[place] = set(_storages(given))
        self._stack.append(place)
        self._found.setdefault(place, ModuleStep()).calls += 1
        self._mark(place)

    def _end(self, place: int, module: torch.nn.Module) -> None:
        if self._stack and self._thread in (None, threading.get_ident()) and self._stack.pop() is not None:
            self._mark(self._caller)

    def _returned(self, place: int, module: torch.nn.Module, args: Any, output: Any) -> None:
        if place not in self._inputs or self._thread != threading.get_ident() or not is_training_forward():
            return
        self._mark(_NOBODY)
        with self._stopwatch, self._isolation.guard("timing a layer"):
            made = tensors_in(output)[:_MOST_TENSORS]
            self._follow(made, place)
            given = self._inputs.pop(place)
            if place in self._leaves:
                new = {where: size for where, size in _storages(made).items() if where not in given}
                self._found[place].memory_bytes += sum(new.values())
        self._mark(self._caller)

    def _follow(self, tensors: Iterable[torch.Tensor], owner: int) -> None:
        """Has the arrival of the gradients noted, of each tensor once: for the module that made it first."""
        for tensor in tensors:
            if tensor.grad_fn is None:
                continue
            key = node_number(tensor.grad_fn), tensor.output_nr
            if key not in self._known:
                self._known.add(key)
                self._makers.add(owner)
                self._gradients.add_gradient(tensor, partial(self._arrive, owner))

    def _arrive(self, owner: int, gradient: torch.Tensor) -> None:
        self._mark(owner, backward=True)

    def _begin_backward(self, roots: tuple[torch.Tensor, ...]) -> Callable[[bool], None]:
        self._mark(_NOBODY, backward=True)
        return self._end_backward

    def _end_backward(self, succeeded: bool) -> None:
        self._mark(_NOBODY, backward=True)

    def _count(self, marks: list[_Mark], found: dict[int, ModuleStep]) -> None:
        for (begun, spent_s, owner, backward), (ended, spent_then_s, _, _) in pairwise(marks):
            step = found.get(owner)
            if step is None:
                continue
            seconds = _seconds(begun, ended, spent_then_s - spent_s)
            if backward:
                step.backward_s = (step.backward_s or 0.0) + seconds
            else:
                step.forward_s += seconds
        self._take(found)


class _Arriving:
    """Marks whose last one may not have been reached yet."""

    __slots__ = ("_last",)

    def __init__(self, last: Moment) -> None:
        self._last = last

    def ready(self) -> bool:
        return isinstance(self._last, int) or bool(self._last.query())  # type: ignore[no-untyped-call]


def _event() -> Moment:
    event = torch.cuda.Event(enable_timing=True)  # type: ignore[no-untyped-call]
    event.record()
    return event


def _seconds(begun: Moment, ended: Moment, measuring_s: float) -> float:
    """The time between two moments: on the host without what measuring took, which a device does not wait for."""
    if isinstance(begun, int) or isinstance(ended, int):
        return max(0.0, (ended - begun) / 1e9 - measuring_s)  # type: ignore[operator]
    ended.synchronize()
    return max(0.0, float(begun.elapsed_time(ended)) / 1e3)


def _storages(tensors: Iterable[torch.Tensor]) -> dict[int, int]:
    """The memory that tensors lie in, by its address, in bytes; sparse ones and those without values are left out."""
    found = {}
    for tensor in tensors:
        if tensor.layout is torch.strided and not tensor.is_meta:
            storage = tensor.untyped_storage()
            found[storage.data_ptr()] = storage.nbytes()
    return found
