"""Records a forward pass: measures every output when its module returns it."""

from __future__ import annotations

import threading
import weakref
from functools import partial
from typing import Any

from debuggers.activations.output_rows import OutputRows
from debuggers.activations.unit_activity import UnitActivity, unit_dimension
from debuggers.host_arrays.readable import is_dense
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.module_selection import NamedModule
from debuggers.instrumentation.quiet_computation import outside_modes
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.instrumentation.training_pass import holds_values
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import NO_BACKWARD_PASS, backward_pass_id
from debuggers.torch_internals.grad_scaler import scale_of
from debuggers.torch_internals.tensors import version_of
from debuggers.utils import tensors_in

MAX_CALLS = 16
"""Calls of one module in one forward pass that are recorded; a recurrent cell may have thousands."""


class Recording:
    """What the hooks of one step share. A new step clears it.

    Attributes:
        outputs: Measurements of outputs; ``gradients`` those of the gradients with respect to them.
        skipped_calls: Calls beyond ``MAX_CALLS``.
        without_gradient: Outputs that require no gradient, where gradients are wanted.
        is_guess: Whether the step was started by a forward pass alone, and may turn out not to be a training step.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        isolation: Isolation,
        units: UnitActivity,
        stopwatch: Stopwatch,
        *,
        gradients: bool,
        scaler: torch.amp.GradScaler | None,
    ) -> None:
        self.isolation = isolation
        self.stopwatch = stopwatch
        self.units = units
        self.scaler = scaler
        self._model = model
        self._with_gradients = gradients
        self._hooks = Hooks()
        self._unit_dimension: int | None = None
        self._gradient_sources: dict[str, GradientSource] = {}
        self._gradients_lock = threading.Lock()  # each device has a thread for its part of a backward pass
        self.clear()

    def clear(self) -> None:
        """Forgets the step, and takes the hooks off its tensors."""
        self._hooks.remove()
        self.training = self._model.training
        self.outputs = OutputRows()
        self.gradients = OutputRows()
        self.skipped_calls = 0
        self.without_gradient = 0
        self.is_guess = False
        self._depth = 0
        self._before_pass: tuple[tuple[int, int], int, int] | None = None
        self._results: list[weakref.ref[torch.Tensor]] = []
        self._was_differentiated = False
        self._scale_version = _scale_version(self.scaler)

    def wanted(self) -> bool:
        """Whether a forward call is one of the step: not a validation, and not one that checkpointing repeats.

        Activation checkpointing calls modules again in the backward pass, to compute what it dropped. Nor is one whose
        tensors hold no values, as in ``torch.func.vmap``.
        """
        return self._model.training is self.training and backward_pass_id() == NO_BACKWARD_PASS and holds_values()

    def add(self, layer: LayerRecorder, call: int, output: Any) -> bool:
        """Measures the tensors of an output, or has them wait; see ``OutputRows``.

        Returns whether there was one; meta, sparse and nested tensors are none.
        """
        with outside_modes():
            return self._add(layer, call, output)

    def begin_pass(self) -> bool:
        """Notes that the model's forward begins; returns whether this is a new pass, not a nested call.

        What belongs to no step is dropped first: a pass that raised, and all passes so far where the loop has given up
        the step.
        """
        self._depth += 1
        if self._depth > 1 or backward_pass_id() != NO_BACKWARD_PASS or not holds_values():
            return False
        self.drop_unfinished_pass()
        if self.is_guess and len(self.outputs) and self._is_given_up():
            self.clear()
            self._depth = 1
            self.is_guess = True
        if self.is_guess and not len(self.outputs):
            self.training = self._model.training
        if self.wanted():
            self._before_pass = self.outputs.mark(), self.skipped_calls, self.without_gradient
        return True

    def leave_pass(self) -> None:
        """Notes that the model's forward has returned or raised."""
        self._depth = max(0, self._depth - 1)

    def end_pass(self, output: Any) -> None:
        """Notes that the model's forward has returned, after ``leave_pass``, and measures pending outputs."""
        if self._depth or not self.wanted():
            return
        self.flush()
        self._before_pass = None
        for tensor in tensors_in(output):
            self._note_result(tensor)

    def flush(self) -> None:
        """Measures what waits."""
        with outside_modes():
            self.outputs.flush()
            with self._gradients_lock:
                self.gradients.flush()

    def use_scaler(self, scaler: torch.amp.GradScaler) -> None:
        """Takes a scaler; what was measured with its scale is dropped."""
        self.scaler = scaler
        self.gradients = OutputRows()
        self._scale_version = _scale_version(scaler)

    def drop_unfinished_pass(self) -> None:
        """Forgets the outputs of a pass that raised."""
        if self._before_pass is not None:
            mark, self.skipped_calls, self.without_gradient = self._before_pass
            self.outputs.drop_from(mark)
            self._before_pass = None

    def _note_result(self, tensor: torch.Tensor) -> None:
        self._results.append(weakref.ref(tensor))
        if tensor.requires_grad and not tensor.is_inference():
            self._hooks.add_gradient(tensor, self._note_backward)

    def _note_backward(self, gradient: torch.Tensor) -> None:
        self._was_differentiated = True

    def _is_given_up(self) -> bool:
        """Whether what was recorded became no step: one was skipped, or it was no training.

        Gradients that are still there are being accumulated, unless a scaler has looked at them since.
        """
        if self.training and not self._model.training:
            return False
        if _scale_version(self.scaler) != self._scale_version:
            return True
        if any(parameter.is_leaf and parameter.grad is not None for parameter in self._model.parameters()):
            return False
        if self._was_differentiated:
            return True
        # A loss may still come of several passes whose results somebody holds.
        is_validation = self._model.training and not self.training
        return is_validation or all(result() is None for result in self._results)

    def _add(self, layer: LayerRecorder, call: int, output: Any) -> bool:
        tensors = tensors_in(output)
        name, is_any = layer.name_of(call), False
        for index, tensor in enumerate(tensors):
            if is_dense(tensor):
                self._add_tensor(layer, f"{name}.{index}" if len(tensors) > 1 else name, tensor)
                is_any = True
        return is_any

    def _add_tensor(self, layer: LayerRecorder, name: str, tensor: torch.Tensor) -> None:
        self.outputs.add(name, tensor, layer)
        if layer.dimension is not None:
            self._unit_dimension = layer.dimension
        if layer.counts_units:
            self.units.add(name, tensor, self._unit_dimension)
        if not self._with_gradients:
            return
        if tensor.requires_grad:
            self._hooks.add_gradient(tensor, partial(self._add_gradient, name))
        else:
            self.without_gradient += 1

    def _add_gradient(self, name: str, gradient: torch.Tensor) -> None:
        try:
            with self.stopwatch, self._gradients_lock, outside_modes():
                source = self._gradient_sources.get(name)
                if source is None:
                    source = self._gradient_sources[name] = GradientSource()
                self.gradients.add(name, self._unscaled(gradient), source)
        except Exception as error:
            self.isolation.record(f"measuring the gradient of activation {name!r}", error)
            if self.isolation.on_error == "raise":
                raise

    def _unscaled(self, gradient: torch.Tensor) -> torch.Tensor:
        scale = None if self.scaler is None else scale_of(self.scaler)
        if scale is None:
            return gradient
        # Wide enough that what the scale kept from underflow does not underflow here; a new tensor in any case.
        wide = gradient.detach().to(torch.promote_types(gradient.dtype, torch.float32))
        return wide / scale.to(gradient.device, non_blocking=True)


