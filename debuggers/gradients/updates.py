"""Measures an optimizer's step: the weights after it, their changes, and the optimizer's state."""

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import compress
from operator import is_
from typing import Any, Self, TypeAlias

import numpy as np
import numpy.typing as npt
from tracker_adapters.emitter import Emitter
from tracker_adapters.values.tensors import plain_tensor

from debuggers.errors import DebuggerConfigError
from debuggers.gradients.loss_scale import step_was_skipped
from debuggers.gradients.parameters import Gradients
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.joined_optimizers import members_of, rounds_of
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.arrival_queue import ArrivalQueue, Measurement
from debuggers.measurement.gpu import is_readable
from debuggers.measurement.measure import Difference, measure
from debuggers.measurement.series_names import statistic_names
from debuggers.measurement.summary_stream import SummaryStream
from debuggers.measurement.summary_table import SummaryTable
from debuggers.torch_import import torch
from debuggers.torch_internals import foreach
from debuggers.torch_internals.optimizers import held_parameters, is_stepping

RATIO_EPSILON = 1e-9
"""Added to |w| before dividing by it, as SageMaker Debugger's rule UpdateRatio does."""
_ORDINARY = frozenset({torch.Tensor, torch.nn.Parameter})
_WIDE = frozenset({torch.float32, torch.float64})
_Names: TypeAlias = tuple[str, ...]
Ratios: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, eq=False)
class _Step:
    """What is measured of one optimizer step: rows of one table, group after group."""

    step: int
    time_ns: int
    groups: list[tuple[str, _Names]]
    measurement: Measurement
    skipped: DeferredTensor | None


