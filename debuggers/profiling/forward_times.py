"""Measures the forward time of each layer of a model, on request, with a run of the model aside."""

import threading
import time
from collections.abc import Callable
from typing import Any, TypeAlias

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.model_replay import plain_model, run_aside
from debuggers.torch_import import torch

LayerTime: TypeAlias = tuple[str, torch.nn.Module, float]


def forward_times(model: torch.nn.Module, inputs: tuple[Any, ...], repeats: int) -> list[LayerTime]:
    """Returns name, module and seconds of each call of a module without submodules, in ``repeats`` forward passes.

    One more pass before them warms up, and is not measured. On CUDA the device is waited for before and after each
    call, so that the seconds are those of the computation.

    Raises:
        DebuggerConfigError: When the model computes together with other processes.
    """
    plain = plain_model(model)
    wait = torch.cuda.synchronize if any(one.is_cuda for one in plain.parameters()) else _nothing
    found: list[LayerTime] = []

    def measured() -> None:
        plain(*inputs)
        with Hooks() as hooks:
            for name, module in plain.named_modules():
                if not any(True for _ in module.children()):
                    _time_calls(hooks, name or type(module).__name__, module, wait, found)
            for _ in range(repeats):
                plain(*inputs)

    run_aside(plain, measured, gradients=False)
    return found


def _time_calls(
    hooks: Hooks, name: str, module: torch.nn.Module, wait: Callable[[], object], found: list[LayerTime]
) -> None:
    thread, started = threading.get_ident(), [0]

    def begin(*_: object) -> None:
        if threading.get_ident() == thread:  # another thread may run the same layer
            wait()
            started[0] = time.perf_counter_ns()

    def end(_: object) -> None:
        if threading.get_ident() == thread:
            wait()
            found.append((name, module, (time.perf_counter_ns() - started[0]) / 1e9))

    hooks.add_around_forward(module, begin, end)


def _nothing() -> None:
    """The host has no device to wait for."""
