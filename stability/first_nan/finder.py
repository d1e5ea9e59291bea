"""The first NaN, by name: watches a model, and replays a step that went wrong to find the operator that did it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any, Self

from tracker_adapters.emitter import Emitter

from debuggers.errors import DebuggerConfigError
from debuggers.first_non_finite import ReplayResult, replay_closure, replay_forward
from debuggers.forward_capture import ForwardCapture
from debuggers.isolation import describe
from debuggers.non_finite_origin import NonFiniteOrigin
from debuggers.non_finite_watch import NonFiniteWatch
from debuggers.torch_import import torch
from stability.config_checks import check_config
from stability.errors import StabilityConfigError
from stability.first_nan.output import FirstNaN, FirstNaNOutput
from stability.first_nan.replay_turns import ReplayTurns
from stability.results import NaNStats

_UNKNOWN = ("it is not known what differed",)
_log = logging.getLogger(__name__)


class FirstNaNFinder:
    """Names the operator that made the first NaN of a step, its line, its inputs, and the datapoints that trigger it.

    Give it to ``NumericalStabilityManager(find_first_nan=...)``. All the time it keeps a few statistics of each leaf
    module's output, and what the last forward pass started from. When a step's loss or gradients are not finite, and
    those of the step before were, that step is repeated once: by ``replay``, a function that returns the loss of the
    same batch, or without one from the last forward pass of the model, which cannot tell what happened in the loss.
    Nothing is changed by it; see ``debuggers.first_non_finite``.

    Where several forward passes make a step, the last one is repeated. Under data parallelism each rank at fault
    repeats its own step, without the others. A model that is sharded over processes is not repeated: the answer stops
    at the module.

    Attributes:
        datapoints: The dataset indices of the coming step's batch, row by row, if wanted; None after the step.
        found: The answers so far.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        *,
        history: int = 20,
        steps_between: int = 100,
        to_terminal: bool = True,
    ) -> None:
        """Sets its hooks.

        Args:
            model: The model, before or after it is wrapped for data parallelism; after ``torch.compile``, so that no
                hook is inside of its graph.
            history: How many steps' statistics of the module are kept and shown.
            steps_between: A step is repeated at most once in this many.
            to_terminal: Whether the answer is printed to standard error too.

        Raises:
            StabilityConfigError: When ``model`` is no model, or ``history`` or ``steps_between`` no positive integer.
        """
        check_config("model", model, torch.nn.Module)
        for name, value in (("history", history), ("steps_between", steps_between)):
            if not isinstance(value, int) or value < 1:
                raise StabilityConfigError(f"{name} is {value!r}; expected a positive number of steps")
        self.datapoints: Sequence[int] | None = None
        self.found: list[FirstNaN] = []
        self._model = model
        self._watch = NonFiniteWatch(model, history=history)
        self._capture = ForwardCapture(model)
        self._output = FirstNaNOutput(to_terminal=to_terminal)
        self._emitter: Emitter | None = None
        self._scaler: torch.amp.GradScaler | None = None
        self._turns = ReplayTurns(steps_between)

    def bind(self, emitter: Emitter | None, scaler: torch.amp.GradScaler | None) -> Self:
        """Says where the alert and the page go, and whose scale the gradients have in the backward pass."""
        self._emitter, self._scaler = emitter, scaler
        return self

    def look(
        self, step: int, loss: torch.Tensor | float, stats: NaNStats, replay: Callable[[], Any] | None = None
    ) -> FirstNaN | None:
        """Takes a step, after its backward pass; finds out where its NaN come from when it is the first faulty one.

        Args:
            step: Its number.
            loss: Its loss.
            stats: What is not finite; the answer is put in as ``first_nan``. A step that a GradScaler skips of its own
                accord is not repeated.
            replay: Returns the loss of the same batch, or the outputs; it may call backward.

        Returns:
            The answer; None when there was no question.
        """
        try:
            faulty = not (stats["loss_finite"] and stats["gradients_finite"]) and not stats["scaler_step"]
            if not self._turns.is_due(step, faulty=faulty and _is_ours(stats["ranks"])):
                return None
            answer = self._find(step, loss, stats, replay)
            self.found.append(answer)
            stats["first_nan"] = answer.as_dict()
            self._output.tell(answer, self._emitter)
            return answer
        finally:
            self._watch.end_step(step)
            self._capture.release()
            self.datapoints = None

    def close(self) -> None:
        """Removes the hooks; calling it again does nothing."""
        self._watch.close()
        self._capture.close()
        self._output.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _find(
        self,
        step: int,
        loss: torch.Tensor | float,
        stats: NaNStats,
        replay: Callable[[], Any] | None,
    ) -> FirstNaN:
        seen = self._watch.first_non_finite()
        try:
            result = self._replay(loss, stats, replay)
            if result.origin is None and seen is not None:
                result = ReplayResult(None, ("the replay was finite", *(result.notes or _UNKNOWN)))
        except DebuggerConfigError as error:
            result = ReplayResult(None, (f"not replayed: {error}",))
        except Exception as error:
            _log.exception("the replay of step %d failed", step)
            result = ReplayResult(None, (f"the replay failed: {describe(error)}",))
        origin = None if result.origin is None else result.origin.with_datapoints(self.datapoints)
        if origin is None and seen is not None:
            origin = NonFiniteOrigin(
                module=seen,
                suggestion="its output was the first that was not finite; the operator is not known",
                notes=result.notes,
            )
        module = None if origin is None else origin.module
        recorded = [] if module is None else self._watch.history(module)
        return FirstNaN(step=step, origin=origin, seen_first=seen, history=tuple(recorded), notes=result.notes)

    def _replay(
        self,
        loss: torch.Tensor | float,
        stats: NaNStats,
        replay: Callable[[], Any] | None,
    ) -> ReplayResult:
        start, scaler = self._capture.start, self._scaler
        if replay is not None:
            scale = scaler.get_scale() if scaler is not None and scaler.is_enabled() else 1.0
            return replay_closure(self._model, replay, start=start, scale=scale)
        if start is None:
            raise DebuggerConfigError("no forward pass with gradients was seen since the last step")
        tensor = loss if isinstance(loss, torch.Tensor) else None
        return replay_forward(self._model, start, loss=tensor, loss_is_finite=stats["loss_finite"])


def _is_ours(ranks: list[int]) -> bool:
    """Whether this rank is among those at fault; without an agreement between ranks each answers for itself."""
    distributed = torch.distributed
    if not ranks or not (distributed.is_available() and distributed.is_initialized()):
        return True
    return distributed.get_rank() in ranks
