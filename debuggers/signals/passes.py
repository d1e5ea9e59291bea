"""Sees the forward passes of a model at one step: what enters it and what it returns."""

import time
from collections.abc import Callable
from typing import Any

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.module_selection import WRAPPERS
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.instrumentation.training_pass import is_training_forward
from debuggers.signals.batch import BatchSignals
from debuggers.torch_import import torch


class ModelPasses:
    """Observes a model from ``attach`` to ``detach``; between them the model has no hook.

    The batch of a step is that of its first training pass: gradients are on, and no backward pass runs. If that ran in
    eval mode and a later one does not, as when a validation came first, it is that of the later one.

    Attributes:
        begun_s: When the first training pass of the step began, by ``time.perf_counter``; None before it.
        ran_others: Whether another pass ran before it, such as a validation.
        is_taken: Whether what runs now belongs to the pass that is taken.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        batch: BatchSignals,
        isolation: Isolation,
        stopwatch: Stopwatch,
        *,
        on_begin: Callable[[], None],
        on_end: Callable[[Any], None],
    ) -> None:
        """``on_begin`` and ``on_end`` are called around a pass that is taken, the second with what it returned."""
        self._model = observable(model)
        self._batch, self._isolation, self._stopwatch = batch, isolation, stopwatch
        self._on_begin, self._on_end = on_begin, on_end
        self._hooks = Hooks()
        self._reset()

    def attach(self) -> None:
        """Waits for the passes of the coming step."""
        self.detach()
        if self._model is not None:
            self._hooks.add_around_forward(self._model, self._begin, self._leave)
            self._hooks.add_forward([(self._model, self._end)])

    def detach(self) -> None:
        """Takes the hooks off the model."""
        self._hooks.remove()
        self._reset()

    def _reset(self) -> None:
        self.begun_s: float | None = None
        self.ran_others = self.is_taken = False
        self._depth = 0
        self._training: bool | None = None

    def _begin(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if not is_training_forward():
            self.ran_others |= self.begun_s is None
            return
        if self.begun_s is None:
            self.begun_s = time.perf_counter()
        if self._training is not None and (self._training or not module.training):
            return
        with self._stopwatch, self._isolation.guard("looking at the inputs"):
            if self._training is not None:
                self._batch.forget()
            self._training, self.is_taken = module.training, True
            self._batch.see(inputs=(args, kwargs))
            self._on_begin()

    def _leave(self, module: torch.nn.Module) -> None:
        self._depth = max(0, self._depth - 1)
        if not self._depth:
            self._was_taken, self.is_taken = self.is_taken, False

    def _end(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._depth or not self._was_taken:
            return
        self._was_taken = False
        with self._stopwatch, self._isolation.guard("looking at the outputs"):
            self._batch.see(outputs=output)
            self._on_end(output)


def observable(model: torch.nn.Module) -> torch.nn.Module | None:
    """Returns the module whose calls show the passes: what data parallelism wraps; None where no call can be seen."""
    while isinstance(model, WRAPPERS):
        model = model.module
    return None if isinstance(model, torch.jit.ScriptModule) else model
