"""Ray Train: has the training function of a trainer watched on each worker; see docs/frameworks/ray.md."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Mapping, Sequence
from os import PathLike
from typing import Any, TypeVar
from uuid import uuid4

from tracker_adapters.config import SinksSpec
from tracker_adapters.remote.place import is_url

from debuggers.detectors.signals.front import Rule
from stepscope.errors import SessionError
from stepscope.integrations.frameworks import check_version, imported_for
from stepscope.integrations.ray.storage import run_in_storage
from stepscope.integrations.session_options import SessionOptions
from stepscope.integrations.watched_training import RUN_VARIABLE, WatchedTraining
from stepscope.runs.claims import JOB_VARIABLE
from stepscope.runs.live_run import Run
from stepscope.runs.places import local_path
from stepscope.runs.script_run import current_script_run, script_run
from stepscope.scripts.trainings import WatchedOptimizers
from stepscope.sessions.config import ConfigSpec
from stepscope.sessions.on_finding import OnFinding

with imported_for("ray"):
    import ray.train

Result = TypeVar("Result")
_OURS = "STEPSCOPE_"
_workers: list[_Worker] = []


def watched(
    train_loop: Callable[..., Result],
    run: str | PathLike[str] | None = None,
    *,
    sinks: SinksSpec = ("local",),
    config: ConfigSpec | None = None,
    detectors: Sequence[Rule] = (),
    on_finding: OnFinding | None = None,
    **settings: Any,
) -> Callable[..., Result]:
    """Returns what to give to a trainer in place of its function: ``TorchTrainer(watched(train_loop), ...)``.

    Each worker writes a store of its own, and all of them are one run. Every optimizer of torch is watched from its
    first step on, unless ``train_loop`` calls ``stepscope.watch`` itself. The run ends with ``train_loop``, and has
    failed where that raises. A start after a failure (``FailureConfig``) is a run of its own, with a number.

    Args:
        train_loop: What Ray Train calls on each worker, with ``train_loop_config`` or with nothing; unchanged.
        run: The run's folder, or its URL. By default ``STEPSCOPE_RUN``, else ``stepscope`` in the trainer's folder of
            results, ``RunConfig(storage_path=..., name=...)``.
        sinks: Where rank 0 shows the run; see ``open_run``.
        config: What is measured; see ``watch``.
        detectors: Further rules, which go to the workers; each session gets copies of its own.
        on_finding: What to do when findings begin; see ``watch``. For ``stop`` ask ``should_stop()``.
        settings: Fields of DebugConfig to change.

    Raises:
        ConfigError: For a wrong configuration or setting.
        SessionError: For a run or a function of another type, and for wrong detectors or actions.
    """
    if not callable(train_loop):
        raise SessionError(f"train_loop is {type(train_loop).__name__} {train_loop!r}; expected a function")
    if run is not None and not isinstance(run, str | PathLike):
        raise SessionError(f"run is {type(run).__name__} {run!r}; expected a folder or a URL, which all workers reach")
    check_version("ray")
    place = os.environ.get(RUN_VARIABLE) if run is None else os.fspath(run)
    if place and not is_url(place):
        place = str(local_path(place))  # workers have another working folder
    options = SessionOptions.checked(config, settings, detectors, on_finding)
    ours = {name: value for name, value in os.environ.items() if name.startswith(_OURS)}
    ours[JOB_VARIABLE] = f"ray {uuid4().hex}"

    return _Watched(train_loop, place, ours, {"sinks": sinks, "options": options})


def current_run() -> Run:
    """Returns the run of the training function that runs in this process, for images, texts and more.

    Raises:
        SessionError: Where no watched training function runs.
    """
    run = current_script_run()
    if run is None:
        raise SessionError("no watched training function runs here; expected TorchTrainer(watched(train_loop), ...)")
    return run


def should_stop() -> bool:
    """Whether an action on a finding asks to stop, on any worker; to be asked after a step, ``break`` if it does.

    Every worker has to call it equally often. False where no watched training function runs.
    """
    return bool(_workers) and _workers[-1].should_stop()


def report(metrics: Mapping[str, Any], *args: Any, **kwargs: Any) -> None:
    """Calls ``ray.train.report``, and records the metrics under the last step of the optimizer.

    See ``WatchedTraining.log`` for their names. Where no watched training function runs, it only reports.
    """
    if _workers:
        _workers[-1].log(metrics)
    ray.train.report(dict(metrics), *args, **kwargs)


class _Watched:
    """A training function that is watched where it is called.

    It goes to the workers as an object of this module: of a function within a function Ray would send a copy of all
    that it uses, and ``report`` would look for its worker elsewhere.
    """

    def __init__(
        self,
        train_loop: Callable[..., Any],
        place: str | None,
        variables: Mapping[str, str],
        options: Mapping[str, Any],
    ) -> None:
        functools.update_wrapper(self, train_loop)  # Ray asks for its arguments
        self._train_loop, self._place = train_loop, place
        self._variables, self._options = variables, options

    def __call__(self, *given: Any) -> Any:
        for name, value in self._variables.items():  # workers on other machines have not the driver's variables
            os.environ.setdefault(name, value)
        training = WatchedTraining("ray", self._place or run_in_storage(), **self._options)
        worker = _Worker(training, given[0] if given else None)
        _workers.append(worker)
        ended_by: BaseException | None = None
        try:
            with script_run(worker.run):
                return self._train_loop(*given)
        except BaseException as error:
            ended_by = error
            raise
        finally:
            _workers.remove(worker)
            worker.end(ended_by)


class _Worker:
    """A training function on a worker: its run, and the optimizers that are watched."""

    def __init__(self, training: WatchedTraining, settings: Mapping[str, Any] | None) -> None:
        context = ray.train.get_context()
        rank = context.get_world_rank() if context.get_world_size() > 1 else None
        self._training = training
        run = training.open(settings, rank=rank)
        assert isinstance(run, Run)
        self.run = run
        self._optimizers = WatchedOptimizers(run, training.options)

    def should_stop(self) -> bool:
        """Whether an action on a finding asks to stop, on any worker."""
        return self._training.options.asks_to_stop(self._optimizers.sessions.values())

    def log(self, metrics: Mapping[str, Any]) -> None:
        """Records metrics, also those of a validation in the session, where there is one."""
        self._training.sessions = tuple(self._optimizers.sessions.values())
        self._training.log(metrics)

    def end(self, error: BaseException | None) -> None:
        """Ends the sessions, and closes the run."""
        self._training.sessions = ()
        self._optimizers.end(error)
        self._training.end(error)
