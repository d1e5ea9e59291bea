"""Calls without gradients after a step: how sure a model is of rows that it is not trained on, and their loss."""

import time
from dataclasses import dataclass
from functools import partial

from debuggers.host_arrays.graph_capture import is_capturing
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.measurement.arrival_queue import ArrivalQueue
from debuggers.signals.agreement import mean_entropy
from debuggers.signals.batch_memory import BatchMemory
from debuggers.signals.batch_statistics import sampled_positions
from debuggers.signals.deferred_values import DeferredValues
from debuggers.signals.sampling import usable
from debuggers.signals.signal_log import SignalLog
from debuggers.torch_import import torch

EVALUATED_EVERY = 5
"""Steps at least between two calls without gradients that are looked at: a teacher is called at each."""
_LIKELIHOODS = {"cross_entropy", "nll"}
"""One is the other of a model that ends in a log-softmax."""


class EvaluationSignals:
    """Describes what a model puts out without gradients between two steps.

    Attributes:
        loss_kind: That of the training's loss; ``""`` as long as it is not known.
    """

    def __init__(self, log: SignalLog, arrivals: ArrivalQueue, memory: BatchMemory) -> None:
        self._log, self._arrivals, self._memory = log, arrivals, memory
        self.loss_kind = ""
        self._evaluated = -EVALUATED_EVERY
        self._evaluation = _Evaluation()

    def see(self, step: int, outputs: torch.Tensor) -> None:
        """Takes outputs for inputs that are not trained on at a step, if they are the logits of classes."""
        is_wanted = self.loss_kind == "cross_entropy" and step >= self._evaluated + EVALUATED_EVERY
        values = usable(outputs) if is_wanted else None
        if values is None or values.ndim != 2 or values.shape[1] < 2 or is_capturing():
            return
        self._evaluated = step
        with quiet_computation(values.device.type):
            deferred = DeferredValues({"evaluation/entropy": mean_entropy(sampled_positions(values))})
        self._arrivals.push(deferred, partial(self._take, step, time.time_ns(), deferred))

    def see_loss(self, step: int, kind: str, mean: torch.Tensor, rows: int, numbers: torch.Tensor) -> None:
        """Takes the mean loss of a call without gradients after a step, if it is of the training's kind.

        ``evaluation/loss`` is the mean over the rows of all calls up to the next step but those of rows that were
        trained on, which ``numbers`` tell; see ``numbers_of_rows``.
        """
        alike = kind == self.loss_kind or {kind, self.loss_kind} == _LIKELIHOODS
        if not alike or is_capturing():
            return
        with quiet_computation(mean.device.type):
            deferred = DeferredValues({"loss": mean.reshape(()), "numbers": numbers})
        self._arrivals.push(deferred, partial(self._take_loss, step, time.time_ns(), rows, deferred))

    def end(self) -> None:
        """Keeps and emits the loss of the calls since the last step."""
        known, self._evaluation = self._evaluation, _Evaluation()
        if known.rows:
            self._log.put(known.step, {"evaluation/loss": known.total / known.rows}, known.time_ns)

    def _take(self, step: int, time_ns: int, deferred: DeferredValues) -> None:
        self._log.put(step, {name: float(value) for name, value in deferred.resolve().items()}, time_ns)

    def _take_loss(self, step: int, time_ns: int, rows: int, deferred: DeferredValues) -> None:
        values = deferred.resolve()
        if step != self._evaluation.step:
            self.end()
        if not self._memory.were_trained_on(values["numbers"]):
            self._evaluation.add(step, time_ns, float(values["loss"]), rows)


@dataclass(slots=True)
class _Evaluation:
    """The calls without gradients after one step: the sum of their losses over their rows."""

    step: int = -1
    time_ns: int = 0
    total: float = 0.0
    rows: int = 0

    def add(self, step: int, time_ns: int, mean: float, rows: int) -> None:
        self.step, self.time_ns = step, time_ns
        self.total += mean * rows
        self.rows += rows
