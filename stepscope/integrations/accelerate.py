"""Accelerate: a tracker that also watches; importing this makes ``log_with="stepscope"`` known."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.integrations.frameworks import imported_for
from stepscope.integrations.parts import Part, parts_of
from stepscope.integrations.session_options import asked_on_any_rank
from stepscope.integrations.watched_training import warn_of_second
from stepscope.integrations.watcher import Watcher

with imported_for("accelerate"):
    from accelerate import Accelerator
    from accelerate.tracking import GeneralTracker, register_tracker_class


class StepscopeTracker(Watcher, GeneralTracker):
    """Records what ``accelerator.log`` is given, and watches a model: ``Accelerator(log_with="stepscope")``.

    ::

        accelerator.init_trackers("exp1", config={"lr": 0.1}, init_kwargs={"stepscope": {"updates": True}})
        watch(accelerator, model, optimizer)
    """

    package = "accelerate"
    name = "stepscope"
    requires_logging_directory = False

    def __init__(
        self,
        project: str = "accelerate",
        *,
        run: str | PathLike[str] | Emitter | None = None,
        **options: Any,
    ) -> None:
        """Opens nothing yet; see ``Watcher``: ``project`` comes from Accelerate, and names the folder."""
        self.framework = project
        super().__init__(run, **options)
        self._logged = self._first_step = 0

    @property
    def tracker(self) -> Emitter:
        """The run, for images, texts and more; opened where it is not."""
        return self._training.open()

    def start(self) -> None:
        """Does nothing: the run is opened with its configuration, which comes next."""

    def store_init_configuration(self, values: Mapping[str, Any]) -> None:
        """Opens the run with its configuration."""
        self._training.open(values)

    def watch(
        self, parts: Sequence[Part], *, scaler: Any, first_step: int | None, divides_loss: bool | Callable[[], int]
    ) -> None:
        """Watches what optimizers train, to ``finish``; see ``WatchedTraining.watch``.

        A second call before the first step does nothing, and says so.
        """
        if self._training.sessions and self._training.next_step == self._first_step:
            warn_of_second("calls of watch before the first step", 2)
            return
        self._training.watch(parts, scaler=scaler, first_step=first_step, divides_loss=divides_loss)
        self._first_step = self._training.next_step

    def log(self, values: Mapping[str, Any], step: int | None = None, **given: Any) -> None:
        """Records numbers and texts; without a step under that of the last optimizer step, else by counting calls."""
        if step is None:
            step = self._training.step if self._training.sessions else self._logged
        self._logged = step + 1
        self._training.log(values, step)

    @property
    def should_stop(self) -> bool:
        """Whether an action on a finding asked this process to stop the training."""
        return any(session.should_stop for session in self._training.sessions)

    def finish(self) -> None:
        """Ends what is watched, and closes the run."""
        self._training.end()


def watch(
    accelerator: Accelerator,
    model: torch.nn.Module,
    *optimizers: torch.optim.Optimizer,
    first_step: int | None = None,
) -> None:
    """Watches a training from now to ``accelerator.end_training()``; see ``stepscope.watch``.

    Call it after ``accelerator.init_trackers``, once with all optimizers; a second call before the first step does
    nothing, and a warning says so. A later one ends what is watched, and watches what it is given. Accelerate has
    trackers on the main process alone: on others this does nothing.

    Args:
        accelerator: With a tracker of this file.
        model: What is trained, prepared or not.
        optimizers: Its optimizers. The one inside a prepared one is watched, which steps where ``sync_gradients`` is
            set.
        first_step: The number of the first step, as after a checkpoint.

    Raises:
        SessionError: When the accelerator has no such tracker, or there is no optimizer.
    """
    if not accelerator.is_main_process:
        return
    tracker = _tracker(accelerator)
    if tracker is None or not optimizers:
        missing = "optimizer" if tracker is not None else 'tracker named "stepscope"'
        raise SessionError(
            f'there is no {missing}; expected Accelerator(log_with="stepscope"), accelerator.init_trackers("exp1"), '
            "and then watch(accelerator, model, optimizer)"
        )
    scaler = next(filter(None, (getattr(one, "scaler", None) for one in optimizers)), None)
    parts = parts_of(model, optimizers, is_called=True)
    divides_loss = accelerator.gradient_accumulation_steps > 1 and (lambda: accelerator.gradient_accumulation_steps)
    tracker.watch(parts, scaler=scaler, first_step=first_step, divides_loss=divides_loss)


def should_stop(accelerator: Accelerator) -> bool:
    """Whether an action on a finding asks to stop; to be asked after the optimizer's step, ``break`` if it does.

    The main process is watched, and all processes get its answer: call it on each of them equally often.
    """
    tracker = _tracker(accelerator)
    return asked_on_any_rank(tracker is not None and tracker.should_stop)


def _tracker(accelerator: Accelerator) -> StepscopeTracker | None:
    return next((one for one in accelerator.trackers if isinstance(one, StepscopeTracker)), None)


register_tracker_class(StepscopeTracker)
