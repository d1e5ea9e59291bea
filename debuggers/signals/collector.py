"""Collects the signals of a training, told by a session what happens when."""

import time
from collections.abc import Mapping
from functools import partial
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.diagnosis.series import Series
from debuggers.gradients.loss_scale import scale_in_gradients
from debuggers.gradients.parameters import Parameters
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.joined_optimizers import learning_rates, rounds_of
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.measurement.summary_table import SummaryTable
from debuggers.signals.batch import NON_FINITE_INPUTS, BatchSignals
from debuggers.signals.clipping import ClippingSignals
from debuggers.signals.deferred_values import DeferredValues
from debuggers.signals.judge import SignalJudge
from debuggers.signals.layers import LayerSignals
from debuggers.signals.machine import DataTime, memory_mb
from debuggers.signals.parameters import ParameterSignals
from debuggers.signals.passes import ModelPasses
from debuggers.signals.sampled_steps import is_sampled
from debuggers.signals.signal_log import SignalLog
from debuggers.signals.unit_similarity import unit_similarities
from debuggers.torch_import import torch
from debuggers.torch_internals.grad_scaler import scale_of
from debuggers.torch_internals.optimizers import held_parameters

_SIMILARITY = "unit_similarity"
_MOST_GROUPS = 16
"""Groups of the optimizer whose learning rates are kept."""


