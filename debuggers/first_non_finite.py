"""Repeats a step that went wrong, and names the operator that made the first NaN or infinity that counts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from debuggers.backward_interception import BackwardInterception, gradients_of, grads_aside
from debuggers.errors import DebuggerConfigError
from debuggers.forward_capture import ForwardStart, tensors_of
from debuggers.hooks import Hooks
from debuggers.loss_graph import loss_candidates
from debuggers.model_replay import plain_model, run_aside, transparent_wrappers
from debuggers.module_calls import ModuleCall, ModuleCalls
from debuggers.non_finite_origin import THE_LOSS, NonFiniteOrigin
from debuggers.operator_births import non_finite_rows
from debuggers.operator_trace import OperatorTrace
from debuggers.quiet_computation import outside_modes
from debuggers.torch_import import torch
from debuggers.untouched_memory import UntouchedMemory


@dataclass(frozen=True, slots=True)
class ReplayResult:
    """What a replay found.

    Attributes:
        origin: The answer; None when everything was finite.
        notes: How the replay differed from the step, as far as known, and what went wrong in it.
    """

    origin: NonFiniteOrigin | None
    notes: tuple[str, ...]


class _Answered(BaseException):
    """Ends a closure as soon as the answer is known; no handler of ``Exception`` in it stops that."""


def replay_closure(
    model: torch.nn.Module,
    closure: Callable[[], Any],
    *,
    start: ForwardStart | None = None,
    scale: float = 1.0,
) -> ReplayResult:
    """Runs a closure again, with its backward pass, and returns where what is not finite comes from.

    Afterwards everything is as before: weights, buffers, ``grad``, generators, and all memory that was there before,
    which the closure may have written to. ``backward`` inside of it fills no ``grad``; it ends early when the answer is
    known.

    Args:
        model: The model that the closure calls, wrapped or not; wrappers pass calls on to it meanwhile.
        closure: Returns the loss of the same batch, or the model's outputs; it may call ``loss.backward()``.
        start: What the step started from: its random states and buffers are set first.
        scale: The loss scale, if the closure returns the loss and leaves backward to the caller.

    Raises:
        DebuggerConfigError: When the closure returns no tensor and calls no ``backward``, and when the model computes
            together with other processes; see ``run_aside``.
    """
    examination = _Examination(model, start)

    def on_backward(loss: torch.Tensor, gradient: torch.Tensor | None, retain_graph: bool) -> None:
        examination.look([loss])
        examination.look_back([loss], [gradient], retain_graph=retain_graph)

    def work() -> None:
        with BackwardInterception(on_backward):
            result = closure()
        returned = tensors_of(result)
        examination.look(returned)
        examination.look_at_grads()
        if not returned and not examination.went_backward:
            raise DebuggerConfigError(
                f"the closure returned {type(result).__name__} and called no backward; expected the loss of the batch"
            )
        losses = [tensor for tensor in returned if tensor.numel() == 1 and tensor.requires_grad][:1]
        if losses and not examination.went_backward:
            examination.look_back(losses, [torch.full_like(losses[0], scale)])
        elif returned and not examination.went_backward and start is not None:
            examination.go_back(returned, start)

    with transparent_wrappers(model):
        return examination.run(work)


def replay_forward(
    model: torch.nn.Module, start: ForwardStart, *, loss: torch.Tensor | None = None, loss_is_finite: bool = True
) -> ReplayResult:
    """Repeats the last forward pass of a model, and its backward pass from the gradient that came back to its outputs.

    The loss itself is not repeated. When it is what went wrong, the answer says so and names the operators of its graph
    that may have done it. Afterwards everything is as before; see ``replay_closure``.

    Args:
        model: The model, wrapped or not.
        start: From a ``ForwardCapture``.
        loss: The loss with its graph, for the names of the operators in it.
        loss_is_finite: Whether its value was finite.

    Raises:
        DebuggerConfigError: When the model computes together with other processes; see ``run_aside``.
    """
    examination = _Examination(model, start)

    def work() -> None:
        outputs = start.forward(examination.model)
        if not loss_is_finite:
            examination.look(outputs)
        examination.go_back(outputs, start)
        if loss_is_finite:
            examination.look(outputs)

    result = examination.run(work)
    lost = not loss_is_finite or any(not bool(torch.isfinite(g).all()) for g in start.gradients.values())
    if lost and (result.origin is None or result.origin.origin == "loss"):
        return replace(result, origin=_fault_of_the_loss(result.origin, loss, start))
    return result


class _Examination:
    """One replay under an operator trace."""

    def __init__(self, model: torch.nn.Module, start: ForwardStart | None) -> None:
        self.model = plain_model(model)
        self.went_backward = False
        self._start = start
        self._calls = ModuleCalls()
        self._untouched = UntouchedMemory()
        self._trace = OperatorTrace(self._calls, self._untouched)
        self._found: set[int] = set()

    def look(self, tensors: Iterable[torch.Tensor]) -> None:
        """Ends the replay when one of these is not finite."""
        self._found = self._trace.births_in(tensors)
        if self._found:
            raise _Answered

    def look_back(
        self, roots: list[torch.Tensor], incoming: Sequence[torch.Tensor | None], *, retain_graph: bool = False
    ) -> None:
        """Repeats a backward pass; ends the replay when a gradient is not finite."""
        self.went_backward = True
        self.look(gradients_of(roots, incoming, self.model.parameters(), retain_graph=retain_graph))

    def look_at_grads(self) -> None:
        """Looks at the ``grad`` of parameters, which a backward pass that was not intercepted has filled."""
        grads = [parameter.grad for parameter in self.model.parameters() if parameter.grad is not None]
        self.went_backward = self.went_backward or bool(grads)
        self.look(grads)

    def go_back(self, outputs: list[torch.Tensor], start: ForwardStart) -> None:
        """Repeats the backward pass from the model's outputs."""
        known = {position: gradient for position, gradient in start.gradients.items() if position < len(outputs)}
        for gradient in known.values():
            self._trace.name(gradient, "loss", "the gradient that came back from the loss")
        usable = [position for position in known if outputs[position].requires_grad]
        if usable:
            roots, incoming = [outputs[position] for position in usable], [known[position] for position in usable]
            self.look_back(roots, incoming)

    def run(self, work: Callable[[], None]) -> ReplayResult:
        """Does the work aside, and returns what was found."""
        notes = [] if self._start is None else self._start.differences(self.model)

        def examined() -> None:
            if self._start is not None:
                self._start.set_buffers(self.model)
                self._start.set_random_states()
            with grads_aside(self.model.parameters()), self._tracing():
                work()

        try:
            run_aside(self.model, examined, gradients=True)
        except _Answered:
            pass
        except Exception as error:
            if not self._trace.births:
                raise
            notes.append(f"the replay ended with {type(error).__name__}: {error}")
            # The exception holds on to what its functions were working with.
            births = self._trace.births
            self._found = {index for index in self._trace.births_at_hand() if not births[index].is_meant}
        if self._start is None and not self._found:
            notes.append(
                "the random states and buffers at the start of the step were not kept: it began with later ones"
            )
        return ReplayResult(self._answer(notes), tuple(notes))

    def _answer(self, notes: list[str]) -> NonFiniteOrigin | None:
        if not self._found:
            return None
        births = self._trace.births
        first = min(self._found, key=lambda index: (births[index].is_meant, index))
        module = births[first].call.module
        calls = 0 if module is None else self._calls.counts[module.name]
        return replace(NonFiniteOrigin.of(births[first], self.model, calls), notes=tuple(notes))

    @contextmanager
    def _tracing(self) -> Iterator[None]:
        for name, parameter in self.model.named_parameters():
            self._trace.name(parameter, "parameter", f"parameter {name}")
        for name, buffer in self.model.named_buffers():
            self._trace.name(buffer, "buffer", f"buffer {name}")
        self._trace.caller = None if self._start is None else self._start.place
        try:
            with Hooks() as hooks, self._trace:
                self._calls.attach(self.model, hooks, began=self._note_arguments, ended=self._note_rows)
                yield
        finally:
            self._untouched.restore()

    def _note_arguments(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        named = [*((str(place), value) for place, value in enumerate(args)), *kwargs.items()]
        for name, value in named:
            for tensor in tensors_of(value):
                self._trace.name(tensor, "input", f"argument {name} of the model")
                if tensor.ndim and self._trace.batch is None:
                    self._trace.batch = tensor.shape[0]

    def _note_rows(self, call: ModuleCall, output: Any) -> None:
        with outside_modes():
            for birth in self._trace.births:
                if birth.rows is None and call in birth.running:
                    birth.rows = non_finite_rows(tensors_of(output), self._trace.batch)


def _fault_of_the_loss(
    found: NonFiniteOrigin | None, loss: torch.Tensor | None, start: ForwardStart
) -> NonFiniteOrigin:
    """The model is sound; the loss was not repeated, so that its operators can only be listed."""
    candidates = [] if loss is None else loss_candidates(loss, start.end_node)
    listed = f"; it may be {', '.join(candidates)}" if candidates else ""
    gradients = [start.gradients[position] for position in sorted(start.gradients)]
    batch = next((gradient.shape[0] for gradient in gradients if gradient.ndim), None)
    return NonFiniteOrigin(
        module=THE_LOSS,
        operator=candidates[0] if len(candidates) == 1 else "",
        direction="backward" if found is not None else "forward",
        origin="loss",
        rows=non_finite_rows(gradients, batch),
        suggestion=f"the model's outputs are finite and the loss or its gradient is not: give replay=, a function that "
        f"returns the loss of the same batch, and the operator is found{listed}",
        notes=() if found is None else found.notes,
    )
