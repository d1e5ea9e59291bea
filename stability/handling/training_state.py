"""Copies a training's state and puts it back in place: weights, buffers, optimizer, scaler and random generators."""

from __future__ import annotations

import copy
import weakref
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any

from tracker_adapters.values.tensors import local_part

from debuggers.host_arrays.readable import is_freed
from debuggers.instrumentation.random_state import RandomStates
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import tensors_of
from debuggers.torch_internals.optimizers import held_parameters
from stability.handling.config import SnapshotPlace


@dataclass(slots=True)
class TrainingState:
    """A copy of a training's state at one moment.

    What changes by itself is in it: parameters and buffers of the model, parameters that only the optimizer holds,
    the optimizer's state, the scaler's, and the generators of torch (host and CUDA), NumPy and Python. Learning rates
    and the like are not: they are the schedule's. Generators that a data loader keeps for itself are not either.
    """

    weights: dict[Hashable, torch.Tensor] = field(default_factory=dict)
    optimizer: dict[Any, Any] = field(default_factory=dict)
    scaler: dict[str, torch.Tensor] = field(default_factory=dict)
    generators: RandomStates | None = None
    copied: list[torch.cuda.Event] = field(default_factory=list)
    parameters: list[weakref.ref[torch.Tensor]] = field(default_factory=list)

    @torch.no_grad()
    def take(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer,
        scaler: torch.amp.GradScaler | None,
        place: SnapshotPlace,
    ) -> None:
        """Copies the state as it is now into the memory that this copy has already.

        On CUDA it only enqueues copies, on the current stream and into pinned memory, which is allocated once.
        """

        def allocate(source: torch.Tensor) -> torch.Tensor:
            if place == "device" or source.device.type == "cpu":
                return source.clone()
            pinned = torch.empty_like(source, device="cpu", pin_memory=True)
            return pinned.copy_(source, non_blocking=True)

        weights = _weights(model, optimizer)
        self.parameters = [weakref.ref(parameter) for parameter in _parameters(model, optimizer)]
        self.weights = _transfer(weights, self.weights, allocate)
        self.optimizer = _transfer(dict(optimizer.state), self.optimizer, allocate)
        self.scaler = _transfer(tensors_of(scaler), self.scaler, allocate)
        self.generators = RandomStates.now()
        devices = {tensor.device for tensor in weights.values() if tensor.is_cuda}
        self.copied = [torch.cuda.current_stream(device).record_event() for device in devices]

    def fits(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> bool:
        """Whether this is of the parameters that are there now; those of an exchanged layer are of another training."""
        now = _parameters(model, optimizer)
        return len(now) == len(self.parameters) and all(
            ref() is one for ref, one in zip(self.parameters, now, strict=True)
        )

    @torch.no_grad()
    def put_back(
        self, model: torch.nn.Module, optimizer: torch.optim.Optimizer, scaler: torch.amp.GradScaler | None
    ) -> None:
        """Puts the state back into the tensors that are there: ties, buckets and references of others stay valid."""
        for event in self.copied:
            event.synchronize()
        current = _weights(model, optimizer)
        for name, saved in self.weights.items():
            tensor = current.get(name)
            if tensor is None:
                continue
            if local_part(tensor).shape == saved.shape:
                local_part(tensor).copy_(saved)
            else:
                tensor.data = saved.to(tensor.device, tensor.dtype, copy=True)
        for key in [key for key in optimizer.state if key not in self.optimizer]:
            del optimizer.state[key]
        for key, saved in self.optimizer.items():
            device = key.device if isinstance(key, torch.Tensor) else None
            optimizer.state[key] = _transfer(saved, optimizer.state.get(key), _onto(device))
        for name, scalar in tensors_of(scaler).items():
            if name in self.scaler:
                scalar.copy_(self.scaler[name])
        if self.generators is not None:
            self.generators.put_back()

    def bytes(self) -> int:
        """Returns what the copied tensors take."""
        return _bytes([self.weights, self.optimizer, self.scaler])


def _weights(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> dict[Hashable, torch.Tensor]:
    weights: dict[Hashable, torch.Tensor] = {**dict(model.named_parameters()), **dict(model.named_buffers())}
    known = {id(parameter) for parameter in model.parameters()}
    weights |= {parameter: parameter for parameter in held_parameters(optimizer) if id(parameter) not in known}
    return {name: tensor for name, tensor in weights.items() if not is_freed(tensor)}


def _parameters(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> list[torch.Tensor]:
    return [*model.parameters(), *held_parameters(optimizer)]


def _transfer(source: Any, target: Any, make: Callable[[torch.Tensor], torch.Tensor]) -> Any:
    """Returns a copy of ``source`` that lies in the tensors and dicts of ``target`` where these fit.

    The entries of a list move from step to step, as those of LBFGS do, and are always made anew.
    """
    if isinstance(source, torch.Tensor):
        source = local_part(source)
        if (
            isinstance(target, torch.Tensor)
            and local_part(target).shape == source.shape
            and target.dtype == source.dtype
        ):
            local_part(target).copy_(source, non_blocking=True)
            return target
        return make(source)
    if isinstance(source, dict):
        into = target if isinstance(target, dict) else {}
        for key in [key for key in into if key not in source]:
            del into[key]
        for key, value in source.items():
            into[key] = _transfer(value, into.get(key), make)
        return into
    if isinstance(source, (list, tuple)):
        return type(source)([_transfer(value, None, make) for value in source])
    return copy.deepcopy(source)


def _onto(device: torch.device | None) -> Callable[[torch.Tensor], torch.Tensor]:
    def make(saved: torch.Tensor) -> torch.Tensor:
        # Only what came from a device was put into pinned memory.
        return saved.to(device, copy=True) if device is not None and saved.is_pinned() else saved.clone()

    return make


def _bytes(value: Any) -> int:
    if isinstance(value, torch.Tensor):
        return value.numel() * value.element_size()
    if isinstance(value, dict):
        value = list(value.values())
    return sum(_bytes(item) for item in value) if isinstance(value, (list, tuple)) else 0
