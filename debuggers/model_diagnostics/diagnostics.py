"""Takes what a loop records about its model, keeps a bounded part of it, and judges it."""

import threading
from typing import Any

from debuggers.errors import ArgumentTypeError
from debuggers.instrumentation.compiled_code import methods_between_graphs
from debuggers.instrumentation.model_replay import plain_model
from debuggers.model_diagnostics.architecture import architecture_of, count_flops
from debuggers.model_diagnostics.dynamics import TrainingDynamics, dynamics_of
from debuggers.model_diagnostics.health import health_score, recommendations_for
from debuggers.model_diagnostics.records import ModelArchitectureInfo, ModelPerformanceMetrics
from debuggers.torch_import import torch

MAX_RECORDS = 4096
"""Most records that are kept; when there are more, every second one goes, and of what follows as many are left out."""


@methods_between_graphs
class ModelDiagnostics:
    """The architecture of a model, and the course of its training by recorded metrics; in constant memory.

    ::

        session.model_diagnostics.record_performance(ModelPerformanceMetrics(training_step=100, loss=0.5))
        print(session.model_diagnostics.training_dynamics().convergence)

    Records are kept evenly over the whole training: all up to 4096, then every second, every fourth, and so on.
    Methods may be called from any thread.

    Attributes:
        recorded: Calls of ``record_performance``.
    """

    def __init__(self, model: torch.nn.Module | None = None, *, enabled: bool = True) -> None:
        """Takes the model whose architecture is read when it is asked for, if there is one, and whether it may run."""
        self.recorded = 0
        self._enabled = enabled
        self._model = model
        self._architecture: ModelArchitectureInfo | None = None
        self._records: list[ModelPerformanceMetrics] = []
        self._every = 1
        self._non_finite = 0
        self._lock = threading.Lock()

    def record_architecture(self, architecture: ModelArchitectureInfo) -> None:
        """Takes the architecture as told, in place of what the model says.

        Raises:
            ArgumentTypeError: For anything else.
        """
        _check_type(architecture, ModelArchitectureInfo)
        self._architecture = architecture

    def architecture(self) -> ModelArchitectureInfo | None:
        """Returns the architecture as recorded, else as read from the session's model; None without either."""
        if self._architecture is not None or self._model is None:
            return self._architecture
        return architecture_of(plain_model(self._model))

    def flops(self, *inputs: Any) -> int:
        """Returns the floating-point operations of one forward pass of the model on these inputs; see ``count_flops``.

        In a session that ``STEPSCOPE_DISABLED`` switches off, 0.

        Raises:
            ArgumentTypeError: In a session without a model.
        """
        if not self._enabled:
            return 0
        if self._model is None:
            raise ArgumentTypeError("model diagnostics: the session has no model whose operations could be counted")
        return count_flops(self._model, *inputs)

    def record_performance(self, metrics: ModelPerformanceMetrics) -> None:
        """Takes the metrics of a step.

        Raises:
            ArgumentTypeError: For anything else.
        """
        _check_type(metrics, ModelPerformanceMetrics)
        with self._lock:
            if self.recorded % self._every == 0:
                self._records.append(metrics)
            self.recorded += 1
            self._non_finite += not -float("inf") < metrics.loss < float("inf")
            if len(self._records) > MAX_RECORDS:
                del self._records[1::2]
                self._every *= 2

    @property
    def records(self) -> tuple[ModelPerformanceMetrics, ...]:
        """The records that were kept, in their order."""
        with self._lock:
            return tuple(self._records)

    def training_dynamics(self) -> TrainingDynamics:
        """Returns how the training goes, from the kept records; ``non_finite`` counts all records."""
        with self._lock:
            records, share = tuple(self._records), self._non_finite / self.recorded if self.recorded else None
        return dynamics_of(records, non_finite=share)

    def health_score(self) -> float | None:
        """Returns the health of the training, from 0 to 1; None while too little is recorded. See ``health_parts``."""
        return health_score(self.training_dynamics())

    def recommendations(self) -> tuple[str, ...]:
        """Returns what to look at, the heaviest first."""
        return recommendations_for(self.training_dynamics())


def _check_type(value: object, kind: type) -> None:
    if not isinstance(value, kind):
        raise ArgumentTypeError(f"model diagnostics: got {type(value).__name__}; expected a {kind.__name__}")
