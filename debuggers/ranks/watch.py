"""Watches one of several ranks: what it records, and that it lives; in a training on one rank, nothing."""

from collections.abc import Sequence

from tracker_adapters.emitter import Emitter

from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.ranks.heartbeat import Heartbeat, hang_seconds
from debuggers.ranks.placement import is_one_of_several
from debuggers.ranks.recorder import RankRecorder
from debuggers.torch_import import torch


class RankWatch:
    """Decides at the session's start, and once more at its first step, whether there are other ranks."""

    def __init__(
        self, model: torch.nn.Module, emitter: Emitter | None, *, isolation: Isolation, stopwatch: Stopwatch
    ) -> None:
        """Without an emitter nothing is recorded."""
        self._model, self._emitter = model, emitter
        self._isolation, self._stopwatch = isolation, stopwatch
        self._recorder: RankRecorder | None = None
        self._heartbeat: Heartbeat | None = None
        self._has_stepped = False

    def begin(self) -> None:
        """Begins to say that the rank lives."""
        if self._emitter is not None and self._heartbeat is None and not self._has_stepped and is_one_of_several():
            with self._isolation.guard("watching ranks"):
                self._heartbeat = Heartbeat(self._emitter, hang_seconds())

    def step(self, step: int, batch: torch.Tensor | None, begun: Sequence[float | None]) -> None:
        """Takes a step; see ``RankRecorder.step``."""
        if not self._has_stepped:
            self.begin()
            self._has_stepped = True
            if self._emitter is not None and is_one_of_several():
                with self._isolation.guard("watching ranks"):
                    self._recorder = RankRecorder(self._model, self._emitter)
        if self._recorder is not None:
            with self._isolation.guard("watching ranks"):
                self._recorder.step(step, batch, begun)
        if self._heartbeat is not None:
            self._heartbeat.step(step)

    def after_step(self) -> None:
        """Says that the optimizer has stepped."""
        if self._recorder is not None:
            self._recorder.after_step()

    def pause(self) -> None:
        """Says that something else than training takes time now."""
        if self._recorder is not None:
            self._recorder.pause()
        if self._heartbeat is not None:
            self._heartbeat.pause()

    def close(self) -> None:
        """Ends; waits for the device."""
        if self._heartbeat is not None:
            self._heartbeat.close()
        if self._recorder is not None:
            with self._stopwatch, self._isolation.guard("watching ranks"):
                self._recorder.close()
