"""Keeps the initial state of a model's last forward pass, so that the pass can be replayed."""

from __future__ import annotations

import logging
import sys
import weakref
from collections.abc import Callable
from typing import Any

from debuggers.first_nan.forward_start import MAX_PASSES, ForwardStart, PassStart
from debuggers.first_nan.source_lines import user_place
from debuggers.host_arrays.readable import is_freed
from debuggers.instrumentation.call_observers import is_compiled_in_place
from debuggers.instrumentation.closing import Closing
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.model_replay import plain_model
from debuggers.instrumentation.module_selection import WRAPPERS
from debuggers.instrumentation.random_state import RandomStates
from debuggers.instrumentation.training_pass import is_training_forward
from debuggers.torch_import import torch
from debuggers.torch_internals import foreach
from debuggers.torch_internals.autograd import next_node_number
from debuggers.torch_internals.tensors import version_of
from debuggers.utils import tensors_in

_log = logging.getLogger(__name__)
_DEVICE_TYPES = "cpu", "cuda"
_ALWAYS_COPIED = 1 << 20

FEW_PASSES = 10
"""So many passes without a step are ordinary: micro-batches that are left over at the end."""


class ForwardCapture(Closing):
    """Keeps the initial state of a model's last forward pass with gradients; ``close`` removes its hooks.

    Arguments and output gradients are kept as references until the next pass or ``release``. Buffers are copied, those
    of more than a million values only if their version has changed. Nothing is read from a device.

    Of the step's earlier passes, the random states are kept, and the buffers before the first one. A pass that raised
    is dropped when the next one begins.

    Attributes:
        start: The last pass; None if there was none since ``release``.
        is_thorough: Whether to keep buffers and all generators, which is slow, or only torch's host generator.
    """

    def __init__(self, model: torch.nn.Module, *, gradients: bool = True) -> None:
        """Adds hooks to a model; wrappers for data parallelism or compilation are unwrapped.

        For a scripted model, or one compiled in place, nothing is kept: hooks would break its graph.

        Args:
            model: The model.
            gradients: Whether to keep the gradients of the outputs, which are as large as the outputs.
        """
        self.start: ForwardStart | None = None
        self.is_thorough = True
        self._model = plain_model(model)
        self._keeps_gradients = gradients
        self._number = 0
        self._training_passes = self._most_passes = 0
        self._passes: list[PassStart] = []
        self._first_buffers: dict[str, torch.Tensor] = {}
        self._copies: dict[str, torch.Tensor] = {}
        self._versions: dict[str, tuple[int, int]] = {}
        self._output_hooks = Hooks()
        self._hooks = Hooks()
        self._hooked = outside_of_graphs(model)
        self.attach()

    @property
    def unused_passes(self) -> int:
        """Passes in training mode since ``release``, if far more than between earlier calls of it; else 0."""
        return self._training_passes if self._training_passes > FEW_PASSES + 2 * self._most_passes else 0

    def attach(self) -> None:
        """Adds the hooks again after ``detach``."""
        if self._hooked is not None and not len(self._hooks):
            self._hooks.add_around_forward(self._hooked, self._begin, self._end)
            self._hooks.add_forward([(self._hooked, self._note_outputs)])

    def detach(self) -> None:
        """Removes the hooks and drops the last forward pass."""
        self.release()
        self._hooks.remove()

    def release(self) -> None:
        """Drops the last forward pass, at the end of a step."""
        self._most_passes = max(self._most_passes, self._training_passes)
        self._training_passes = 0
        self._number = 0
        self._passes = []
        self._first_buffers = {}
        self._forget()

    def close(self) -> None:
        """Removes the hooks; calling it again does nothing."""
        self.detach()

    def _forget(self) -> None:
        self.start = None
        self._output_hooks.remove()

    def _give_up(self) -> None:
        self._forget()
        _log.info("what a forward pass started from could not be kept", exc_info=True)

    def _begin(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not is_training_forward():
            return
        self._training_passes += self._model.training
        self._forget()
        try:
            self._keep(args, kwargs)
        except Exception:  # such as a generator that cannot be read while a CUDA graph is captured
            self._give_up()

    def _keep(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if self._passes and not self._passes[-1].is_complete:
            self._passes.pop()
            self._number -= 1
        if self._number == 1 and not self._first_buffers:
            # The copies of the step's first pass are kept: later passes must be copied elsewhere.
            self._first_buffers, self._copies = self._copies, {}
        self._number += 1
        tensors, states = tensors_in((args, kwargs)), RandomStates.now(host_only=not self.is_thorough)
        begun = PassStart([weakref.ref(tensor) for tensor in tensors], states)
        if len(self._passes) < MAX_PASSES:
            self._passes.append(begun)
        buffers = self._buffers() if self.is_thorough else {}
        self.start = ForwardStart(
            args=args,
            kwargs=kwargs,
            versions=[(tensor, version_of(tensor)) for tensor in tensors if not tensor.is_inference()],
            passes=self._passes,
            random_states=states,
            buffers=buffers,
            first_buffers=self._first_buffers or buffers,
            autocast=[
                (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
                for device in _DEVICE_TYPES
            ],
            is_training=self._model.training,
            place=user_place(sys._getframe(2)),
            number=self._number,
        )

    def _end(self, module: torch.nn.Module) -> None:
        if self.start is not None and is_training_forward():
            self.start.end_node = next_node_number()

    def _note_outputs(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        start = self.start
        if start is None or not is_training_forward():
            return
        if self._passes and self._number == len(self._passes):
            self._passes[-1].is_complete = True
        if self._keeps_gradients:
            try:
                self._watch_gradients(output, start.gradients)
            except Exception:  # an output may be any object
                self._give_up()

    def _watch_gradients(self, output: Any, gradients: dict[int, torch.Tensor]) -> None:
        for position, tensor in enumerate(tensors_in(output)):
            if tensor.requires_grad:
                self._output_hooks.add_gradient(tensor, _keeper(gradients, position))

    @torch.no_grad()
    def _buffers(self) -> dict[str, torch.Tensor]:
        """Copies the buffers over the copies of the last pass, which can no longer be repeated."""
        buffers = {name: buffer for name, buffer in self._model.named_buffers() if not is_freed(buffer)}
        known = len(buffers) == len(self._copies)
        if not (known and all(_is_like(self._copies.get(name), buffer) for name, buffer in buffers.items())):
            self._copies = {name: buffer.detach().clone() for name, buffer in buffers.items()}
            self._versions = {name: _version(buffer) for name, buffer in buffers.items()}
            return self._copies
        stale = []
        for name, buffer in buffers.items():
            version = _version(buffer)
            # Batch norm changes its statistics without a new version; large buffers are masks, which do not change.
            if buffer.numel() <= _ALWAYS_COPIED or version != self._versions[name]:
                stale.append(name)
                self._versions[name] = version
        if stale:
            foreach.copy_([self._copies[name] for name in stale], [buffers[name].detach() for name in stale])
        return self._copies


def outside_of_graphs(model: torch.nn.Module) -> torch.nn.Module | None:
    """Returns the module that may have hooks: without data parallelism, with the wrapper of ``torch.compile``."""
    while isinstance(model, WRAPPERS):
        model = model.module
    inside = isinstance(model, torch.jit.ScriptModule) or is_compiled_in_place(model)
    return None if inside else model


def _is_like(copy: torch.Tensor | None, buffer: torch.Tensor) -> bool:
    return copy is not None and (copy.shape, copy.dtype, copy.device) == (buffer.shape, buffer.dtype, buffer.device)


def _version(buffer: torch.Tensor) -> tuple[int, int]:
    return buffer.data_ptr(), -1 if buffer.is_inference() else version_of(buffer)


def _keeper(gradients: dict[int, torch.Tensor], position: int) -> Callable[[torch.Tensor], None]:
    def keep(gradient: torch.Tensor) -> None:
        gradients[position] = gradient

    return keep
