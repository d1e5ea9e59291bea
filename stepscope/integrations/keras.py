"""Keras 3 on torch: a callback that watches ``fit``; importing this before Keras chooses torch, if nothing else is."""

from __future__ import annotations

import logging
import os
import weakref
from collections.abc import Iterator, Mapping
from typing import Any

os.environ.setdefault("KERAS_BACKEND", "torch")  # Keras reads it when it is imported

from debuggers.gradients.states import note_states
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.integrations.frameworks import imported_for
from stepscope.integrations.watched_training import warn_of_second
from stepscope.integrations.watcher import Watcher

with imported_for("keras"):
    import keras

_log = logging.getLogger(__name__)
_active: weakref.WeakSet[StepscopeCallback] = weakref.WeakSet()


class StepscopeCallback(Watcher, keras.callbacks.Callback):
    """Watches ``fit`` of a model on torch: ``model.fit(..., callbacks=[StepscopeCallback("runs/exp1")])``.

    Keras has optimizers of its own, so that gradients are measured when a batch has ended: as ``backward`` left them,
    before Keras clips copies of them. Weights, updates and the optimizer's state are not measured. Keras tells nobody
    of an exception: a run that did not end is marked as failed when the process ends, or ``fit`` is called again.
    """

    framework = package = "keras"

    def check_framework(self) -> None:
        """Refuses another backend than torch, with a SessionError."""
        if (backend := keras.backend.backend()) != "torch":
            raise SessionError(
                f"Keras runs on {backend}; expected torch: set KERAS_BACKEND=torch before importing keras"
            )
        super().check_framework()

    def on_train_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Opens the run and starts the session."""
        self._end(RuntimeError("the training before this one did not end"))
        # All callbacks of one call of fit get the same parameters.
        if any(one.params is self.params for one in _active):
            warn_of_second("StepscopeCallbacks", 2)
            return
        _active.add(self)
        self._training.open(self._configuration())
        self._training.fails_unless_ended()
        with self._training.isolation.guard("telling weights from states"):
            note_states(_states(self.model))
        self._training.observe(self.model)
        if hasattr(self.model.optimizer, "inner_optimizer"):
            _log.warning("the losses and gradients of this training are recorded with the scale of LossScaleOptimizer")

    def on_train_batch_end(self, batch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Takes a step; raises, or stops the training, where an action on a finding asks for it."""
        for session in self._training.sessions:
            try:
                session.step()
            except SessionError as error:  # as after a run that the user has closed
                self._training.isolation.record("taking a step", error)
        if self._training.should_stop():
            self.model.stop_training = True

    def on_test_begin(self, logs: Mapping[str, Any] | None = None) -> None:
        """Leaves a validation out of the training."""
        self._training.begin_validation()

    def on_test_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Goes on with the training."""
        self._training.end_validation()

    def on_epoch_end(self, epoch: int, logs: Mapping[str, Any] | None = None) -> None:
        """Takes the means of the epoch, and what the validation showed."""
        if self in _active:
            with self._training.isolation.guard("reading the learning rate"):
                rate = float(self.model.optimizer.learning_rate)
                self._training.open().scalar("learning_rate", rate, step=self._training.step)
            self._training.log(logs or {})

    def on_train_end(self, logs: Mapping[str, Any] | None = None) -> None:
        """Ends session and run."""
        self._end()

    def _end(self, error: BaseException | None = None) -> None:
        if self in _active:
            _active.discard(self)
            self._training.end(error)

    def _configuration(self) -> dict[str, Any]:
        found: dict[str, Any] = {"training": {name: one for name, one in self.params.items() if name != "verbose"}}
        with self._training.isolation.guard("reading the optimizer's configuration"):
            found["optimizer"] = dict(self.model.optimizer.get_config())
        return found


def _states(model: keras.Model) -> Iterator[torch.Tensor]:
    """What layers that are trained keep as parameters and nothing trains: moving statistics, and states of seeds."""
    for layer in model._flatten_layers():
        if layer.trainable:  # what is not in a layer within it
            inner = layer._flatten_layers(include_self=False, recursive=False)
            theirs = {id(variable) for one in inner for variable in one.variables}
            yield from (one.value for one in layer.non_trainable_variables if id(one) not in theirs)
