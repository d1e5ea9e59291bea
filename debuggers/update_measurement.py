"""Measures what an optimizer's step does: weights after it, their changes, and the optimizer's own state."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np
import numpy.typing as npt
from tracker_adapters.emitter import Emitter

from debuggers.hooks import Hooks
from debuggers.isolation import Isolation
from debuggers.measurement import measure
from debuggers.parameters import Parameters
from debuggers.stopwatch import Stopwatch
from debuggers.summary_stream import SummaryStream
from debuggers.summary_table import SummaryTable
from debuggers.torch_import import torch

RATIO_EPSILON = 1e-9
"""Added to |w| before dividing by it (SageMaker Debugger 1.0, rule UpdateTooLarge)."""
Ratios = npt.NDArray[np.float64]


class UpdateMeasurement:
    """Measures once after each ``arm``, when the optimizer's step ends.

    Emitted are the groups ``weights`` (after the step), ``updates`` (weights after minus before), and for each kind of
    optimizer state of a parameter's shape, such as ``exp_avg``, ``optimizer/<kind>``; with updates also the scalars
    ``updates/<name>/ratio``, |Δw| / (|w| + 1e-9) in Euclidean norms over finite elements, w after the step.

    A copy of the weights is kept while updates are measured. Only parameters that require a gradient take part.

    Attributes:
        skipped_updates: Armed steps after which the optimizer did not step, as when a GradScaler skips them.
    """

    def __init__(
        self,
        parameters: Parameters,
        optimizer: torch.optim.Optimizer,
        *,
        emitter: Emitter | None,
        histogram_every: int | None,
        weights: bool,
        updates: bool,
        optimizer_state: bool,
        on_ratios: Callable[[int, Sequence[str], Ratios], None],
        isolation: Isolation,
        stopwatch: Stopwatch,
    ) -> None:
        """Hooks the end of the optimizer's step."""
        self.skipped_updates = 0
        self._parameters = parameters
        self._emitter = emitter
        self._histogram_every = histogram_every
        self._with_updates, self._with_state = updates, optimizer_state
        self._on_ratios = on_ratios
        self._isolation, self._stopwatch = isolation, stopwatch
        self._armed: int | None = None
        self._names: tuple[str, ...] = ()
        self._tensors: list[torch.Tensor] = []
        self._before: list[torch.Tensor] = []
        self._weight_norms: dict[int, Ratios] = {}
        self._weights = self._stream("weights", emitter if weights else None, self._keep_norms)
        self._updates = self._stream("updates", emitter, self._take_updates)
        self._state_streams: dict[str, SummaryStream] = {}
        self._hooks = Hooks()
        self._hooks.add_optimizer_post_step(optimizer, self._after_step)

    @torch.no_grad()
    def arm(self, step: int) -> None:
        """Has the coming optimizer step measured, under this step; call it just before."""
        self.skipped_updates += self._armed is not None
        self._armed = step
        self._choose()
        if self._with_updates:
            torch._foreach_copy_(self._before, self._tensors)

    def close(self) -> None:
        """Removes the hook and emits what is left; waits for the device."""
        self._hooks.remove()
        self._armed = None
        self._before = []
        for stream in (self._weights, self._updates, *self._state_streams.values()):
            stream.drain()

    def _choose(self) -> None:
        places = self._parameters.trainable
        names = tuple(self._parameters.names[place] for place in places)
        tensors = [self._parameters.tensors[place].detach() for place in places]
        if names != self._names:
            self._names = names
        self._tensors = tensors
        shapes = [(tensor.shape, tensor.dtype, tensor.device) for tensor in tensors]
        if self._with_updates and shapes != [(tensor.shape, tensor.dtype, tensor.device) for tensor in self._before]:
            self._before = [torch.empty_like(tensor) for tensor in tensors]

    def _after_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self._armed is None:
            return
        step, self._armed = self._armed, None
        with self._stopwatch, self._isolation.guard("measuring an update"):
            self._measure(step, optimizer)

    @torch.no_grad()
    def _measure(self, step: int, optimizer: torch.optim.Optimizer) -> None:
        self._weights.push(step, self._names, measure(self._tensors))
        if self._with_updates:
            for before, after in zip(self._before, self._tensors, strict=True):
                torch.sub(after, before, out=before)
            self._updates.push(step, self._names, measure(self._before))
        if self._with_state:
            self._measure_state(step, optimizer)

    def _measure_state(self, step: int, optimizer: torch.optim.Optimizer) -> None:
        kinds: dict[str, tuple[list[str], list[torch.Tensor]]] = {}
        for name, place in zip(self._names, self._parameters.trainable, strict=True):
            parameter = self._parameters.tensors[place]
            for kind, value in optimizer.state.get(parameter, {}).items():
                if isinstance(value, torch.Tensor) and value.shape == parameter.shape and value.ndim:
                    names, tensors = kinds.setdefault(kind, ([], []))
                    names.append(name)
                    tensors.append(value)
        for kind, (names, tensors) in kinds.items():
            if kind not in self._state_streams:
                self._state_streams[kind] = self._stream(f"optimizer/{kind}", self._emitter, None)
            self._state_streams[kind].push(step, tuple(names), measure(tensors))

    def _stream(
        self,
        group: str,
        emitter: Emitter | None,
        on_table: Callable[[int, Sequence[str], SummaryTable], None] | None,
    ) -> SummaryStream:
        return SummaryStream(group, emitter, histogram_every=self._histogram_every, on_table=on_table)

    def _keep_norms(self, step: int, names: Sequence[str], table: SummaryTable) -> None:
        if self._with_updates:
            self._weight_norms[step] = table.l2

    def _take_updates(self, step: int, names: Sequence[str], table: SummaryTable) -> None:
        # Measured before the updates, the weights are on the host by now, but perhaps not passed on.
        self._weights.poll()
        ratios = table.l2 / (self._weight_norms.pop(step) + RATIO_EPSILON)
        if self._emitter is not None:
            self._emitter.scalars([f"updates/{name}/ratio" for name in names], ratios, step=step)
        self._on_ratios(step, names, ratios)