class UpdateMeasurement:
    """Measures once after each ``arm``, when the optimizer's step ends.

    Emitted are the groups ``weights`` (after the step), ``updates`` (weights after minus before), and for each kind of
    optimizer state of a parameter's shape, such as ``exp_avg``, ``optimizer/<kind>``; with updates also the scalars
    ``update_ratio/<name>``, |Δw| / (|w| + 1e-9) in Euclidean norms over finite elements, w after the step;
    NaN where there are none.

    Only parameters that have a gradient and belong to the optimizer take part. While updates are measured, a copy of
    them is kept. Of several optimizers, the weights before the step are copied when their own step begins.

    Attributes:
        is_expected: Whether the coming step is to be measured, as far as is known before it.
        skipped: Armed steps after which the optimizer changed nothing, as when a GradScaler skips them.
    """

    def __init__(
        self,
        optimizer: torch.optim.Optimizer,
        *,
        emitter: Emitter | None,
        histogram_every: int | None,
        weights: bool,
        updates: bool,
        optimizer_state: bool,
        on_ratios: Callable[[int, _Names, Ratios], None],
        isolation: Isolation,
        stopwatch: Stopwatch,
    ) -> None:
        self.skipped, self.is_expected = 0, False
        self._optimizer, self._members, self._rounds = optimizer, members_of(optimizer), rounds_of(optimizer)
        self._early: dict[int, torch.Tensor] = {}
        self._emitter = emitter
        self._histogram_every = histogram_every
        self._with_weights, self._with_updates, self._with_state = weights, updates, optimizer_state
        self._on_ratios = on_ratios
        self._isolation, self._stopwatch = isolation, stopwatch
        self._armed: int | None = None
        self._names: _Names = ()
        self._parameters: list[torch.Tensor] = []
        self._before: list[torch.Tensor] = []
        self._arrivals = ArrivalQueue()
        self._streams: dict[str, SummaryStream] = {}
        self._hooks = Hooks()
        self._is_stepping = False
        self._hooks.add_before_each_step(optimizer, self._before_early_step)
        self._hooks.add_optimizer_pre_step(optimizer, self._before_step)
        self._hooks.add_optimizer_post_step(optimizer, self._after_step)

    @classmethod
    def if_wanted(
        cls,
        optimizer: torch.optim.Optimizer | None,
        *,
        weights: bool,
        updates: bool,
        optimizer_state: bool,
        **how: Any,
    ) -> Self | None:
        """Makes one; returns None where nothing is to be measured around the optimizer's step.

        Raises:
            DebuggerConfigError: When something is, and there is no optimizer.
        """
        if not (weights or updates or optimizer_state):
            return None
        if optimizer is None:
            raise DebuggerConfigError(
                "weights, updates and optimizer state are measured around the optimizer's step; "
                "expected GradientDebugger(model, optimizer)"
            )
        return cls(optimizer, weights=weights, updates=updates, optimizer_state=optimizer_state, **how)

    @torch.no_grad()
    def arm(self, step: int, gradients: Gradients) -> None:
        """Has the coming optimizer step measured, under this step; call it just before.

        Or inside of it, in a closure: the first of several calls counts, which finds the weights as they were.
        """
        if self._is_inside_step() and self._armed is not None:
            return
        self.disarm()
        owned = set(map(id, filter(self._is_known, held_parameters(self._optimizer))))
        mine = [id(parameter) in owned for parameter in gradients.parameters]
        parameters = [parameter for parameter, own in zip(gradients.parameters, mine, strict=True) if own]
        self._names = tuple(name for name, own in zip(gradients.names, mine, strict=True) if own)
        if self._with_updates and parameters:
            values = [self._early.get(id(parameter), _local(parameter)) for parameter in parameters]
            if not _fit(self._before, values) or not all(map(is_, parameters, self._parameters)):
                self._before = [torch.empty_like(value) for value in values]
            foreach.copy_(self._before, values)
        self._early = {}
        self._parameters = parameters
        # In a step that gives its parameters no gradient, the optimizer changes nothing.
        self._armed = step if parameters else None

    def disarm(self) -> None:
        """Has the coming optimizer step not measured; an armed step that is still waiting for one was skipped."""
        if not self._is_inside_step():
            self._forget_step()

    def wait(self) -> None:
        """Passes on everything that was measured; waits for the device."""
        self._arrivals.drain()

    def close(self) -> None:
        """Removes the hook and emits what is left; waits for the device."""
        self._hooks.remove()
        self._forget_step()
        self._parameters, self._before, self._early = [], [], {}
        try:
            self._arrivals.drain()
        finally:
            for stream in self._streams.values():
                stream.drain()

    def _forget_step(self) -> None:
        self.skipped += self._armed is not None
        self._armed = None

    def _is_known(self, parameter: torch.Tensor) -> bool:
        """Whether a parameter's own optimizer takes part in the step, and it is known what it was before."""
        if self._rounds is None or not self._rounds.is_open:
            return True
        if not self._rounds.steps_in(parameter):
            return False
        return not self._with_updates or not self._rounds.has_moved(parameter) or id(parameter) in self._early

    def _is_inside_step(self) -> bool:
        # No hook is called after a step that raised.
        self._is_stepping = self._is_stepping and is_stepping(*self._members)
        return self._is_stepping

    def _before_early_step(self, optimizer: torch.optim.Optimizer) -> None:
        if not (self._with_updates and self.is_expected):
            return
        with self._stopwatch, self._isolation.guard("measuring an update"), torch.no_grad():
            for parameter in held_parameters(optimizer):
                if parameter.grad is not None and not (self._rounds and self._rounds.is_left_out(parameter)):
                    self._early[id(parameter)] = _local(parameter).clone()

    def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self._is_stepping:  # the last step raised
            self._forget_step()
        self._is_stepping = True

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        self._is_stepping = False
        self._early = {}
        if self._armed is None:
            return
        with self._stopwatch, self._isolation.guard("measuring an update"):
            skipped = step_was_skipped(optimizer) if self._rounds is None else self._rounds.overflow()
            if skipped is not None and skipped.is_cpu and skipped.item():
                self.disarm()
            else:
                step, self._armed = self._armed, None
                self._measure(step, None if skipped is None else DeferredTensor(skipped))

    @torch.no_grad()
    def _measure(self, step: int, skipped: DeferredTensor | None) -> None:
        groups = [("weights", self._names)]
        tensors: list[torch.Tensor | Difference] = list(self._parameters)
        if self._with_state:
            for kind, (names, values) in self._state().items():
                groups.append((f"optimizer/{kind}", tuple(names)))
                tensors += values
        if self._with_updates:  # last, as the kernel gives differences that it measures along with their weights
            groups.append(("updates", self._names))
            tensors += _changes(self._before, [_local(parameter) for parameter in self._parameters])
        entry = _Step(step, time.time_ns(), groups, measure(tensors), skipped)
        self._arrivals.push(entry.measurement, partial(self._take, entry))

    def _state(self) -> dict[str, tuple[list[str], list[torch.Tensor]]]:
        kinds: dict[str, tuple[list[str], list[torch.Tensor]]] = {}
        for name, parameter in zip(self._names, self._parameters, strict=True):
            for kind, value in self._optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor) and value.shape == parameter.shape and kind != "step":
                    names, values = kinds.setdefault(kind, ([], []))
                    names.append(name)
                    values.append(value)
        return kinds

    def _take(self, entry: _Step) -> None:
        if entry.skipped is not None and entry.skipped.resolve():
            self.skipped += 1
            return
        table = entry.measurement.resolve()
        weights = _rows(table, 0, len(entry.groups[0][1]))
        start = 0
        for group, names in entry.groups:
            part = _rows(table, start, start + len(names))
            start += len(names)
            if group == "updates":
                # Differences are formed in plain tensors, of what the weights are of this rank.
                part = replace(part, local_shard=weights.local_shard)
                self._take_ratios(entry, names, _ratios(part, weights))
            if group != "weights" or self._with_weights:
                self._stream(group).take(entry.step, names, part, entry.time_ns)

    def _take_ratios(self, entry: _Step, names: _Names, ratios: Ratios) -> None:
        if self._emitter is not None:
            self._emitter.scalars(
                statistic_names("updates", "ratio", names), ratios, step=entry.step, time_ns=entry.time_ns
            )
        self._on_ratios(entry.step, names, ratios)

    def _stream(self, group: str) -> SummaryStream:
        if group not in self._streams:
            self._streams[group] = SummaryStream(group, self._emitter, histogram_every=self._histogram_every)
        return self._streams[group]


