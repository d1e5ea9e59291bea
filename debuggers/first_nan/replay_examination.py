"""One replay of a step under an operator trace: its initial state, its checks and its result."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from debuggers.first_nan.backward_interception import gradients_of, grads_aside
from debuggers.first_nan.events import non_finite_rows
from debuggers.first_nan.exception_evidence import tensors_where_it_raised
from debuggers.first_nan.forward_start import ForwardStart
from debuggers.first_nan.module_calls import ModuleCall, ModuleCalls
from debuggers.first_nan.operands import holds_more_than_minus_infinity
from debuggers.first_nan.operator_trace import OperatorTrace
from debuggers.first_nan.origin import NonFiniteOrigin
from debuggers.first_nan.replay_memory import UntouchedMemory
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.model_replay import plain_model, run_aside
from debuggers.instrumentation.quiet_computation import outside_modes
from debuggers.instrumentation.training_pass import is_training_forward
from debuggers.torch_import import torch
from debuggers.utils import tensors_in


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """The result of a replay.

    Attributes:
        origin: The origin of NaN or infinities; None if everything was finite.
        notes: How the replay differed from the step, as far as known, and what failed in it.
        error: The exception that ended it early, if any.
    """

    origin: NonFiniteOrigin | None
    notes: tuple[str, ...]
    error: Exception | None = None


class Answered(BaseException):
    """Ends a closure as soon as the origin is known; its handlers of ``Exception`` do not catch it."""


class Examination:
    """One replay. ``check`` and ``check_backward`` end it with ``Answered`` if a value is not finite."""

    def __init__(self, model: torch.nn.Module, start: ForwardStart | None, *, of_step: bool = False) -> None:
        """Prepares the replay.

        Args:
            model: The model, wrapped or not.
            start: The initial state of the step; None if it was not kept.
            of_step: Whether all forward passes of the step are repeated, or only the last one.
        """
        self.model = plain_model(model)
        self.went_backward = False
        self._start = start
        self._of_step = of_step
        self._pass = -1
        self._passes = 0
        self._calls = ModuleCalls()
        self._untouched = UntouchedMemory()
        self._trace = OperatorTrace(self._calls, self._untouched)
        self._found: set[int] = set()
        self._error: Exception | None = None

    def check(self, tensors: Iterable[torch.Tensor]) -> None:
        """Ends the replay if one of these is not finite."""
        self._found = self._trace.events_in(tensors)
        if self._found:
            raise Answered

    def check_backward(
        self, roots: list[torch.Tensor], incoming: Sequence[torch.Tensor | None], *, retain_graph: bool = False
    ) -> None:
        """Repeats a backward pass; ends the replay if a gradient is not finite."""
        self.went_backward = True
        self.check(gradients_of(roots, incoming, self.model.parameters(), retain_graph=retain_graph))

    def check_grads(self) -> None:
        """Checks the ``grad`` of parameters, which a backward pass that was not intercepted has filled."""
        grads = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self.went_backward = self.went_backward or bool(grads)
        self.check(grads)

    def go_back(self, outputs: list[torch.Tensor], start: ForwardStart) -> None:
        """Repeats the backward pass from the model's outputs."""
        known = {position: gradient for position, gradient in start.gradients.items() if position < len(outputs)}
        for gradient in known.values():
            self._trace.name(gradient, "loss", "the gradient of the outputs")
        usable = [position for position in known if outputs[position].requires_grad]
        if usable:
            roots, incoming = [outputs[position] for position in usable], [known[position] for position in usable]
            self.check_backward(roots, incoming)

    def run(self, work: Callable[[], None]) -> ReplayResult:
        """Runs ``work`` with ``run_aside``, and returns the result.

        Raises:
            Exception: Of ``work``, if no NaN or infinity may have caused it.
        """
        notes = [] if self._start is None else self._start.differences(self.model)

        def examined() -> None:
            if self._start is not None:
                self._start.set_buffers(self.model, first=self._of_step)
                states = self._start.passes[0].random_states if self._of_step else self._start.random_states
                states.put_back()
            with grads_aside(self.model.parameters()), self._tracing():
                work()

        try:
            run_aside(self.model, examined, gradients=True)
        except Answered:
            pass
        except Exception as error:
            self._blame(error)
            if not self._found:
                raise
            self._error = error.with_traceback(None)  # its frames would keep their tensors alive
            notes.append(f"the replay ended with {type(error).__name__}: {error}")
        notes += self._differences()
        return ReplayResult(self._answer(notes), tuple(notes), self._error)

    def _differences(self) -> list[str]:
        if self._start is None:
            missing = "the random states and buffers at the start of the step were not kept: it began with later ones"
            return [] if self._found else [missing]
        number = self._start.number
        if not self._of_step:
            return [f"of the step's {number} forward passes the last one is repeated"] if number > 1 else []
        if self._found or self._passes == number:
            return []
        return [f"the step had {number} forward passes of the model, and the replay {self._passes}"]

    def _blame(self, error: Exception) -> None:
        """Finds the values that the code that raised was using: by its last operators, else in its variables.

        In a variable, only NaN and plus infinity count: minus infinity may be a mask, or the logarithm of a
        probability, unrelated to the exception.
        """
        events = self._trace.events
        self._found = {index for index in self._trace.events_read() if not events[index].is_meant}
        for tensors in () if self._found else tensors_where_it_raised(error):
            with outside_modes(), torch.no_grad():
                worse = [tensor for tensor in tensors if holds_more_than_minus_infinity(tensor)]
            self._found = {index for index in self._trace.events_in(worse) if not events[index].is_meant}
            if self._found:
                return

    def _answer(self, notes: list[str]) -> NonFiniteOrigin | None:
        if not self._found:
            return None
        events = self._trace.events
        first = min(self._found, key=lambda index: (events[index].is_meant, index))
        module = events[first].call.module
        calls = 0 if module is None else self._calls.counts[module.name]
        return replace(NonFiniteOrigin.of(events[first], self.model, calls), notes=tuple(notes))

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        for name, parameter in self.model.named_parameters():
            self._trace.name(parameter, "parameter", f"parameter {name}")
        for name, buffer in self.model.named_buffers():
            self._trace.name(buffer, "buffer", f"buffer {name}")
        self._trace.caller = None if self._start is None else self._start.place
        try:
            with Hooks() as hooks, self._trace:
                self._calls.attach(
                    self.model, hooks, began=self._began, ending=self._trace.module_ends, ended=self._ended
                )
                yield
        finally:
            self._untouched.restore()

    def _began(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named = [*((str(place), value) for place, value in enumerate(args)), *kwargs.items()]
        for name, value in named:
            for tensor in tensors_in(value):
                self._trace.name(tensor, "input", f"argument {name} of the model")
                if tensor.ndim and self._trace.batch is None:
                    self._trace.batch = tensor.shape[0]
        if self._of_step and is_training_forward():
            self._set_pass(args, kwargs)

    def _set_pass(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        """Resets the generators to the start of the pass that this call repeats."""
        self._passes += 1
        if self._start is None:
            return
        found = self._start.pass_of(args, kwargs, after=self._pass)
        if found is not None:
            self._pass = found
            self._start.passes[found].random_states.put_back()

    def _ended(self, call: ModuleCall, output: Any) -> None:
        with outside_modes():
            for event in self._trace.events:
                if event.rows is None and call in event.running:
                    event.rows = non_finite_rows(tensors_in(output), self._trace.batch)
