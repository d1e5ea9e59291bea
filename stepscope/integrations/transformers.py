"""Transformers: a callback that watches a Trainer; importing this makes ``report_to="stepscope"`` known."""

from __future__ import annotations

import weakref
from collections.abc import Mapping
from dataclasses import MISSING, fields
from typing import Any

from debuggers.gradients.unclipped_norm import UNCLIPPED
from debuggers.torch_import import torch
from stepscope.integrations.frameworks import imported_for
from stepscope.integrations.parts import parts_of
from stepscope.integrations.watched_training import warn_of_second
from stepscope.integrations.watcher import Watcher

with imported_for("transformers"):
    from transformers import TrainerCallback, TrainerControl, TrainerState, TrainingArguments
    from transformers.integrations import integration_utils

_ALWAYS = (
    "learning_rate", "per_device_train_batch_size", "gradient_accumulation_steps", "max_grad_norm", "num_train_epochs",
    "seed",
)  # fmt: skip
_callbacks: weakref.WeakSet[StepscopeCallback] = weakref.WeakSet()


class StepscopeCallback(Watcher, TrainerCallback):
    """Watches the trainings of a Trainer: ``Trainer(..., callbacks=[StepscopeCallback("runs/exp1")])``.

    ``train`` opens the run and watches model and optimizer; when it returns, both are closed. Metrics that the Trainer
    logs are recorded. The Trainer tells nobody of an exception: a run that did not end is marked as failed when the
    process ends or the next training begins.

    Attributes:
        is_active: Whether it watches a training.
        control: That of the Trainer which it belongs to.
    """

    framework = package = "transformers"
    is_unasked = False
    """Whether ``report_to`` asked for it, so that one that the user gave takes its place."""
    is_active = False
    _ahead = 0
    """How far the run's steps are ahead of the Trainer's, which counts each training from 0."""
    control: weakref.ref[TrainerControl] | None = None

    def on_init_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Remembers which Trainer this belongs to: all callbacks of one get the same ``control``."""
        self.control = weakref.ref(control)
        _callbacks.add(self)

    def on_train_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Opens the run and starts the session."""
        self._end(RuntimeError("the training before this one did not end"))
        self.on_init_end(args, state, control)
        if not self._is_first(control):
            return
        self.is_active = True
        self._training.open(_configuration(args, given.get("model")))
        self._training.fails_unless_ended()
        with self._training.isolation.guard("starting the sessions"):
            parts = parts_of(given["model"], [given["optimizer"]], is_called=True)
            scaler = getattr(given["optimizer"], "scaler", None)
            self._training.watch(parts, scaler=scaler, first_step=state.global_step or None, divides_loss=True)
            self._ahead = self._training.next_step - state.global_step if self._training.sessions else 0

    def on_step_begin(
        self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any
    ) -> None:
        """Goes on with the training."""
        if self.is_active:
            self._training.end_validation()

    def on_step_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Leaves an evaluation that follows out, and ends the training where an action on a finding asks for it."""
        if self.is_active and self._training.should_stop():
            control.should_training_stop = True
        if self.is_active and control.should_evaluate:
            self._training.begin_validation()

    def on_epoch_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Leaves an evaluation that follows out of the training."""
        if self.is_active and control.should_evaluate:
            self._training.begin_validation()

    def on_evaluate(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Goes on with the training."""
        if self.is_active:
            self._training.end_validation()

    def on_log(
        self,
        args: TrainingArguments,
        state: TrainerState,
        control: TrainerControl,
        logs: Mapping[str, Any] | None = None,
        **given: Any,
    ) -> None:
        """Takes what the Trainer logs, under the number of the step after which it does."""
        if not (self.is_active and logs):
            return
        step, logs = max(0, state.global_step - 1 + self._ahead), dict(logs)
        if args.max_grad_norm and "grad_norm" in logs:
            logs[UNCLIPPED] = logs.pop("grad_norm")
        self._training.log(logs, step)

    def on_train_end(self, args: TrainingArguments, state: TrainerState, control: TrainerControl, **given: Any) -> None:
        """Ends session and run."""
        self._end()

    def _is_first(self, control: TrainerControl) -> bool:
        """Whether this callback is the one of its Trainer that works: the first one that the user gave, if any."""
        mine = [one for one in _callbacks if one.control is not None and one.control() is control]
        if any(one.is_active for one in mine if one is not self):
            warn_of_second("StepscopeCallbacks", sum(not one.is_unasked for one in mine))
            return False
        return not self.is_unasked or all(one.is_unasked for one in mine)

    def _end(self, error: BaseException | None = None) -> None:
        if self.is_active:
            self.is_active = False
            self._training.end(error)


class _ReportTo(StepscopeCallback):
    """What ``report_to="stepscope"`` adds."""

    is_unasked = True


def _configuration(args: TrainingArguments, model: torch.nn.Module | None) -> dict[str, Any]:
    """The model's configuration, and the arguments that are not at their defaults."""
    plain = args.to_dict()
    defaults = {field.name: field.default for field in fields(args) if field.default is not MISSING}
    chosen = {
        name: value
        for name, value in plain.items()
        if name in _ALWAYS or (value not in (None, [], {}, "") and value != defaults.get(name))
    }
    config: Any = getattr(model, "config", None)
    return {"training": chosen, **({"model": config.to_dict()} if hasattr(config, "to_dict") else {})}


integration_utils.INTEGRATION_TO_CALLBACK["stepscope"] = _ReportTo