def _local(parameter: torch.Tensor) -> torch.Tensor:
    """The values: of a DTensor the local shard."""
    return parameter if type(parameter) in _ORDINARY else plain_tensor("parameter", parameter)


def _fit(buffers: list[torch.Tensor], values: list[torch.Tensor]) -> bool:
    """Whether buffers can take values; pruning changes shapes, and a model may be moved or converted in part."""
    return [(kept.shape, kept.device, kept.dtype) for kept in buffers] == [
        (value.shape, value.device, value.dtype) for value in values
    ]


def _changes(before: list[torch.Tensor], after: list[torch.Tensor]) -> Sequence[torch.Tensor | Difference]:
    """Returns after minus before; a device whose kernel cannot subtract puts it in the place of before.

    Not so where the dtype would round it: of a step in bfloat16 little more than its magnitude would be left.
    """
    in_place = [
        not value.is_cpu and value.dtype in _WIDE and not is_readable(value.device, value.dtype) for value in after
    ]
    if any(in_place):
        places = list(compress(before, in_place))
        foreach.sub_(places, list(compress(after, in_place)))
        foreach.neg_(places)
    return [old if done else Difference(new, old) for old, new, done in zip(before, after, in_place, strict=True)]


def _ratios(updates: SummaryTable, weights: SummaryTable) -> Ratios:
    """|Δw| / |w|; NaN where all elements of either are NaN or infinite: nothing is known then."""
    known = (updates.finite_count > 0) & (weights.finite_count > 0)
    return np.where(known, updates.l2 / (weights.l2 + RATIO_EPSILON), np.nan)


def _rows(table: SummaryTable, start: int, stop: int) -> SummaryTable:
    """Some rows, sharing memory."""
    rows = slice(start, stop)
    return SummaryTable(
        table.columns.rows(start, stop),
        negative=table.negative[rows],
        positive=table.positive[rows],
        l1=table.l1[rows],
        local_shard=table.local_shard[rows],
    )
