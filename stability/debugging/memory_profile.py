"""What each leaf module's forward adds to memory, and what parameters, gradients, states and buffers take."""

import time
from collections.abc import Iterable
from typing import Any

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.module_selection import NamedModule, select_modules
from debuggers.tensors.lifetimes import bytes_of
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import NO_BACKWARD_PASS, backward_pass_id, is_in_transform
from debuggers.utils import tensors_in
from stability.debugging.check_pace import CheckPace
from stability.debugging.tool import StepSeen
from stability.reporting.process_memory import BYTES_PER_MB
from stability.results.debugging import MemoryProfile, ModuleMemory
from stability.results.step import Anomaly, DebugInfo


class MemoryProfiler:
    """Watches the forward passes of one step now and then; its hooks are there for that step only.

    A module on a CUDA device adds what ``memory_allocated`` grows by during its forward, so what autograd saves
    counts. On the CPU it adds the storages of its output that are not those of its input; what autograd saves beside
    them is not seen there. The first profile is of the second step: the model is known after the first.
    """

    def __init__(self, pace: CheckPace, isolation: Isolation) -> None:
        """Makes a profiler.

        Args:
            pace: When a step is watched.
            isolation: Keeps what fails in a hook out of the model's forward.
        """
        self._pace = pace
        self._isolation = isolation
        self._seconds = 0.0
        self._hooks = Hooks()
        self._modules: list[NamedModule] = []
        self._added: dict[int, float] = {}
        self._calls: dict[int, int] = {}
        self._before: dict[int, tuple[float, set[int]]] = {}
        self.last: MemoryProfile | None = None

    def attach(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
        """Nothing is attached before the end of a step."""

    def observe(self, seen: StepSeen, info: DebugInfo) -> list[Anomaly]:
        """Adds ``memory_profile`` after a step that was watched, and watches the next one if it is due."""
        due = self._pace.step()
        if len(self._hooks):
            begun = time.perf_counter()
            self._hooks.remove()
            self.last = info["memory_profile"] = self._profile(seen)
            self._pace.spend(self._seconds + time.perf_counter() - begun)
        if due:
            self._watch(seen.model)
        return []

    def close(self) -> None:
        """Removes the hooks, and lets the model go."""
        self._hooks.remove()
        self._modules, self._before = [], {}

    def _watch(self, model: torch.nn.Module) -> None:
        self._modules = [entry for entry in select_modules(model) if not entry.opaque]
        self._added, self._calls, self._before, self._seconds = {}, {}, {}, 0.0
        for entry in self._modules:
            self._hooks.add_around_forward(entry.module, self._begin, _nothing)
        self._hooks.add_forward((entry.module, self._end) for entry in self._modules)

    def _begin(self, module: torch.nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        if _in_backward():
            return
        begun = time.perf_counter()
        with self._isolation.guard("memory profiling"):
            self._before[id(module)] = _allocated(module), set(_storages((args, kwargs)))
        self._seconds += time.perf_counter() - begun

    def _end(self, module: torch.nn.Module, inputs: Any, output: Any) -> None:
        if _in_backward():
            return
        begun = time.perf_counter()
        with self._isolation.guard("memory profiling"):
            before, known = self._before.pop(id(module), (0.0, set()))
            if before or _device(module) is not None:
                added = _allocated(module) - before
            else:
                added = sum(size for place, size in _storages(output).items() if place not in known) / BYTES_PER_MB
            self._added[id(module)] = self._added.get(id(module), 0.0) + added
            self._calls[id(module)] = self._calls.get(id(module), 0) + 1
        self._seconds += time.perf_counter() - begun

    def _profile(self, seen: StepSeen) -> MemoryProfile:
        model = seen.model
        parameters = list(model.parameters())
        state = [value for entry in seen.optimizer.state.values() for value in tensors_in(entry)]
        modules = [
            ModuleMemory(
                module=entry.name,
                type=type(entry.module).__name__,
                calls=self._calls.get(id(entry.module), 0),
                forward_mb=self._added.get(id(entry.module), 0.0),
                parameters_mb=_megabytes(entry.module.parameters()),
                buffers_mb=_megabytes(entry.module.buffers()),
            )
            for entry in self._modules
        ]
        return MemoryProfile(
            parameters_mb=_megabytes(parameters),
            gradients_mb=_megabytes(parameter.grad for parameter in parameters if parameter.grad is not None),
            optimizer_state_mb=_megabytes(state),
            buffers_mb=_megabytes(model.buffers()),
            modules=sorted(modules, key=lambda module: -module["forward_mb"]),
        )


def _in_backward() -> bool:
    """Whether activation checkpointing calls a module once more."""
    return backward_pass_id() != NO_BACKWARD_PASS


def _nothing(module: torch.nn.Module) -> None:
    pass


def _device(module: torch.nn.Module) -> torch.device | None:
    """The CUDA device of a module's parameters, or the current one once CUDA is in use; None for the CPU."""
    parameter = next(module.parameters(), None)
    if parameter is not None:
        return parameter.device if parameter.is_cuda else None
    in_use = torch.cuda.is_initialized()  # type: ignore[no-untyped-call]
    return torch.device("cuda", torch.cuda.current_device()) if in_use else None


def _allocated(module: torch.nn.Module) -> float:
    device = _device(module)
    return 0.0 if device is None else torch.cuda.memory_allocated(device) / BYTES_PER_MB


def _storages(value: Any) -> dict[int, int]:
    """The bytes of each storage of the dense tensors in a value, by its address."""
    storages = [tensor.untyped_storage() for tensor in tensors_in(value) if _has_storage(tensor)]
    return {storage.data_ptr(): storage.nbytes() for storage in storages}


def _has_storage(tensor: torch.Tensor) -> bool:
    # Under torch.vmap and the like a tensor only stands for others.
    return tensor.layout is torch.strided and not is_in_transform(tensor)


def _megabytes(tensors: Iterable[torch.Tensor]) -> float:
    return sum(bytes_of(tensor) for tensor in {id(tensor): tensor for tensor in tensors}.values()) / BYTES_PER_MB