def _scale_version(scaler: torch.amp.GradScaler | None) -> int | None:
    """Changes with each ``update`` of a scaler."""
    scale = None if scaler is None else scale_of(scaler)
    return None if scale is None else version_of(scale)


class GradientSource:
    """Where the gradients of one name come from; see ``output_rows.Producer``."""

    __slots__ = ("waits",)

    def __init__(self) -> None:
        self.waits: bool | None = None


class LayerRecorder:
    """The forward hook of one module. It lives as long as its monitor, so that a step builds no names.

    Attributes:
        dimension: Where its outputs hold units, or None; see ``unit_dimension``.
        counts_units: Whether its units are counted.
        fired: Whether it was called in this step.
        waits: See ``output_rows.Producer``.
    """

    __slots__ = ("_calls", "_names", "_recording", "counts_units", "dimension", "fired", "module", "name", "waits")

    def __init__(self, named: NamedModule, recording: Recording, *, counts_units: bool) -> None:
        self.name = named.name
        self.module = named.module
        self.dimension = unit_dimension(named.module)
        self.counts_units = counts_units
        self.waits: bool | None = None
        self._recording = recording
        self._names = [named.name]
        self.begin_step()

    def begin_step(self) -> None:
        """Counts calls from 0 again."""
        self._calls = 0
        self.fired = False

    def begin_forward(self) -> None:
        """Counts calls from 0 again in the next forward pass of the model."""
        self._calls = 0

    def name_of(self, call: int) -> str:
        """The name of a call's output: that of the module, then with ``:1``, ``:2`` and so on."""
        while len(self._names) <= call:
            self._names.append(f"{self.name}:{len(self._names)}")
        return self._names[call]

    def __call__(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        """Called after the module's forward."""
        # torch.compile evaluates this while it traces: what it compiles records nothing, and no graph breaks here.
        if torch.compiler.is_compiling():
            return
        recording = self._recording
        if not recording.wanted():
            return
        call = self._calls
        self._calls = call + 1
        if call >= MAX_CALLS:
            recording.skipped_calls += 1
            return
        try:
            with recording.stopwatch:
                self.fired |= recording.add(self, call, output)
        except Exception as error:
            recording.isolation.record(f"recording activation {self.name!r}", error)
            if recording.isolation.on_error == "raise":
                raise
