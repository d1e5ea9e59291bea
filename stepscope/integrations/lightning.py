"""Lightning: a callback that watches a training, and a logger; see docs/frameworks/lightning.md."""

from __future__ import annotations

import json
import logging
from argparse import Namespace
from collections.abc import Collection, Mapping
from contextlib import suppress
from os import PathLike
from typing import Any

from tracker_adapters.config import SinksSpec
from tracker_adapters.emitter import Emitter

from stepscope.integrations.frameworks import check_version, imported_for
from stepscope.integrations.parts import parts_of
from stepscope.integrations.watched_training import WatchedTraining, warn_of_second
from stepscope.integrations.watcher import Watcher
from stepscope.runs.live_run import run_of

with imported_for("lightning"):
    from lightning.pytorch import Callback, LightningModule, Trainer
    from lightning.pytorch.loggers import Logger
    from lightning.pytorch.utilities import rank_zero_only

_NO_OPTIMIZER = "_MockOptimizer"
"""What Lightning puts in the place of an optimizer that there is not."""
_log = logging.getLogger(__name__)
_SETTINGS = ("max_epochs", "max_steps", "precision", "accumulate_grad_batches", "gradient_clip_val", "world_size")


class StepscopeCallback(Watcher, Callback):
    """Watches the trainings of a Trainer: ``Trainer(callbacks=[StepscopeCallback("runs/exp1")])``.

    ``fit`` opens the run and starts a session for each optimizer. Metrics that the module logs are recorded, every
    ``log_every_n_steps``. When ``fit`` returns, run and sessions are closed; when it raises, the run is marked as
    failed. With a ``StepscopeLogger`` in the same Trainer, both write to the logger's run.
    """

    framework = package = "lightning"
    is_unasked = False
    """Whether the environment asked for it, so that one that the user gave takes its place."""
    _is_active = False
    _metrics: _LoggedMetrics | None = None
    _clips = False

    def setup(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Opens the run of a training."""
        if stage != "fit":
            return
        all_of_us = [one for one in trainer.callbacks if isinstance(one, StepscopeCallback)]
        self._is_active = all_of_us[0] is self
        if not self._is_active:
            return
        if (asked := sum(not one.is_unasked for one in all_of_us)) > 1:
            warn_of_second("StepscopeCallbacks", asked)
        logger = next((one for one in trainer.loggers if isinstance(one, StepscopeLogger)), None)
        if logger is not None:
            self._training = logger.use_settings_of(self._training)
        self._metrics = _LoggedMetrics(trainer, self._training) if logger is None else None
        self._training.open(_configuration(trainer, pl_module), rank=_rank(trainer))

    def on_train_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Starts the sessions."""
        if not self._is_active:
            return
        with self._training.isolation.guard("starting the sessions"):
            if any(type(one).__name__ == _NO_OPTIMIZER for one in trainer.optimizers):
                _log.warning(
                    "%s has no optimizer (configure_optimizers returned None), so that no step is seen: nothing is "
                    "watched, and what is logged is recorded by batches; if it has optimizers of its own, expected "
                    "stepscope.watch there",
                    type(pl_module).__name__,
                )
                return
            parts = parts_of(pl_module, trainer.optimizers, is_called=False)
            first = trainer.global_step if len(parts) == 1 and trainer.global_step else None
            scaler = getattr(trainer.precision_plugin, "scaler", None)
            # At every batch: a GradientAccumulationScheduler changes it between epochs.
            divides = pl_module.automatic_optimization and (lambda: trainer.accumulate_grad_batches)
            self._training.watch(parts, scaler=scaler, first_step=first, divides_loss=divides)
            clipping = type(pl_module).configure_gradient_clipping.__module__.partition(".")[0]
            is_own = clipping not in ("lightning", "pytorch_lightning")
            self._clips = pl_module.automatic_optimization and bool(trainer.gradient_clip_val or is_own)
            if self._metrics is not None:
                self._metrics.begin()

    def on_before_optimizer_step(self, trainer: Trainer, pl_module: LightningModule, optimizer: Any) -> None:
        """Says that the gradients, accumulated and unscaled, are about to be clipped."""
        if self._clips:
            for session in self._training.sessions:
                if session.measures_next:  # the call itself takes ten microseconds
                    session.clipping_begins()

    def on_train_batch_end(
        self, trainer: Trainer, pl_module: LightningModule, outputs: Any, batch: Any, batch_idx: int
    ) -> None:
        """Takes what the module has logged, and stops the trainer where an action on a finding asks for it."""
        if self._metrics is not None:
            self._metrics.end_batch()
        if self._is_active and self._training.should_stop():
            trainer.should_stop = True

    def on_train_epoch_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Takes what the module has logged of the epoch."""
        if self._metrics is not None:
            self._metrics.end_epoch()

    def on_validation_start(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Leaves the validation out of the training."""
        if self._is_active:
            self._training.begin_validation()
            if self._metrics is not None:
                self._metrics.pass_over()  # those of the training were taken

    def on_validation_end(self, trainer: Trainer, pl_module: LightningModule) -> None:
        """Goes on with the training, and takes the validation's metrics."""
        if self._is_active:
            self._training.end_validation()
            if self._metrics is not None and not trainer.sanity_checking:
                self._metrics.end_validation()

    def on_exception(self, trainer: Trainer, pl_module: LightningModule, exception: BaseException) -> None:
        """Ends sessions and run, which has failed."""
        self._end(exception)

    def teardown(self, trainer: Trainer, pl_module: LightningModule, stage: str) -> None:
        """Ends sessions and run."""
        if stage == "fit":
            self._end()

    def _end(self, error: BaseException | None = None) -> None:
        if self._is_active:
            self._is_active, self._clips, self._metrics = False, False, None
            self._training.end(error)


class StepscopeLogger(Logger):
    """Records what a module logs, in a run: ``Trainer(logger=StepscopeLogger("runs/exp1"))``.

    ``StepscopeCallback`` in the same Trainer writes to the same run. On ranks after the first it records nothing.
    """

    def __init__(self, run: str | PathLike[str] | Emitter | None = None, *, sinks: SinksSpec = ("local",)) -> None:
        """Opens nothing yet; see ``StepscopeCallback`` for the arguments and errors."""
        super().__init__()
        check_version("lightning")
        self._training = WatchedTraining("lightning", run, sinks=sinks)

    @property
    def run(self) -> Emitter:
        """The run, for images, texts and more; opened where it is not. After a training it is continued."""
        return self._training.open()

    @property
    def name(self) -> str:
        """Empty: checkpoints lie where they lie without this logger."""
        return ""

    @property
    def version(self) -> str:
        """Empty, likewise."""
        return ""

    @rank_zero_only
    def log_metrics(self, metrics: Mapping[str, float], step: int | None = None) -> None:
        """Records numbers; see ``WatchedTraining.log`` for their names."""
        self._training.log(metrics, step)

    @rank_zero_only
    def log_hyperparams(self, params: Mapping[str, Any] | Namespace, *args: Any, **kwargs: Any) -> None:
        """Takes hyperparameters as the run's configuration, or as the text ``hyperparameters`` if the run is open."""
        given = dict(vars(params)) if isinstance(params, Namespace) else dict(params)
        is_new = self._training.run is None
        emitter = self._training.open(given)
        run = run_of(emitter)
        if given and not is_new and not (run is not None and given.keys() <= run.info.config.keys()):
            with self._training.isolation.guard("recording hyperparameters"):
                emitter.text("hyperparameters", json.dumps(given, default=str), step=self._training.step)

    @rank_zero_only
    def finalize(self, status: str) -> None:
        """Closes the run, if it is still open; anything but ``success`` marks it as failed."""
        failed = None if status == "success" else RuntimeError(f"Lightning ended with the status {status}")
        self._training.end(failed)

    def use_settings_of(self, training: WatchedTraining) -> WatchedTraining:
        """Returns the training of this logger, which measures from now on what a callback's would."""
        return self._training.take_over(training)


class _LoggedMetrics:
    """What a module logs, taken when it is new.

    The trainer keeps what was logged earlier, and makes new tensors of it at the end of an epoch: what is logged at
    other moments is left out by its name.
    """

    def __init__(self, trainer: Trainer, training: WatchedTraining) -> None:
        self._trainer, self._training = trainer, training
        self._seen: dict[str, Any] = {}
        self._by_step: set[str] = set()
        self._by_epoch: set[str] = set()
        self._step = -1

    def begin(self) -> None:
        """Leaves out what was logged before the training, and counts steps anew."""
        self.pass_over()
        self._step = -1

    def pass_over(self) -> None:
        """Leaves out what has been logged."""
        with self._training.isolation.guard("reading the logged metrics"):
            self._seen = dict(self._trainer.logged_metrics)

    def end_batch(self) -> None:
        """Takes what was logged, every ``log_every_n_steps``, and once for all micro-batches of a step."""
        step = self._number()
        if step != self._step and (step + 1) % self._trainer.log_every_n_steps == 0:
            self._step = step
            self._by_step |= self._take(but=self._by_epoch)

    def end_epoch(self) -> None:
        """Takes what was logged of an epoch."""
        self._by_epoch |= self._take(but=self._by_step)

    def end_validation(self) -> None:
        """Takes what was logged of a validation."""
        self._by_epoch |= self._take() - self._by_step

    def _take(self, but: Collection[str] = ()) -> set[str]:
        """Takes what is new, and returns its names."""
        new: dict[str, Any] = {}
        with self._training.isolation.guard("reading the logged metrics"):
            logged = dict(self._trainer.logged_metrics)
            new = {name: one for name, one in logged.items() if self._seen.get(name) is not one and name not in but}
            self._seen = logged
            self._training.log(new, self._number())
        return set(new)

    def _number(self) -> int:
        """The last step of the optimizer; that of the batch where no optimizer is watched."""
        return self._training.step if self._training.sessions else self._trainer.fit_loop.total_batch_idx


def _rank(trainer: Trainer) -> int | None:
    return trainer.global_rank if trainer.world_size > 1 else None


def _configuration(trainer: Trainer, module: LightningModule) -> dict[str, Any]:
    """The hyperparameters of module and data, and the settings of the trainer that change a training."""
    found: dict[str, Any] = {}
    for holder in (module, getattr(trainer, "datamodule", None)):
        with suppress(Exception):  # a property of the user's may raise
            found |= dict(getattr(holder, "hparams", None) or {})
    settings = {name: getattr(trainer, name, None) for name in _SETTINGS}
    return {**found, "trainer": {name: value for name, value in settings.items() if value is not None}}
