"""Tells when a training clips gradients by ``torch.nn.utils.clip_grad_norm_``: without their scale, and in time."""

import logging
import math
import threading
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from debuggers.gradients.loss_scale import scale_in_gradients
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.observed_training.graphs.graph_nodes import number_on_host
from debuggers.observed_training.invariants import InvariantLog
from debuggers.observed_training.step_passes import StepPasses
from debuggers.torch_import import torch
from debuggers.torch_internals.clip_entry import ClipEntry, current_clip_entry, replace_clip_entry

OnClip: TypeAlias = Callable[[Sequence[Any], float, Any], None]
"""Called before gradients are clipped, with the parameters, the largest norm, and the norm that torch has computed."""

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
            _tell(parameters, *arguments, **keywords)
        return inner(parameters, *arguments, **keywords)

    setattr(clip, _INNER, inner)
    return clip


def _tell(parameters: Any, max_norm: Any = None, total_norm: Any = None, *arguments: Any, **keywords: Any) -> None:
    # What can be gone through only once is left to the clipping; torch has made a list of it before.
    known = (parameters,) if isinstance(parameters, torch.Tensor) else parameters
    if not isinstance(known, (list, tuple)):
        return
    for observer in _observers:
        try:
            observer.on_clip(known, float(max_norm), total_norm)
        except Exception:  # nothing of ours may stop a training
            _log.exception("the clipping of gradients could not be observed")


class Clippings:
    """Enters two invariants at each clipping by ``clip_grad_norm_``, with a limit, of gradients of the model.

    ``clipped_after_backward``: a backward pass has come since the optimizer's last step. Before it there is nothing to
    limit yet, and after the step it is too late. ``clipped_after_unscaling``, in the step of a scaled loss: a limit on
    the norm of scaled gradients is one on the others that is smaller by the scale, and changes with it.
    """

    def __init__(
        self,
        passes: StepPasses,
        optimizer: torch.optim.Optimizer | None,
        parameters: Sequence[torch.Tensor],
        *,
        isolation: Isolation,
        stopwatch: Stopwatch,
        step: Callable[[], int],
        invariants: InvariantLog,
    ) -> None:
        """Takes whose clipping is meant, and what returns the number of the coming step."""
        self._passes, self._optimizer = passes, optimizer
        self._parameters = frozenset(map(id, parameters))
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

    def _see(self, parameters: Sequence[Any], max_norm: float, total_norm: Any) -> None:
        with self._stopwatch, self._isolation.guard("watching the clipping of gradients"):
            passes = self._passes
            if not math.isfinite(max_norm) or not any(id(one) in self._parameters for one in parameters):
                return
            if passes.are_seen:
                self._invariants.check("clipped_after_backward", self._step(), broken=not passes.passes)
            if not (passes.is_scaled and passes.passes):
                return
            scale = scale_in_gradients(passes.scaler, self._optimizer)
            broken = scale is not None and number_on_host(scale) != 1.0
            where = f"clip_grad_norm_ with max_norm={max_norm:g}" if broken else ""
            self._invariants.check("clipped_after_unscaling", self._step(), broken=broken, where=where)
