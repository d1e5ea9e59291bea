"""The initial state of a model's forward pass, and how to replay the pass from it."""

from __future__ import annotations

import weakref
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

from debuggers.first_nan.source_lines import Place
from debuggers.instrumentation.random_state import RandomStates
from debuggers.torch_import import torch
from debuggers.torch_internals.tensors import version_of
from debuggers.utils import apply_tensor_op, tensors_in

MAX_PASSES = 256
"""The most forward passes of a step whose random states are kept."""


@dataclass(slots=True)
class PassStart:
    """One of a step's forward passes.

    Attributes:
        arguments: Weak references to the tensors among its arguments.
        random_states: The random states at its start.
        is_complete: Whether it ended without an exception.
    """

    arguments: list[weakref.ref[torch.Tensor]]
    random_states: RandomStates
    is_complete: bool = False

    def took(self, tensors: list[torch.Tensor]) -> bool:
        """Whether its arguments were exactly these objects."""
        if len(tensors) != len(self.arguments):
            return False
        return all(kept() is tensor for kept, tensor in zip(self.arguments, tensors, strict=True))


@dataclass(slots=True)
class ForwardStart:
    """The initial state of a step's last forward pass, and the gradients of its outputs.

    Attributes:
        args: The model's positional arguments, not copied.
        kwargs: Its keyword arguments, not copied.
        versions: The tensors among them, with their versions.
        passes: The step's first ``MAX_PASSES`` forward passes so far, in order.
        random_states: The random states at the start of this pass.
        buffers: Copies of the model's buffers, by name; empty if none are kept.
        first_buffers: Those at the start of the step's first pass.
        autocast: Device type, whether autocast was on, and its dtype.
        is_training: The model's mode.
        place: The line that called the model.
        number: The number of this forward pass in its step, from 1.
        end_node: The number of the first autograd node after the forward pass.
        gradients: The gradients of the outputs, by position; as large as the outputs.
    """

    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    versions: list[tuple[torch.Tensor, int]]
    passes: list[PassStart]
    random_states: RandomStates
    buffers: dict[str, torch.Tensor]
    first_buffers: dict[str, torch.Tensor]
    autocast: list[tuple[str, bool, torch.dtype]]
    is_training: bool
    place: Place | None
    number: int = 1
    end_node: int = 0
    gradients: dict[int, torch.Tensor] = field(default_factory=dict)

    def differences(self, model: torch.nn.Module) -> list[str]:
        """Returns how the start of a replay now would differ, as sentences."""
        found = []
        changed = sum(version_of(tensor) != version for tensor, version in self.versions)
        if changed:
            found.append(f"{changed} of the model's arguments were changed in place since the forward pass")
        if model.training != self.is_training:
            found.append(f"the model was in {'training' if self.is_training else 'evaluation'} mode")
        if self.random_states.python is None:
            found.append("the model's buffers, and all generators but torch's on the host, are later ones")
        return found

    def pass_of(self, args: tuple[Any, ...], kwargs: dict[str, Any], *, after: int) -> int | None:
        """Returns which of the step's passes a call of the model repeats, from 0; None if there are no more.

        It is the next one with the same tensors among its arguments, else the next one.

        Args:
            args: The call's positional arguments.
            kwargs: Its keyword arguments.
            after: The pass that the previous call repeated; -1 for the first call.
        """
        tensors = tensors_in((args, kwargs))
        following = range(after + 1, len(self.passes))
        same = (number for number in following if tensors and self.passes[number].took(tensors))
        return next(same, next(iter(following), None))

    def set_buffers(self, model: torch.nn.Module, *, first: bool = False) -> None:
        """Resets the model's buffers to their kept values.

        Args:
            model: The model.
            first: Whether to use the buffers before the step's first pass instead of its last one.
        """
        copies = self.first_buffers if first else self.buffers
        with torch.no_grad():
            for name, buffer in model.named_buffers():
                kept = copies.get(name)
                if kept is not None and kept.shape == buffer.shape:
                    buffer.copy_(kept)

    @contextmanager
    def autocasting(self) -> Iterator[None]:
        """Sets autocast as it was."""
        with ExitStack() as stack:
            for device_type, enabled, dtype in self.autocast:
                stack.enter_context(torch.autocast(device_type, enabled=enabled, dtype=dtype))
            yield

    def forward(self, model: torch.nn.Module) -> list[torch.Tensor]:
        """Repeats the forward pass and returns the tensors among the outputs, in order."""

        def leaf(tensor: torch.Tensor) -> torch.Tensor:
            return tensor.detach().requires_grad_(tensor.requires_grad)

        with self.autocasting():
            return tensors_in(model(*apply_tensor_op(leaf, self.args), **apply_tensor_op(leaf, self.kwargs)))
