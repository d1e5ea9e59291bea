"""Ignite: a logger that also watches a trainer."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import TracebackType
from typing import Any

from tracker_adapters.emitter import Emitter

from debuggers.torch_import import torch
from stepscope.integrations.frameworks import imported_for
from stepscope.integrations.parts import parts_of
from stepscope.integrations.watched_training import warn_of_second
from stepscope.integrations.watcher import Watcher

with imported_for("ignite"):
    from ignite.engine import Engine, Events
    from ignite.handlers.base_logger import BaseLogger, BaseOptimizerParamsHandler, BaseOutputHandler


class StepscopeLogger(Watcher, BaseLogger):
    """Records what handlers are given, and watches: ``StepscopeLogger("runs/exp1").watch(trainer, model, optimizer)``.

    Its handlers are attached as those of Ignite's other loggers, by ``attach_output_handler`` and
    ``attach_opt_params_handler``. ``close`` closes the run; so does the end of the process.
    """

    framework, package = "ignite", "pytorch-ignite"

    @property
    def run(self) -> Emitter:
        """The run, for images, texts and more; opened where it is not."""
        return self._training.open()

    def watch(
        self,
        trainer: Engine,
        model: torch.nn.Module,
        optimizers: torch.optim.Optimizer | Sequence[torch.optim.Optimizer],
        *,
        validation: Engine | None = None,
        scaler: torch.amp.GradScaler | None = None,
    ) -> None:
        """Watches each run of a trainer.

        An exception in a trainer ends the run, as failed, and comes out of ``trainer.run``. If there is a handler of
        ``EXCEPTION_RAISED``, that handler decides, as without this, and the exception is an alert.

        Args:
            trainer: Its engine; another engine's steps are not counted.
            model: What is trained.
            optimizers: The optimizer, or several.
            validation: The engine that validates: what it does is left out of the training, and its metrics are
                recorded as ``validation/<name>``.
            scaler: The loop's GradScaler; found by itself where none is given.

        A second call for a trainer does nothing, and says so.
        """
        if trainer.has_event_handler(self._failed, Events.EXCEPTION_RAISED):
            warn_of_second("calls of StepscopeLogger.watch for one trainer", 2)
            return
        given = [optimizers] if isinstance(optimizers, torch.optim.Optimizer) else list(optimizers)
        parts = parts_of(model, given, is_called=True)

        def start(engine: Engine) -> None:
            self._training.watch(parts, scaler=scaler)
            if validation is not None and not validation.has_event_handler(self._end_validation):
                # Not before: what is attached later, such as a metric, acts later.
                validation.add_event_handler(Events.STARTED, self._training.begin_validation)
                validation.add_event_handler(Events.COMPLETED, self._end_validation)
                validation.add_event_handler(Events.EXCEPTION_RAISED, self._validation_failed)

        trainer.add_event_handler(Events.STARTED, start)
        trainer.add_event_handler(Events.ITERATION_COMPLETED, self._stop_if_asked)
        trainer.add_event_handler(Events.COMPLETED, self._training.stop)
        trainer.add_event_handler(Events.TERMINATE, self._terminated)
        trainer.add_event_handler(Events.EXCEPTION_RAISED, self._failed)

    def close(self) -> None:
        """Ends what is watched, and closes the run."""
        self._training.end()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Closes the run, as failed if an exception leaves the block."""
        self._training.end(error)

    def record(self, metrics: dict[str, Any], engine: Engine, event_name: Any, step: Callable[..., int] | None) -> None:
        """Records what a handler has collected; its step is that of the optimizer where a training is watched."""
        if step is not None:
            number = int(step(engine, event_name))
        elif self._training.sessions:
            number = self._training.step
        else:
            number = int(engine.state.get_event_attrib_value(event_name))
        self._training.log(metrics, number)

    def _create_output_handler(self, *args: Any, **kwargs: Any) -> Callable[..., None]:
        return _OutputHandler(*args, **kwargs)

    def _create_opt_params_handler(self, *args: Any, **kwargs: Any) -> Callable[..., None]:
        return _OptimizerParamsHandler(*args, **kwargs)

    def _end_validation(self, engine: Engine) -> None:
        self._training.end_validation()
        self._training.log({f"validation/{name}": value for name, value in engine.state.metrics.items()})

    def _validation_failed(self, engine: Engine, error: BaseException) -> None:
        self._training.end_validation()
        if not _is_handled(engine):
            raise error

    def _stop_if_asked(self, engine: Engine) -> None:
        if self._training.should_stop():
            engine.terminate()

    def _terminated(self, engine: Engine) -> None:
        if engine.should_terminate == "skip_completed":
            self._training.stop()

    def _failed(self, engine: Engine, error: BaseException) -> None:
        if _is_handled(
            engine
        ):  # the trainer may go on, or the handler may raise: then close() or the process's end come
            with self._training.isolation.guard("recording an exception"):
                message = f"{type(error).__name__}: {error}"
                self.run.alert("handled_exception", message, step=self._training.step, level="error")
            return
        self._training.end(error)
        raise error


class _OutputHandler(BaseOutputHandler):
    """Records an engine's output, metrics and attributes of its state as ``<tag>/<name>``."""

    def __init__(self, tag: str | None = None, *args: Any, **kwargs: Any) -> None:
        super().__init__(tag, *args, **kwargs)
        self._step = kwargs.get("global_step_transform") or (args[2] if len(args) > 2 else None)

    def __call__(self, engine: Engine, logger: StepscopeLogger, event_name: Any) -> None:
        found = self._setup_output_metrics_state_attrs(engine, log_text=True)
        logger.record({"/".join(key): value for key, value in found.items()}, engine, event_name, self._step)


class _OptimizerParamsHandler(BaseOptimizerParamsHandler):
    """Records a parameter of an optimizer's groups as ``<tag>/<parameter>/group_<index>``."""

    def __call__(self, engine: Engine, logger: StepscopeLogger, event_name: Any) -> None:
        tag, name = f"{self.tag}/" if self.tag else "", self.param_name
        groups = enumerate(self.optimizer.param_groups)
        logger.record({f"{tag}{name}/group_{index}": group[name] for index, group in groups}, engine, event_name, None)


def _is_handled(engine: Engine) -> bool:
    """Whether anybody but this file handles exceptions: only where nobody does, an engine raises them itself."""
    handlers = vars(engine)["_event_handlers"].get(Events.EXCEPTION_RAISED, ())  # Ignite has no public list of them
    return not all(isinstance(getattr(one[0], "__self__", None), StepscopeLogger) for one in handlers)
