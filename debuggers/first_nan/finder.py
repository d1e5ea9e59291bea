"""Finds the first NaN: watches a model, and replays a faulty step to find the operator that produced it."""

import logging
from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Self

from tracker_adapters.emitter import Emitter

from debuggers.errors import DebuggerConfigError
from debuggers.first_nan.exception_evidence import may_be_of_values
from debuggers.first_nan.flight_recorder import NonFiniteWatch
from debuggers.first_nan.forward_capture import ForwardCapture
from debuggers.first_nan.origin import NonFiniteOrigin
from debuggers.first_nan.output import FirstNaN, FirstNaNReporter
from debuggers.first_nan.past_steps import PastSteps, ReplaySchedule
from debuggers.first_nan.replay import ReplayResult, replay_closure, replay_error, replay_forward
from debuggers.instrumentation.isolation import describe
from debuggers.instrumentation.seen_errors import SeenErrors
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import scaler_aside

_UNKNOWN = ("the difference is not known",)
_GIVE_REPLAY = "pass replay=, a function that runs all micro-batches, to repeat all of them"
_log = logging.getLogger(__name__)


class FirstNaNFinder:
    """Names the operator that produced a step's first NaN, its line, inputs, and the datapoints that trigger it.

    Pass it to ``NumericalStabilityManager(find_first_nan=...)``. It keeps a few statistics of each leaf module's
    output, and the initial state of the last forward pass. If a step's loss or gradients are not finite, and those of
    the previous step were, the step is repeated by ``replay``, a function that returns the loss of the same batch.
    Without ``replay``, the model's last forward pass is repeated, and the loss cannot be examined. A replay changes
    nothing; see ``debuggers.first_nan.replay``.

    NaN may also end a step with an exception: an assertion, a range check, a factorisation. If it leaves the ``with``
    block of the finder, the forward pass of that step is repeated; elsewhere call ``look_at_error``.

    If a step has several forward passes, ``replay`` repeats them, each from the random states that it had; without
    ``replay`` only the last one is repeated. Under data parallelism, each faulty rank repeats its own step, without
    the others. A model that is sharded over processes is not repeated: the result names only the module.

    Attributes:
        datapoints: The dataset indices of the next step's batch, one per row, if wanted; None after the step.
        found: The results so far.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        history: int = 20,
        steps_between: int = 100,
        to_terminal: bool = True,
        only_with_replay: bool = False,
    ) -> None:
        """Adds its hooks.

        Args:
            model: The model, before or after it is wrapped for data parallelism; after ``torch.compile``, so that no
                hook is inside of its graph.
            history: Number of steps for which the module's statistics are kept and shown.
            steps_between: Number of steps after a result in which none is repeated. Without a result, the replay is
                retried at the next faulty step, up to three times.
            to_terminal: Whether the result is also printed to standard error.
            only_with_replay: Repeats only steps that come with a ``replay``, and keeps no statistics of layers. The
                initial state of the last forward pass is still kept, for an exception; for steps without ``replay``
                it lacks buffers, and all generators except torch's on the host.

        Raises:
            DebuggerConfigError: If ``model`` is no model, or ``history`` or ``steps_between`` no positive integer.
        """
        if not isinstance(model, torch.nn.Module):
            raise DebuggerConfigError(f"model is {model!r}; expected a Module")
        self.datapoints: Sequence[int] | None = None
        self.found: list[FirstNaN] = []
        self._model = model
        self._only_with_replay = only_with_replay
        self._turns = ReplaySchedule(steps_between)
        self._watch = None if only_with_replay else NonFiniteWatch(model, history=history)
        self._capture = ForwardCapture(model, gradients=not only_with_replay)
        self._past = PastSteps()
        self._output = FirstNaNReporter(to_terminal=to_terminal)
        self._emitter: Emitter | None = None
        self._scaler: torch.amp.GradScaler | None = None
        self._next_step = 0
        self._seen_errors = SeenErrors()

    def bind(self, emitter: Emitter | None, scaler: torch.amp.GradScaler | None) -> Self:
        """Sets where the alert and the page go, and the scaler whose scale the gradients have."""
        self._emitter, self._scaler = emitter, scaler
        return self

    def look(
        self,
        step: int,
        loss: torch.Tensor | float | None,
        *,
        loss_is_finite: bool,
        finite: bool | None,
        is_ours: bool = True,
        replay: Callable[[], Any] | None = None,
    ) -> FirstNaN | None:
        """Examines a step after its backward pass, and finds the origin of its NaN if it is the first faulty one.

        Args:
            step: Its number.
            loss: Its loss, if known.
            loss_is_finite: Whether the loss is finite, as far as known.
            finite: Whether loss and gradients are finite; None if unknown. A step that a GradScaler skips because of
                its own overflow counts as finite.
            is_ours: Whether the fault is in this process, if several train together.
            replay: Returns the loss of the same batch, or the outputs; it may call backward.

        Returns:
            The result; None if the step was not replayed, or continues a known fault.
        """
        is_asked = is_ours and (replay is not None or not self._only_with_replay)
        try:
            if not self._turns.is_due(step, faulty=finite is False and is_asked):
                return None
            answer = self._find(step, loss, replay, loss_is_finite=loss_is_finite)
            self._turns.done(step, answered=answer.origin is not None and bool(answer.origin.operator))
            return None if self._is_no_news(answer) else self._report(answer)
        finally:
            if self._watch is not None:
                self._watch.end_step(step)
            self._past.saw(step, finite=finite)
            self._capture.release()
            self._capture.is_thorough = replay is not None or not self._only_with_replay
            self._next_step = step + 1
            self.datapoints = None

    def look_at_error(self, error: BaseException) -> FirstNaN | None:
        """Finds out whether NaN caused an exception that ended a step, and the origin of the NaN.

        Call it in the ``except`` block, before the next forward pass. The step's last forward pass is repeated; see
        ``debuggers.first_nan.replay.replay_error``. Exceptions that values of tensors cannot cause, such as those of
        I/O or memory, are not examined.

        Args:
            error: The exception, with its traceback.

        Returns:
            The result; None if NaN did not cause it as far as known, or if it was examined before.
        """
        if error in self._seen_errors or not may_be_of_values(error):
            return None
        self._seen_errors.add(error)
        seen = None if self._watch is None else self._watch.first_non_finite()
        try:
            result = replay_error(self._model, self._capture.start, error)
        except Exception:
            _log.info("the step that ended with %s could not be repeated", type(error).__name__, exc_info=True)
            return None
        finally:
            self._capture.release()
        answer = self._answer(self._next_step, result, seen)
        return None if answer.origin is None else self._report(answer)

    @property
    def unused_passes(self) -> int:
        """See ``ForwardCapture.unused_passes``."""
        return self._capture.unused_passes

    def pause(self) -> None:
        """Ignores forward passes until ``resume``; statistics of layers continue."""
        self._capture.detach()

    def resume(self) -> None:
        """Continues after ``pause``."""
        self._capture.attach()

    def close(self) -> None:
        """Removes the hooks; calling it again does nothing."""
        if self._watch is not None:
            self._watch.close()
        self._capture.close()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                with suppress(Exception):  # must not replace the exception that ends the block
                    self.look_at_error(error)
        finally:
            self.close()

    def _report(self, answer: FirstNaN) -> FirstNaN:
        self.found.append(answer)
        self._output.report(answer, self._emitter)
        return answer

    def _is_no_news(self, answer: FirstNaN) -> bool:
        """Whether a fault continues without a new origin: none was found, or parameters that it broke."""
        origin = answer.origin
        return self._past.was_faulty and (origin is None or origin.origin == "parameter")

    def _find(
        self, step: int, loss: torch.Tensor | float | None, replay: Callable[[], Any] | None, *, loss_is_finite: bool
    ) -> FirstNaN:
        seen = None if self._watch is None else self._watch.first_non_finite()
        try:
            result = self._replay(loss, replay, loss_is_finite=loss_is_finite)
        except DebuggerConfigError as error:
            result = ReplayResult(None, (f"not replayed: {error}",))
        except Exception as error:
            _log.exception("the replay of step %d failed", step)
            result = ReplayResult(None, (f"the replay failed: {describe(error)}",))
        else:
            blames_unseen = result.origin is not None and result.origin.origin == "loss" and not result.origin.inputs
            if seen is not None and (result.origin is None or blames_unseen):
                result = ReplayResult(None, ("the replay was finite", *(result.notes or _UNKNOWN)))
        return self._answer(step, result, seen)

    def _answer(self, step: int, result: ReplayResult, seen: str | None) -> FirstNaN:
        origin = None if result.origin is None else self._past.explain(result.origin.with_datapoints(self.datapoints))
        if origin is None and seen is not None:
            origin = NonFiniteOrigin(
                module=seen,
                suggestion="its output was the first that was not finite; the operator is not known",
                notes=result.notes,
            )
        recorded = [] if origin is None or self._watch is None else self._watch.history(origin.module)
        return FirstNaN(step=step, origin=origin, seen_first=seen, history=tuple(recorded), notes=result.notes)

    def _replay(
        self, loss: torch.Tensor | float | None, replay: Callable[[], Any] | None, *, loss_is_finite: bool
    ) -> ReplayResult:
        start, scaler = self._capture.start, self._scaler
        with scaler_aside(scaler):
            if replay is not None:
                scale = scaler.get_scale() if scaler is not None and scaler.is_enabled() else 1.0
                return replay_closure(self._model, replay, start=start, scale=scale)
            if start is None:
                raise DebuggerConfigError("no forward pass with gradients was seen since the last step")
            tensor = loss if isinstance(loss, torch.Tensor) else None
            result = replay_forward(self._model, start, loss=tensor, loss_is_finite=loss_is_finite)
            if result.origin is None and start.number > 1:
                return ReplayResult(None, (*result.notes, _GIVE_REPLAY))
            return result
