"""Whether a loop clips its gradients: their norm when the backward pass has ended, and when the optimizer begins."""

from collections.abc import Sequence
from functools import partial

from debuggers.gradients.step_probe import PendingReading, probe_gradients
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.signals.signal_log import SignalLog
from debuggers.torch_import import torch

CLIPPED = 0.999
"""Below this share of its norm a gradient counts as clipped: less is left to rounding."""


class _Pair:
    __slots__ = ("after", "before")

    def __init__(self, before: PendingReading, after: PendingReading) -> None:
        self.before, self.after = before, after

    def ready(self) -> bool:
        return self.before.ready() and self.after.ready()


class ClippingSignals:
    """Compares the two norms at sampled steps, both without a loss scale."""

    def __init__(self, log: SignalLog, arrivals: ArrivalQueue) -> None:
        self._log, self._arrivals = log, arrivals
        self.forget()

    def forget(self) -> None:
        """Drops what was seen since the last step."""
        self._before: PendingReading | None = None
        self._after: PendingReading | None = None

    def see_backward(self, gradients: Sequence[torch.Tensor], scale: torch.Tensor | None) -> None:
        """Takes the gradients when a backward pass has ended; the last one of a step counts."""
        has_values = bool(gradients) and not gradients[0].is_meta
        self._before = probe_gradients(gradients, scale) if has_values else None

    def see_optimizer(self, gradients: Sequence[torch.Tensor], scale: torch.Tensor | None) -> None:
        """Takes them when the optimizer begins."""
        if self._before is not None and gradients:
            self._after = probe_gradients(gradients, scale)

    def end_step(self, step: int) -> None:
        """Ends a step whose update was made."""
        if self._before is not None and self._after is not None:
            pair = _Pair(self._before, self._after)
            self._arrivals.push(pair, partial(self._take, step, pair))
        self.forget()

    def _take(self, step: int, pair: _Pair) -> None:
        before, after = pair.before.resolve(), pair.after.resolve()
        if after.total_norm < CLIPPED * before.total_norm:
            self._log.put(step, {"unclipped_norm": before.total_norm, "clipped_norm": after.total_norm})
