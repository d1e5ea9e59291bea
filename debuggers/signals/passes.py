"""Sees the forward passes of a model at one step: what enters it and what it returns."""

from collections.abc import Callable
from typing import Any, Protocol

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.instrumentation.training_pass import is_training_forward
from debuggers.signals.batch import BatchSignals
from debuggers.signals.entrances import Entrances
from debuggers.signals.machine import unqueued_s
from debuggers.signals.single_rows import follows_single_row
from debuggers.torch_import import torch
from debuggers.utils import tensors_in


class PassBegins(Protocol):
    """What is called when a pass begins, or a part of it."""

    def __call__(self, *, goes_on: bool) -> None:
        """Says whether what begins is a further part of the pass that has begun."""


class ModelPasses:
    """Observes a model from ``attach`` to ``detach``; between them the model has no hook.

    The batch of a step is that of its first training pass: gradients are on, and no backward pass runs. If that ran in
    eval mode and a later one does not, as when a validation came first, it is that of the later one; also if it was of
    one row and the later one is of several, as when an action was chosen first. Where a loop calls the model's parts, a
    pass is the first call of each: it begins with the first one's inputs, and returns what the last one does. What is
    called several times in a step is given some of its inputs each time: they are left out.

    Attributes:
        begun_s: When the first training pass of the step began, by ``unqueued_s``; None before it.
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
        on_begin: PassBegins,
        on_end: Callable[[Any], None],
    ) -> None:
        """``on_begin`` and ``on_end`` are called around a pass that is taken, the second with what it returned.

        Where a pass is several calls, around each of them; it ``goes_on`` with all but the first.
        """
        self._entrances = Entrances(model)
        self._batch, self._isolation, self._stopwatch = batch, isolation, stopwatch
        self._on_begin, self._on_end = on_begin, on_end
        self._hooks = Hooks()
        self._reset()

    def attach(self) -> None:
        """Waits for the passes of the coming step."""
        self.detach()
        modules = self._entrances.modules
        for module in modules:
            self._hooks.add_around_forward(module, self._begin, self._leave)
        self._hooks.add_forward([(module, self._end) for module in modules])

    def detach(self) -> None:
        """Takes the hooks off the model."""
        self._hooks.remove()
        self._entrances.step_ends()
        self._reset()

    def _reset(self) -> None:
        self.begun_s: float | None = None
        self.ran_others = self.is_taken = False
        self._depth = 0
        self._is_first = True
        self._training: bool | None = None
        self._shape: torch.Size | None = None
        self._parts: list[torch.nn.Module] = []

    def _begin(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        self._depth += 1
        if self._depth > 1:
            return
        if not is_training_forward():
            self.ran_others |= self.begun_s is None
            return
        if self.begun_s is None:
            self.begun_s = unqueued_s()
        self._entrances.training_begins(module)
        if module is not self._entrances.model:
            self._part_begins(module, args, kwargs)
            return
        with self._stopwatch, self._isolation.guard("looking at the inputs"):
            shape = next((tensor.shape for tensor in tensors_in((args, kwargs))), None)
            if self._training is not None:
                is_batch = shape is not None and follows_single_row(self._shape, shape)
                if not is_batch and (self._training or not module.training):
                    self._batch.see_further((args, kwargs))
                    return
                self._batch.forget()
            self._training, self._shape, self.is_taken = module.training, shape, True
            self._batch.see(inputs=(args, kwargs))
            self._is_first = True
            self._on_begin(goes_on=False)

    def _part_begins(self, module: torch.nn.Module, args: Any, kwargs: Any) -> None:
        with self._stopwatch, self._isolation.guard("looking at the inputs"):
            if self._training is not None and not self._parts:  # the model itself was called before
                return
            self._training, self.is_taken = True, True
            if not self._parts:
                self._batch.see(inputs=(args, kwargs))
            if module in self._parts:
                self._batch.drop(inputs=module is self._parts[0], outputs=module is self._parts[-1])
            self._on_begin(goes_on=bool(self._parts))
            self._is_first = module not in self._parts
            if self._is_first:
                self._parts.append(module)

    def _leave(self, module: torch.nn.Module) -> None:
        self._depth = max(0, self._depth - 1)
        if not self._depth:
            self._was_taken, self.is_taken = self.is_taken, False

    def _end(self, module: torch.nn.Module, args: Any, output: Any) -> None:
        if self._depth or not self._was_taken:
            return
        self._was_taken = False
        with self._stopwatch, self._isolation.guard("looking at the outputs"):
            if self._is_first:
                if self._parts:
                    self._batch.drop(outputs=True)
                self._batch.see(outputs=output)
            self._on_end(output)
