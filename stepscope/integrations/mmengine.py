"""mmengine: a hook that watches, and a backend of its Visualizer; importing this makes both known by their names."""

from __future__ import annotations

from collections.abc import Mapping
from os import PathLike
from typing import Any

from tracker_adapters.config import SinksSpec
from tracker_adapters.emitter import Emitter

from stepscope.integrations.frameworks import check_version, imported_for
from stepscope.integrations.parts import parts_of
from stepscope.integrations.watched_training import WatchedTraining, warn_of_second
from stepscope.integrations.watcher import Watcher

with imported_for("mmengine"):
    from mmengine.config import Config
    from mmengine.hooks import Hook
    from mmengine.registry import HOOKS, VISBACKENDS
    from mmengine.runner import Runner
    from mmengine.visualization import BaseVisBackend


@VISBACKENDS.register_module()
class StepscopeVisBackend(BaseVisBackend):
    """Records what a Runner logs: ``visualizer=dict(vis_backends=[dict(type="StepscopeVisBackend")])``.

    A ``StepscopeHook`` in the same Runner writes to the same run. mmengine logs on the first rank alone.
    """

    def __init__(
        self,
        save_dir: str | None = None,
        run: str | PathLike[str] | Emitter | None = None,
        sinks: SinksSpec = ("local",),
    ) -> None:
        """Opens nothing yet; see ``StepscopeHook`` for arguments and errors. ``save_dir`` is not used."""
        super().__init__(save_dir)
        check_version("mmengine")
        self._training = WatchedTraining("mmengine", run, sinks=sinks)

    @property
    def experiment(self) -> Emitter:
        """The run, for texts, tables and more; opened where it is not. After a training it is continued."""
        return self._training.open()

    def add_config(self, config: Config, **given: Any) -> None:
        """Opens the run with the Runner's configuration."""
        self._training.open(config.to_dict())

    def add_image(self, name: str, image: Any, step: int = 0, **given: Any) -> None:
        """Records an image, uint8 of shape (height, width, 3)."""
        with self._training.isolation.guard("recording an image"):
            self._training.open().image(name, image, step=step, layout="HWC")

    def add_scalar(self, name: str, value: Any, step: int = 0, **given: Any) -> None:
        """Records a number; see ``add_scalars``."""
        self.add_scalars({name: value}, step)

    def add_scalars(
        self, scalar_dict: Mapping[str, Any], step: int = 0, file_path: str | None = None, **given: Any
    ) -> None:
        """Records numbers: under the optimizer's last step while a hook watches, else under the given one."""
        self._training.log(scalar_dict, None if self._training.sessions else step)

    def close(self) -> None:
        """Ends what is watched, and closes the run."""
        self._training.end()

    def use_settings_of(self, training: WatchedTraining) -> WatchedTraining:
        """Returns the training of this backend, which measures from now on what a hook's would."""
        return self._training.take_over(training)

    def _init_env(self) -> None:
        """Does nothing: the run is opened when something is recorded."""


@HOOKS.register_module()
class StepscopeHook(Watcher, Hook):
    """Watches the training of a Runner: ``custom_hooks=[dict(type="StepscopeHook", run="runs/exp1")]``.

    The Runner tells nobody of an exception: a run that did not end is marked as failed when the process ends. With a
    ``StepscopeVisBackend`` in the same Runner, both write to the backend's run.
    """

    framework = package = "mmengine"

    def before_train(self, runner: Runner) -> None:
        """Opens the run and starts the sessions."""
        all_of_us = [one for one in runner.hooks if isinstance(one, StepscopeHook)]
        if all_of_us[0] is not self:
            if all_of_us[1] is self:
                warn_of_second("StepscopeHooks", len(all_of_us))
            return
        backend = runner.visualizer.get_backend(StepscopeVisBackend.__name__)
        if backend is not None:
            self._training = backend.use_settings_of(self._training)
        self._training.open(runner.cfg.to_dict())
        self._training.fails_unless_ended()
        with self._training.isolation.guard("starting the sessions"):
            wrapper = runner.optim_wrapper
            wrappers = list(getattr(wrapper, "optim_wrappers", {"": wrapper}).values())
            accumulates = max(getattr(one, "_accumulative_counts", 1) for one in wrappers)
            self._training.watch(
                parts_of(runner.model, wrappers, is_called=True),
                scaler=getattr(wrappers[0], "loss_scaler", None),
                first_step=runner.iter // accumulates or None,
                divides_loss=accumulates > 1,
            )

    def after_train_iter(self, runner: Runner, batch_idx: int, data_batch: Any = None, outputs: Any = None) -> None:
        """Stops the loop where an action on a finding asks for it: a loop of epochs at the end of the epoch."""
        if self._training.should_stop():
            runner.train_loop.stop_training = True

    def before_val(self, runner: Runner) -> None:
        """Leaves a validation out of the training."""
        self._training.begin_validation()

    def after_val_epoch(self, runner: Runner, metrics: Mapping[str, float] | None = None) -> None:
        """Takes the metrics of a validation."""
        if self._training.sessions:
            self._training.log({f"validation/{name}": value for name, value in (metrics or {}).items()})

    def after_val(self, runner: Runner) -> None:
        """Goes on with the training."""
        self._training.end_validation()

    def after_train(self, runner: Runner) -> None:
        """Ends session and run."""
        self._training.end()
