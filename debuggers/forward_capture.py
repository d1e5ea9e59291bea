"""Keeps what a model's last forward pass started from, so that it can be repeated."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from types import TracebackType
from typing import Any, Self

import numpy as np

from debuggers.hooks import Hooks
from debuggers.model_replay import plain_model
from debuggers.module_selection import WRAPPERS
from debuggers.source_lines import Place, user_place
from debuggers.torch_import import torch
from debuggers.training_pass import is_training_forward
from debuggers.utils import apply_tensor_op

_DEVICE_TYPES = "cpu", "cuda"
_ALWAYS_COPIED = 1 << 20


@dataclass(slots=True)
class ForwardStart:
    """What a forward pass started from, and the gradients that came back to its outputs.

    Attributes:
        args: The model's positional arguments, themselves.
        kwargs: Its keyword arguments.
        versions: The tensors among them, with their versions.
        random_states: Of Python, NumPy and torch, and of each CUDA device once CUDA is in use.
        buffers: Copies of the model's buffers, by name.
        autocast: Device type, whether autocast was on, and its dtype.
        is_training: The model's mode.
        place: The line that called the model.
        number: Which forward pass of the step it is, from 1.
        end_node: Autograd numbered the nodes after the forward from here.
        gradients: What came back to the outputs, by their position; as large as the outputs.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: list[tuple[torch.Tensor, int]]
    random_states: tuple[Any, Any, torch.Tensor, list[torch.Tensor]]
    buffers: dict[str, torch.Tensor]
    autocast: list[tuple[str, bool, torch.dtype]]
    is_training: bool
    place: Place | None
    number: int = 1
    end_node: int = 0
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)

    def differences(self, model: torch.nn.Module) -> list[str]:
        """Returns in which ways a replay now starts from something else, as sentences."""
        found = []
        changed = sum(tensor._version != version for tensor, version in self.versions)
        if changed:
            found.append(f"{changed} of the model's arguments were changed in place since the forward pass")
        if model.training != self.is_training:
            found.append(f"the model was in {'training' if self.is_training else 'evaluation'} mode")
        if self.number > 1:
            found.append(f"of the step's {self.number} forward passes the last one is repeated")
        return found

    def set_random_states(self) -> None:
        """Sets the generators as they were."""
        python_state, numpy_state, host_state, device_states = self.random_states
        random.setstate(python_state)
        np.random.set_state(numpy_state)
        torch.set_rng_state(host_state)
        for device, state in enumerate(device_states):
            torch.cuda.set_rng_state(state, device)

    def set_buffers(self, model: torch.nn.Module) -> None:
        """Copies the buffers as they were into those that the model has now."""
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                kept = self.buffers.get(name)
                if kept is not None and kept.shape == buffer.shape:
                    buffer.copy_(kept)

    @contextmanager
    def autocasting(self) -> Iterator[None]:
        """Has autocast as it was."""
        with ExitStack() as stack:
            for device_type, enabled, dtype in self.autocast:
                stack.enter_context(torch.autocast(device_type, enabled=enabled, dtype=dtype))
            yield

    def forward(self, model: torch.nn.Module) -> list[torch.Tensor]:
        """Repeats the forward pass and returns the tensors among the outputs, in their order."""

        def leaf(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.detach().requires_grad_(tensor.requires_grad)

        with self.autocasting():
            return tensors_of(model(*apply_tensor_op(leaf, self.args), **apply_tensor_op(leaf, self.kwargs)))


class ForwardCapture:
    """Keeps the start of the last forward pass of a model that ran with gradients on; ``close`` removes its hooks.

    Arguments and output gradients are kept as references until the next pass or ``release``; buffers are copied, those
    of more than a million values only when their version has changed. Nothing is read from a device.
    """

    def __init__(self, model: torch.nn.Module) -> None:
        """Begins to watch a model; one that wraps it for data parallelism or compilation is looked through.

        Of a scripted model, and of one that was compiled in place, nothing is kept: hooks would break its graph.
        """
        self.start: ForwardStart | None = None
        self._model = plain_model(model)
        self._passes = 0
        self._copies: dict[str, torch.Tensor] = {}
        self._versions: dict[str, tuple[int, int]] = {}
        self._output_hooks = Hooks()
        self._hooks = Hooks()
        if (hooked := _outside_of_graphs(model)) is not None:
            self._hooks.add_around_forward(hooked, self._begin, self._end)
            self._hooks.add_forward([(hooked, self._note_outputs)])

    def release(self) -> None:
        """Lets go of the last forward pass, at the end of a step."""
        self._passes = 0
        self._forget()

    def close(self) -> None:
        """Removes the hooks; calling it again does nothing."""
        self.release()
        self._hooks.remove()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _forget(self) -> None:
        self.start = None
        self._output_hooks.remove()

    def _begin(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if not is_training_forward():
            return
        self._forget()
        self._passes += 1
        self.start = ForwardStart(
            args=args,
            kwargs=kwargs,
            versions=[(tensor, tensor._version) for tensor in tensors_of((args, kwargs)) if not tensor.is_inference()],
            random_states=_random_states(),
            buffers=self._buffers(),
            autocast=[
                (device, torch.is_autocast_enabled(device), torch.get_autocast_dtype(device))
                for device in _DEVICE_TYPES
            ],
            is_training=self._model.training,
            place=user_place(sys._getframe(1)),
            number=self._passes,
        )

    def _end(self, module: torch.nn.Module) -> None:
        if self.start is not None and is_training_forward():
            self.start.end_node = next_node_number()

    def _note_outputs(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        start = self.start
        if start is None or not is_training_forward():
            return
        for position, tensor in enumerate(tensors_of(output)):
            if tensor.requires_grad:
                self._output_hooks.add_gradient(tensor, _keeper(start.gradients, position))

    @torch.no_grad()
    def _buffers(self) -> dict[str, torch.Tensor]:
        """Copies the buffers over the copies of the last pass, which nobody can repeat any more."""
        buffers = dict(self._model.named_buffers())
        if not all(_is_like(self._copies.get(name), buffer) for name, buffer in buffers.items()):
            self._copies = {name: buffer.detach().clone() for name, buffer in buffers.items()}
            self._versions = {name: _version(buffer) for name, buffer in buffers.items()}
            return self._copies
        stale = []
        for name, buffer in buffers.items():
            version = _version(buffer)
            # A batch norm changes its statistics without a new version; a mask of many values does not change.
            if buffer.numel() <= _ALWAYS_COPIED or version != self._versions[name]:
                stale.append(name)
                self._versions[name] = version
        if stale:
            torch._foreach_copy_([self._copies[name] for name in stale], [buffers[name].detach() for name in stale])
        return self._copies


def _outside_of_graphs(model: torch.nn.Module) -> torch.nn.Module | None:
    """Returns what may carry hooks: the model inside of data parallelism, with the wrapper of ``torch.compile``."""
    while isinstance(model, WRAPPERS):
        model = model.module
    inside = isinstance(model, torch.jit.ScriptModule) or getattr(model, "_compiled_call_impl", None) is not None
    return None if inside else model


def _is_like(copy: torch.Tensor | None, buffer: torch.Tensor) -> bool:
    return copy is not None and (copy.shape, copy.dtype, copy.device) == (buffer.shape, buffer.dtype, buffer.device)


def _version(buffer: torch.Tensor) -> tuple[int, int]:
    return buffer.data_ptr(), -1 if buffer.is_inference() else buffer._version


def tensors_of(values: Any) -> list[torch.Tensor]:
    """Returns the tensors in a nested structure, in their order."""
    found: list[torch.Tensor] = []

    def note(tensor: torch.Tensor) -> torch.Tensor:
        found.append(tensor)
        return tensor

    apply_tensor_op(note, values)
    return found


def next_node_number() -> int:
    """Returns the number that autograd gives its next node; 0 where torch does not tell."""
    return int(getattr(torch._C._autograd, "_get_sequence_nr", int)())


def _keeper(gradients: dict[int, torch.Tensor], position: int) -> Callable[[torch.Tensor], None]:
    def keep(gradient: torch.Tensor) -> None:
        gradients[position] = gradient

    return keep


def _random_states() -> tuple[Any, Any, torch.Tensor, list[torch.Tensor]]:
    devices = torch.cuda.get_rng_state_all() if torch.cuda.is_initialized() else []  # type: ignore[no-untyped-call]
    return random.getstate(), np.random.get_state(), torch.get_rng_state(), devices
