"""torchtitan: a logger that also watches; see docs/frameworks/torchtitan.md."""

from __future__ import annotations

import weakref
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.gradients.unclipped_norm import UNCLIPPED
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.integrations.frameworks import imported_for
from stepscope.integrations.parts import parts_of
from stepscope.integrations.watched_training import warn_of_second
from stepscope.integrations.watcher import Watcher

with imported_for("torchtitan"):
    from torchtitan.components.metrics import BaseLogger, LoggerContainer, MetricsProcessor

_METRICS = {"grad_norm": UNCLIPPED, "loss_metrics/global_avg_loss": "logged/loss"}
_VALIDATION = "validation_metrics/"
_attached_to: weakref.WeakSet[MetricsProcessor] = weakref.WeakSet()


class StepscopeLogger(Watcher, BaseLogger):
    """Records what torchtitan logs, and watches: ``StepscopeLogger("runs/exp1").attach(trainer.metrics_processor)``.

    torchtitan counts steps from 1; here the first one is 0, as everywhere. ``trainer.close()`` closes the run.
    """

    framework = package = "torchtitan"

    @property
    def run(self) -> Emitter:
        """The run, for images, texts and more; opened where it is not."""
        return self._training.open()

    def attach(self, processor: MetricsProcessor) -> None:
        """Takes what a Trainer logs on this rank, and watches its parts of the model; call it on each rank.

        A second call for a processor, also of another logger, does nothing, and says so.

        Args:
            processor: ``trainer.metrics_processor``, after the Trainer was made: it knows model and optimizers.

        Raises:
            SessionError: When the processor knows no model or optimizers.
        """
        models, optimizers = processor.model_parts, processor.optimizers
        if models is None or optimizers is None:
            missing = "model_parts are" if models is None else "optimizers are"
            raise SessionError(f"the {missing} None; expected the metrics_processor of a Trainer that has been made")
        if processor in _attached_to:
            warn_of_second("calls of StepscopeLogger.attach for one trainer", 2)
            return
        _attached_to.add(processor)
        model = models[0] if len(models) == 1 else torch.nn.ModuleList(models)  # several are stages of a pipeline
        self._training.watch(parts_of(model, list(optimizers), is_called=True))
        self._training.fails_unless_ended()
        if not isinstance(processor.logger, LoggerContainer):  # on this rank it logs nothing
            processor.logger = LoggerContainer()
        processor.logger.add_logger(self)

    def should_stop(self) -> bool:
        """Whether an action on a finding asks to stop, on any rank; for ``Trainer.should_continue_training``.

        Every rank has to call it equally often.
        """
        return self._training.should_stop()

    def log(self, metrics: dict[str, Any], step: int) -> None:
        """Records numbers; those of a validation as ``validation/<name>``, and the norm as that before clipping."""
        found = {_METRICS.get(name, name): value for name, value in metrics.items()}
        renamed = {name.replace(_VALIDATION, "validation/", 1): value for name, value in found.items()}
        self._training.log(renamed, max(0, step - 1))

    def close(self) -> None:
        """Ends what is watched, and closes the run."""
        self._training.end()