class Signals:
    """Collects what ``debuggers.diagnosis.signals`` lists.

    Model and optimizer are hooked only during sampled steps. Nothing waits for a device before ``series``. Failures
    inside are isolated.

    Attributes:
        is_sampled: Whether the coming step is sampled.
    """

    def __init__(
        self,
        model: torch.nn.Module,
        optimizer: torch.optim.Optimizer | None,
        emitter: Emitter | None,
        scaler: torch.amp.GradScaler | None,
        *,
        isolation: Isolation,
        stopwatch: Stopwatch,
        judge: SignalJudge | None = None,
    ) -> None:
        self._scaler = scaler
        self._optimizer = optimizer
        self._isolation, self._stopwatch = isolation, stopwatch
        self._arrivals = ArrivalQueue()
        self._log = SignalLog(emitter, judge)
        self._parameters = Parameters(model, optimizer)
        self._batch = BatchSignals(self._log, self._arrivals)
        self._weights = ParameterSignals(self._log, self._arrivals)
        self._layers = LayerSignals(model, self._log, self._arrivals, isolation, stopwatch)
        self._passes = ModelPasses(
            model, self._batch, isolation, stopwatch, on_begin=self._layers.begin_pass, on_end=self._layers.end_pass
        )
        self._clipping = ClippingSignals(self._log, self._arrivals)
        self._data_time = DataTime()
        self._last_step = -1
        self._rounds = rounds_of(optimizer)
        self._before_hooks = Hooks()
        self._was_sampled = False
        self._passes_backward = 0
        self._count = 0
        self.is_sampled = is_sampled(0)

    @property
    def scaler(self) -> torch.amp.GradScaler | None:
        """The loop's GradScaler, if known."""
        return self._scaler

    @scaler.setter
    def scaler(self, scaler: torch.amp.GradScaler) -> None:
        self._scaler = scaler
        self._clipping.forget()  # the norm after the backward pass was one of scaled gradients

    def expect(self) -> None:
        """Prepares for the forward pass of the coming step; what was seen and led to no step is dropped."""
        if self.is_sampled:
            self._batch.forget()
            self._layers.forget()
            self._layers.attach()  # before the passes: a layer that a loop calls itself ends a pass, too
            self._passes.attach()

    def pause(self) -> None:
        """Takes all hooks away, until ``expect``."""
        self.judge_noted()
        self._before_hooks.remove()
        self._clipping.forget()
        self._passes.detach()
        self._layers.detach()
        self._batch.forget()
        self._layers.forget()
        self._data_time.forget()

    def batch(self, **seen: Any) -> None:
        """Takes what is seen of the coming step; see ``BatchSignals.see``. At steps that are not sampled: nothing."""
        if self.is_sampled:
            with self._stopwatch, self._isolation.guard("looking at a batch"):
                self._batch.see(**seen)

    @property
    def constant_loss(self) -> float | None:
        """What a constant output's loss is, NaN where that is not known; None before the first batch."""
        return self._batch.constant_loss

    def broken_batch(self, step: int, count: int) -> None:
        """Takes how many inputs of a call not sampled were NaN or infinite, at a step whose loss is not finite.

        That may be the coming step, whose statistics add them up if it is sampled, or the one that has just ended.
        """
        if self.is_sampled and step > self._last_step:
            self._batch.add_non_finite(count)
        else:
            self._log.put(step, {NON_FINITE_INPUTS: float(count)})

    def evaluation(self, step: int, outputs: torch.Tensor) -> None:
        """Takes the outputs of a call without gradients after a step, where those of a training are logits."""
        self._batch.evaluations.see(step, outputs)

    def evaluation_loss(self, step: int, kind: str, mean: torch.Tensor, rows: int, numbers: torch.Tensor) -> None:
        """Takes the mean loss of a call without gradients after a step; see ``EvaluationSignals.see_loss``."""
        self._batch.evaluations.see_loss(step, kind, mean, rows, numbers)

    def backward_ends(self) -> None:
        """Says that a backward pass of the training has ended."""
        self._passes_backward += 1
        if self.is_sampled:
            with self._stopwatch, self._isolation.guard("collecting signals"):
                scale = None if self._scaler is None or not self._scaler.is_enabled() else scale_of(self._scaler)
                if self._rounds is not None and self._rounds.is_open:
                    self._clipping.forget()  # gradients of the round are of several passes
                else:
                    self._clipping.see_backward(self._parameters.gradients().tensors, scale)
                if self._optimizer is not None and not len(self._before_hooks):
                    self._before_hooks.add_before_each_step(self._optimizer, self._before_early_step)
                    self._before_hooks.add_optimizer_pre_step(self._optimizer, self._before_step)

    def step(
        self, step: int, loss: torch.Tensor | float | None, table: SummaryTable | None, *, waits: bool = False
    ) -> None:
        """Takes a step, after its backward passes and before the optimizer changes the weights.

        Args:
            step: The training step.
            loss: Its loss.
            table: The summaries of the gradients, in the model's order, if they are known on the host.
            waits: Whether loss and batch come with ``complete``.
        """
        with self._isolation.guard("collecting signals"):  # its time is the session's
            if not waits:
                self._note_loss(step, loss)
            self._note_rates(step)
            count, self._count = self._count, self._count + 1
            sampled, self.is_sampled = self.is_sampled, is_sampled(count + 1)
            follows_sampled, self._was_sampled = self._was_sampled, sampled
            self._last_step = step
            if sampled:
                self._data_time.begin(None if self._passes.ran_others else self._passes.begun_s)
                self._passes.detach()
                self._layers.detach()
                if waits:
                    self._batch.wait(step)
                else:
                    self._batch.end_step(step)
                self._layers.end_step(step)
                self._see_rest(step)
            self._passes_backward = 0
            if sampled or follows_sampled:
                self._see_parameters(step, count, table, sampled=sampled)
            self._log.step_ends()

    def complete(self, step: int, loss: torch.Tensor | float | None, told: Mapping[str, Any]) -> None:
        """Ends a step that waited: takes its loss, and what the loop told of its batch."""
        with self._isolation.guard("collecting signals"):
            self._note_loss(step, loss)
            self._batch.complete(told)

    def spent_after_step(self, seconds: float) -> None:
        """Says that measuring took so long between the end of a step and the next forward pass."""
        self._data_time.leave_out(seconds)

    def _note_loss(self, step: int, loss: torch.Tensor | float | None) -> None:
        if type(loss) is float:
            self._log.note(step, "loss", loss)
        elif loss is not None:
            self.note_later(step, "loss", loss)

    def after_step(self) -> None:
        """Says that the optimizer has stepped."""
        if not (self._was_sampled or self.is_sampled):
            self._data_time.pass_by()
            return
        with self._stopwatch, self._isolation.guard("collecting signals"):
            if self._was_sampled:
                self._before_hooks.remove()
                self._weights.see_update()
                self._clipping.end_step(self._last_step)
            share = self._data_time.end(self._stopwatch.seconds)
            if share is not None:
                self._log.put(self._last_step, {"data_share": share})

    def note_later(self, step: int, name: str, value: torch.Tensor | float) -> None:
        """Keeps a number of a step that is emitted elsewhere: a tensor of one element may still be on a device."""
        if not isinstance(value, torch.Tensor):
            self._log.note(step, name, float(value))
        elif value.is_cpu:
            self._log.note(step, name, float(value.detach()))
        else:
            deferred = DeferredValues({name: value.detach().reshape(())})
            self._arrivals.push(deferred, lambda: self._log.note(step, name, float(deferred.resolve()[name])))

    def note(self, step: int, name: str, value: float) -> None:
        """Keeps a number of a step that is emitted elsewhere."""
        self._log.note(step, name, value)

    def judge_noted(self) -> None:
        """Hands what was noted to the rules, which else may see it up to 50 ms later."""
        with self._isolation.guard("collecting signals"):
            self._log.judge_noted()

    def start_over(self) -> None:
        """Says that what ran since the last step belongs to none: it was skipped, or a closure's later calls."""
        if self._passes.begun_s is not None:
            self.expect()

    def series(self) -> dict[str, Series]:
        """Returns the signals of steps so far; waits for the device."""
        self.drain()
        return self._log.series()

    def tensors(self) -> dict[str, dict[str, Series]]:
        """Returns the signals of tensors so far; waits for the device."""
        self.drain()
        return self._log.tensors()

    @property
    def unseen_layers(self) -> tuple[list[str], int]:
        """Layers that were called in no sampled step, and how many there are; nothing before the first such step."""
        return self._layers.unseen if self._count else ([], 0)

    @property
    def called_layers(self) -> tuple[str, ...]:
        """See ``LayerSignals.called``."""
        return self._layers.called

    @property
    def without_gradients(self) -> list[str]:
        """See ``LayerSignals.without_gradients``."""
        return self._layers.without_gradients

    def drain(self) -> None:
        """Takes what is on its way; waits for the device."""
        with self._stopwatch, self._isolation.guard("waiting for the device"):
            self._arrivals.drain()
            self._batch.evaluations.end()
        self.judge_noted()

    def close(self) -> None:
        """Removes every hook, and takes what is on its way; waits for the device. A second call does nothing."""
        with self._isolation.guard("looking at the last batch"):
            self._batch.end_without_step(self._last_step + 1 if self._count else 0)
        self.pause()
        self._weights.end_step()
        self.drain()

    def _see_rest(self, step: int) -> None:
        """Takes what needs no hook: similar units, the loss scale, memory, backward passes."""
        named = dict(zip(self._parameters.names, self._parameters.tensors, strict=True))
        device = next((tensor.device for tensor in named.values()), None)
        found: dict[str, torch.Tensor | float] = dict(memory_mb(device))
        if self._passes_backward:
            found["backward_passes"] = float(self._passes_backward)
        scale = None if self.scaler is None or not self.scaler.is_enabled() else scale_of(self.scaler)
        if scale is not None:
            found["loss_scale"] = scale
        similar = unit_similarities(named)
        deferred = DeferredValues(found | {f"{_SIMILARITY}/{name}": value for name, value in similar.items()})
        self._arrivals.push(deferred, partial(self._take_rest, step, time.time_ns(), tuple(similar), deferred))

    def _take_rest(self, step: int, time_ns: int, names: tuple[str, ...], deferred: DeferredValues) -> None:
        values = {name: float(value) for name, value in deferred.resolve().items()}
        shares = [values.pop(f"{_SIMILARITY}/{name}") for name in names]
        self._log.put(step, values, time_ns)
        self._log.put_tensors(step, _SIMILARITY, names, shares, time_ns)

    def _note_rates(self, step: int) -> None:
        for name, rate in learning_rates(self._optimizer)[:_MOST_GROUPS]:
            if type(rate) is float:
                self._log.note(step, name, rate)
            else:
                self.note_later(step, name, rate)

    def _see_parameters(self, step: int, count: int, table: SummaryTable | None, *, sampled: bool) -> None:
        found = self._parameters.gradients()
        zeros = None
        if sampled and table is not None and len(table) == len(found.names):
            zeros = dict(zip(found.names, table.zero_fraction.tolist(), strict=True))
        if self._rounds is not None and self._rounds.is_open:
            found = found.of(self._rounds.steps_in)
        scale = scale_in_gradients(self.scaler, self._optimizer)
        self._weights.see(step, count, found, scale, zeros, sampled=sampled)

    def _before_step(self, optimizer: torch.optim.Optimizer) -> None:
        with self._stopwatch, self._isolation.guard("collecting signals"):
            scale = scale_in_gradients(self._scaler, self._optimizer)
            self._clipping.see_optimizer(self._parameters.gradients().tensors, scale)

    def _before_early_step(self, optimizer: torch.optim.Optimizer) -> None:
        if self.is_sampled:
            with self._stopwatch, self._isolation.guard("collecting signals"):
                self._weights.see_before(one for one in held_parameters(optimizer) if one.grad is not None)
