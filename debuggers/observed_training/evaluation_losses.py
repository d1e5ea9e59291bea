"""Learns the validation loss of a loop that tells none: what torch's losses make of outputs without gradients."""

import weakref
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from debuggers.instrumentation.isolation import Isolation
from debuggers.instrumentation.quiet_computation import quiet_computation
from debuggers.instrumentation.stopwatch import Stopwatch
from debuggers.observed_training.loss_calls import LossObservation
from debuggers.signals.batch_statistics import numbers_of_rows
from debuggers.signals.sampling import usable
from debuggers.torch_import import torch
from debuggers.torch_internals.autograd import is_in_transform
from debuggers.utils import tensors_in

_MOST_UNJUDGED = 32
"""Calls one after another whose outputs no loss of torch's judges, after which none is expected: of a policy, say."""


@dataclass(frozen=True, slots=True, eq=False)
class EvaluationLoss:
    """The loss of one call without gradients.

    Attributes:
        kind: As in ``LossFacts``.
        mean: A tensor of one element.
        rows: How many rows the call was given.
        numbers: By which at most 256 of these are known; see ``numbers_of_rows``.
    """

    kind: str
    mean: torch.Tensor
    rows: int
    numbers: torch.Tensor


OnEvaluation = Callable[[EvaluationLoss], None]


class EvaluationLosses:
    """Puts a loss beside the last call of the model without gradients: it judges as many elements as that put out.

    A call with the tensor that the training was given before it, as for a curve of the training itself, is left out.
    """

    def __init__(self, on_loss: OnEvaluation, isolation: Isolation, stopwatch: Stopwatch) -> None:
        """Observes nothing before ``start``."""
        self._on_loss, self._isolation, self._stopwatch = on_loss, isolation, stopwatch
        self._observation: LossObservation | None = None
        self._trained: weakref.ref[torch.Tensor] | None = None
        self._numbers: torch.Tensor | None = None
        self._rows = self._elements = self._unjudged = 0

    def start(self) -> None:
        """Observes losses from now on."""
        if self._observation is None:
            self._observation = LossObservation(self._see)

    def stop(self) -> None:
        """Observes none any more."""
        self._numbers = None
        if self._observation is not None:
            self._observation.remove()
            self._observation = None

    def training_begins(self, tensor: torch.Tensor | None) -> None:
        """Takes the first tensor that a training call is given; outputs of earlier calls are judged no more."""
        self._numbers = None
        self._trained = None if tensor is None else weakref.ref(tensor)

    def call_ends(self, arguments: Any, outputs: torch.Tensor | None) -> None:
        """Takes a call without gradients: its arguments, and the first floating-point tensor of its outputs."""
        self._numbers = None
        if outputs is None or self._unjudged >= _MOST_UNJUDGED:
            return
        given = [value for tensor in tensors_in(arguments) if (value := usable(tensor)) is not None and value.ndim]
        first = next(iter(tensors_in(arguments)), None)
        if not given or (self._trained is not None and self._trained() is first):
            return
        self._unjudged += 1
        with quiet_computation(outputs.device.type):
            self._numbers = numbers_of_rows([one for one in given if one.device == given[0].device])
        self._rows, self._elements = given[0].shape[0], outputs.numel()

    def _see(self, kind: str, outputs: torch.Tensor, mean: torch.Tensor) -> None:
        numbers, self._unjudged = self._numbers, 0
        if numbers is None or outputs.numel() != self._elements or is_in_transform(mean):
            return
        self._numbers = None
        with self._stopwatch, self._isolation.guard("looking at a loss of a validation"):
            self._on_loss(EvaluationLoss(kind, mean.detach(), self._rows, numbers))
