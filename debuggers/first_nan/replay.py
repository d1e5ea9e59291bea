"""Replays a faulty step, and names the operator that produced the first NaN or infinity that matters."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

from debuggers.errors import DebuggerConfigError
from debuggers.first_nan.backward_interception import BackwardInterception
from debuggers.first_nan.exception_evidence import call_that_raised, may_be_of_values
from debuggers.first_nan.fault_of_loss import fault_of_the_loss, fault_that_raised
from debuggers.first_nan.forward_start import ForwardStart
from debuggers.first_nan.replay_examination import Examination, ReplayResult
from debuggers.instrumentation.model_replay import transparent_wrappers
from debuggers.torch_import import torch
from debuggers.utils import tensors_in

__all__ = ["ReplayResult", "replay_closure", "replay_error", "replay_forward"]


def replay_closure(
    model: torch.nn.Module,
    closure: Callable[[], Any],
    *,
    start: ForwardStart | None = None,
    scale: float = 1.0,
) -> ReplayResult:
    """Runs a closure again, with its backward pass, and returns the origin of NaN and infinities.

    Afterwards everything is as before: weights, buffers, ``grad``, generators, and all older memory that the closure
    wrote to. ``backward`` in the closure fills no ``grad``. The closure ends early when the origin is known.

    With ``start``, the closure begins with the buffers and random states of the step's first forward pass. Each of its
    forward passes begins with the random states of the pass that it repeats: the one with the same argument tensors,
    else the next one.

    Args:
        model: The model that the closure calls, wrapped or not; wrappers forward their calls to it meanwhile.
        closure: Returns the loss of the same batch, or the model's outputs; it may call ``loss.backward()``.
        start: The initial state of the step.
        scale: The loss scale, if the closure returns the loss and leaves backward to the caller.

    Raises:
        DebuggerConfigError: If the closure returns no tensor and calls no ``backward``, or if the model computes
            together with other processes; see ``run_aside``.
    """
    examination = Examination(model, start, of_step=True)

    def on_backward(loss: torch.Tensor, gradient: torch.Tensor | None, retain_graph: bool) -> None:
        examination.check([loss])
        examination.check_backward([loss], [gradient], retain_graph=retain_graph)

    def work() -> None:
        with BackwardInterception(on_backward):
            result = closure()
        returned = tensors_in(result)
        examination.check(returned)
        examination.check_grads()
        if not returned and not examination.went_backward:
            raise DebuggerConfigError(
                f"the closure returned {type(result).__name__} and called no backward; expected the loss of the batch"
            )
        losses = [tensor for tensor in returned if tensor.numel() == 1 and tensor.requires_grad][:1]
        if losses and not examination.went_backward:
            with _unless_gone():
                examination.check_backward(losses, [torch.full_like(losses[0], scale)])
        elif returned and not examination.went_backward and start is not None:
            examination.go_back(returned, start)

    with transparent_wrappers(model):
        return examination.run(work)


@contextmanager
def _unless_gone() -> Iterator[None]:
    """Ignores that the closure has already run backward, and cleared the gradients."""
    try:
        yield
    except RuntimeError as error:
        if "backward through the graph a second time" not in str(error):
            raise


def replay_forward(
    model: torch.nn.Module, start: ForwardStart, *, loss: torch.Tensor | None = None, loss_is_finite: bool = True
) -> ReplayResult:
    """Repeats the last forward pass of a model, and its backward pass from the gradients of its outputs.

    The loss is not repeated. If the fault is in it, the result says so, and names the operators of its graph that may
    be the cause. Afterwards everything is as before; see ``replay_closure``.

    Args:
        model: The model, wrapped or not.
        start: From a ``ForwardCapture``.
        loss: The loss with its graph, which names its operators.
        loss_is_finite: Whether its value was finite.

    Raises:
        DebuggerConfigError: If the model computes together with other processes; see ``run_aside``.
    """
    examination = Examination(model, start)

    def work() -> None:
        outputs = start.forward(examination.model)
        if not loss_is_finite:
            examination.check(outputs)
        examination.go_back(outputs, start)
        if loss_is_finite:
            examination.check(outputs)

    result = examination.run(work)
    lost = not loss_is_finite or any(not bool(torch.isfinite(g).all()) for g in start.gradients.values())
    if lost and (result.origin is None or result.origin.origin == "loss"):
        return replace(result, origin=fault_of_the_loss(result.origin, loss, start))
    return result


def replay_error(model: torch.nn.Module, start: ForwardStart | None, error: BaseException) -> ReplayResult:
    """Repeats the forward pass in or after which an exception ended a step, and names the NaN that caused it.

    There is a result in three cases: the pass raises the same type of exception, right after operators that read
    non-finite values; the model's outputs are not finite; or they are finite, and variables of the code that raised
    are not, which only names its line. Intended infinities are ignored. Afterwards everything is as before; see
    ``replay_closure``.

    Args:
        model: The model, wrapped or not.
        start: From a ``ForwardCapture``. Without it, only an exception raised inside the model can be repeated: its
            traceback has the arguments, but neither buffers nor random states. For others, the result has the line, a
            parameter that holds NaN, and the likely operator from the autograd graph.
        error: With its traceback.

    Raises:
        DebuggerConfigError: If the model computes together with other processes; see ``run_aside``.
    """
    if not may_be_of_values(error):
        return ReplayResult(None, ())
    examination = Examination(model, start)
    repeat = _repetition(examination.model, start, error)
    if repeat is None:
        return ReplayResult(fault_that_raised(error, examination.model, None), ())
    try:
        result = examination.run(lambda: examination.check(repeat()))
    except Exception as other:
        if type(other) is type(error):
            return ReplayResult(None, ())  # raised again although all values that it read were finite
        raise
    if result.origin is None:
        origin = fault_that_raised(error, examination.model, start)
        return result if start is None else replace(result, origin=origin)
    differs = result.error is not None and type(result.error) is not type(error)
    is_meant = result.origin.origin == "placed"
    return ReplayResult(None, result.notes) if differs or is_meant else result


def _repetition(
    model: torch.nn.Module, start: ForwardStart | None, error: BaseException
) -> Callable[[], list[torch.Tensor]] | None:
    if start is not None:
        return lambda: start.forward(model)
    call = call_that_raised(model, error)
    if call is None:
        return None
    module, args, kwargs = call
    return lambda: tensors_in(module(*args, **kwargs))
