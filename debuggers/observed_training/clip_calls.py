"""Tells when a training clips by ``torch.nn.utils.clip_grad_norm_``: without a scale, in time, and from which norm."""

import logging
import math
import sys
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from debuggers.gradients.loss_scale import scale_in_gradients
from debuggers.gradients.step_probe import PendingReading, known_norm
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.observed_training.invariants import InvariantLog
from debuggers.observed_training.step_passes import StepPasses
from debuggers.torch_import import torch
from debuggers.torch_internals.clip_entry import ClipEntry, current_clip_entry, norm_order, replace_clip_entry
from debuggers.torch_internals.graph_nodes import number_on_host

OnClip: TypeAlias = Callable[[Sequence[Any], float, Any], None]
"""Called before gradients are clipped, with the parameters, the largest norm, and the Euclidean norm that torch has
computed; None if it is of another order, or somebody else has computed it."""

_INNER = "_stepscope_inner"
_log = logging.getLogger(__name__)
_changing = threading.RLock()
_observers: tuple["ClipObservation", ...] = ()


class ClipObservation:
    """Calls a function at each clipping of the process until ``remove``.

    While there is one, torch calls a function of this module that changes nothing of the clipping. Code that
    ``torch.compile`` compiles traces through it, and its clippings are not seen. After the last one torch has its own
    again. If somebody else has put theirs around ours meanwhile, ours stays inside and only passes on.
    """

    __slots__ = ("on_clip",)

    def __init__(self, on_clip: OnClip) -> None:
        self.on_clip = on_clip
        global _observers
        with _changing:
            _observers = (*_observers, self)
            inner = current_clip_entry()
            if inner is not None and not hasattr(inner, _INNER):
                replace_clip_entry(_observed(inner))

    def remove(self) -> None:
        """Ends it; calling it again does nothing."""
        global _observers
        with _changing:
            _observers = tuple(other for other in _observers if other is not self)
            inner = getattr(current_clip_entry(), _INNER, None)
            if not _observers and inner is not None:
                replace_clip_entry(inner)


def _observed(inner: ClipEntry) -> ClipEntry:
    # A function, and no object that is called: torch.compile goes through it also where a graph must be whole.
    def clip(parameters: Any, *arguments: Any, **keywords: Any) -> Any:
        if not torch.compiler.is_compiling():
            _tell(norm_order(sys._getframe(1)), parameters, *arguments, **keywords)
        return inner(parameters, *arguments, **keywords)

    setattr(clip, _INNER, inner)
    return clip


def _tell(
    order: float | None,
    parameters: Any,
    max_norm: Any = None,
    total_norm: Any = None,
    *arguments: Any,
    **keywords: Any,
) -> None:
    # What can be gone through only once is left to the clipping; torch has made a list of it before.
    known = (parameters,) if isinstance(parameters, torch.Tensor) else parameters
    if not isinstance(known, (list, tuple)):
        return
    for observer in _observers:
        try:
            observer.on_clip(known, float(max_norm), total_norm if order == 2.0 else None)
        except Exception:  # nothing of ours may stop a training
            _log.exception("the clipping of gradients could not be observed")


def _may_have_gradients(parameter: Any) -> bool:
    """Whether it has a gradient, or is none that could be asked for it."""
    return not getattr(parameter, "is_leaf", False) or parameter.grad is not None


class Clippings:
    """Enters invariants at each clipping by ``clip_grad_norm_``, with a limit, of gradients of the model.

    It keeps the norm of all gradients before the clipping, too, which torch has computed for that.

    ``clipped_after_backward``: a backward pass has come since the optimizer's last step. Before it there is nothing to
    limit yet, and after the step it is too late. ``clipped_gradients_exist``: what is clipped is the model's, or has
    gradients at least, as another model's have. ``clipped_after_unscaling``, in the step of a scaled loss: a limit on
    the norm of scaled gradients is one on the others that is smaller by the scale, and changes with it.
    """

    def __init__(
        self,
        passes: StepPasses,
        optimizer: torch.optim.Optimizer | None,
        parameters: Sequence[torch.Tensor],
        known: Sequence[torch.Tensor],
        *,
        isolation: Isolation,
        stopwatch: Stopwatch,
        step: Callable[[], int],
        invariants: InvariantLog,
    ) -> None:
        """Takes whose clipping is meant, all parameters of the model, and what returns the coming step's number."""
        self._passes, self._optimizer = passes, optimizer
        self._parameters, self._known = frozenset(map(id, parameters)), frozenset(map(id, known))
        self._last_ids: list[int] = []
        self._is_whole = False
        self._norm: tuple[int, float | PendingReading | None] | None = None
        """The norm before the first clipping since the last backward pass, and the passes until then."""
        self._isolation, self._stopwatch = isolation, stopwatch
        self._step, self._invariants = step, invariants
        self._observation: ClipObservation | None = None

    def start(self) -> None:
        """Observes clippings from now on."""
        if self._observation is None:
            self._observation = ClipObservation(self._see)

    def stop(self) -> None:
        """Observes none any more."""
        if self._observation is not None:
            self._observation.remove()
            self._observation = None
        self._norm = None

    def take_norm(self) -> float | PendingReading | None:
        """Returns the norm of all gradients of the coming step before it was clipped, once; None where none is known.

        It is without a loss scale, and may still be on a device.
        """
        noted, self._norm = self._norm, None
        return None if noted is None or noted[0] != self._passes.passes else noted[1]

    def _see(self, parameters: Sequence[Any], max_norm: float, total_norm: Any) -> None:
        with self._stopwatch, self._isolation.guard("watching the clipping of gradients"):
            passes = self._passes
            if not math.isfinite(max_norm):
                return
            is_trained = any(id(one) in self._parameters for one in parameters)
            if is_trained or not any(id(one) in self._known or _may_have_gradients(one) for one in parameters):
                where = f"clip_grad_norm_ with max_norm={max_norm:g}{'' if parameters else ' and no parameters'}"
                where = "" if is_trained else where
                self._invariants.check("clipped_gradients_exist", self._step(), broken=not is_trained, where=where)
            if not is_trained:
                return
            if passes.are_seen:
                self._invariants.check("clipped_after_backward", self._step(), broken=not passes.passes)
            if not passes.passes:
                return
            broken = False
            if passes.is_scaled:
                scale = scale_in_gradients(passes.scaler, self._optimizer)
                broken = scale is not None and number_on_host(scale) != 1.0
                where = f"clip_grad_norm_ with max_norm={max_norm:g}" if broken else ""
                self._invariants.check("clipped_after_unscaling", self._step(), broken=broken, where=where)
            if self._norm is None or self._norm[0] != passes.passes:
                is_known = total_norm is not None and not broken and self._are_all(parameters)
                self._norm = passes.passes, known_norm(total_norm, parameters) if is_known else None

    def _are_all(self, parameters: Sequence[Any]) -> bool:
        """Whether these are all that are trained, and none of another model."""
        ids = list(map(id, parameters))
        if ids != self._last_ids:
            self._last_ids, self._is_whole = ids, self._parameters <= set(ids) <= self._known
        return self._is_whole
