"""What a loop does with its gradients, as clipping: compares them after the backward pass, and when a step begins."""

import math
from collections.abc import Sequence
from functools import partial

import numpy as np

from debuggers.gradients.element_samples import sample_all, sample_elements
from debuggers.gradients.step_probe import probe_gradients
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.signals.deferred_values import DeferredElements, cosine
from debuggers.signals.signal_log import SignalLog
from debuggers.torch_import import torch

CLIPPED = 0.999
"""Below this share of its norm a gradient counts as clipped: less is left to rounding."""
TURNED = 0.9
"""Below this cosine with what they were, gradients have another direction: a norm that is limited leaves it."""


class _Moment:
    """Gradients of one moment: their norm, without a loss scale, and a few elements of each."""

    __slots__ = ("elements", "norm")

    def __init__(self, gradients: Sequence[torch.Tensor], scale: torch.Tensor | None) -> None:
        self.norm = probe_gradients(gradients, scale)
        with quiet_computation("cpu"):
            together = sample_all(gradients)
            samples = [] if together is not None else [sample_elements(one) for one in gradients]
            known = [sample for sample in samples if sample is not None]
            has_any = together is not None or bool(known)
            self.elements = DeferredElements(known if together is None else together) if has_any else None

    def ready(self) -> bool:
        return self.norm.ready() and (self.elements is None or self.elements.ready())

    def cosine(self, other: "_Moment") -> float:
        """With gradients of another moment; NaN where one of the two is zero, and where they are of others."""
        if self.elements is None or other.elements is None:
            return math.nan
        mine, theirs = self.elements.resolve(), other.elements.resolve()
        with np.errstate(all="ignore"):
            return cosine(mine, theirs) if len(mine) == len(theirs) else math.nan


class _Pair:
    __slots__ = ("after", "before")

    def __init__(self, before: _Moment, after: _Moment) -> None:
        self.before, self.after = before, after

    def ready(self) -> bool:
        return self.before.ready() and self.after.ready()


class ClippingSignals:
    """Compares the gradients of the two moments at sampled steps."""

    def __init__(self, log: SignalLog, arrivals: ArrivalQueue) -> None:
        self._log, self._arrivals = log, arrivals
        self.forget()

    def forget(self) -> None:
        """Drops what was seen since the last step."""
        self._before: _Moment | None = None
        self._after: _Moment | None = None

    def see_backward(self, gradients: Sequence[torch.Tensor], scale: torch.Tensor | None) -> None:
        """Takes the gradients when a backward pass has ended; the last one of a step counts."""
        has_values = bool(gradients) and not gradients[0].is_meta
        self._before = _Moment(gradients, scale) if has_values else None

    def see_optimizer(self, gradients: Sequence[torch.Tensor], scale: torch.Tensor | None) -> None:
        """Takes them when the optimizer begins."""
        if self._before is not None and gradients:
            self._after = _Moment(gradients, scale)

    def end_step(self, step: int) -> None:
        """Ends a step whose update was made."""
        if self._before is not None and self._after is not None:
            pair = _Pair(self._before, self._after)
            self._arrivals.push(pair, partial(self._take, step, pair))
        self.forget()

    def _take(self, step: int, pair: _Pair) -> None:
        before, after = pair.before.norm.resolve(), pair.after.norm.resolve()
        if after.total_norm < CLIPPED * before.total_norm:
            self._log.put(step, {"unclipped_norm": before.total_norm, "clipped_norm": after.total_norm})
        turned = pair.before.cosine(pair.after)
        if turned < TURNED:
            self._log.put(step, {"turned_cosine": turned})
