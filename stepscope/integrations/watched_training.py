"""What all integrations share: the run of a training, the sessions on its optimizers, and the end of both."""

import atexit
import logging
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from os import PathLike
from pathlib import Path
from typing import Any

from tracker_adapters.config import SinksSpec
from tracker_adapters.emitter import Emitter
from tracker_adapters.wording import counted

from debuggers.gradients.unclipped_norm import UNCLIPPED
from debuggers.instrumentation.isolation import Isolation, failure_alerts
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.integrations.parts import Part
from stepscope.integrations.session_options import SessionOptions
from stepscope.runs.live_run import run_of
from stepscope.runs.opening import Run, open_run
from stepscope.sessions.session import DebugSession
from stepscope.sessions.watching import watch

RUN_VARIABLE = "STEPSCOPE_RUN"
OWN_SERIES = frozenset({"loss", "learning_rate", "step_ms"})
"""What a session emits by itself: a metric of such a name gets another one."""
_VALIDATION = ("validation/", "validation_", "valid/", "valid_", "val/", "val_", "eval/", "eval_")
_log = logging.getLogger(__name__)


class WatchedTraining:
    """A training that a framework runs: its run, and a session for each of its optimizers.

    Nothing but ``open`` raises: what fails inside is logged once for each cause, and an alert of the run.

    Attributes:
        run: Where artifacts go, while it is open.
        sessions: One for each optimizer, in the given order, while they are watched.
        options: Of the next sessions.
        isolation: Guards what an integration does in the framework's hooks.
        asked_run: The run that was asked for by name or object; None for the default.
    """

    def __init__(
        self,
        framework: str,
        run: str | PathLike[str] | Emitter | None = None,
        *,
        sinks: SinksSpec = ("local",),
        options: SessionOptions | None = None,
    ) -> None:
        """Checks the arguments; opens nothing.

        Args:
            framework: Names the default folder, and messages.
            run: A folder, or an open run, which its owner closes. By default the environment variable
                ``STEPSCOPE_RUN``, else ``runs/<framework>``.
            sinks: Of a run that is opened here; see ``open_run``.
            options: Of the sessions; by default those of ``watch``.

        Raises:
            SessionError: For a run of another type.
        """
        if not isinstance(run, str | PathLike | Emitter | None):
            raise SessionError(f"run is {type(run).__name__} {run!r}; expected a folder, or an open run")
        self.run: Emitter | None = None
        self.sessions: tuple[DebugSession, ...] = ()
        self.asked_run = os.fspath(run) if isinstance(run, str | PathLike) else run
        self._given = run if isinstance(run, Emitter) else None
        folder = os.environ.get(RUN_VARIABLE) or f"runs/{framework}" if run is None else run
        self._folder = None if isinstance(folder, Emitter) else folder
        self._sinks, self.options = sinks, SessionOptions() if options is None else options
        self._opened: Path | None = None
        self._validation, self._is_validating = ExitStack(), False
        self.isolation = Isolation("isolate", self._alert)

    @property
    def step(self) -> int:
        """The number of the last step; 0 before the first."""
        return max([0, *(session.last_step for session in self.sessions)])

    @property
    def next_step(self) -> int:
        """The number of the coming step of the first session."""
        return self.sessions[0].last_step + 1 if self.sessions else 0

    def should_stop(self) -> bool:
        """Whether an action on a finding asks to stop the training; every rank has to call it equally often."""
        return self.options.asks_to_stop(self.sessions)

    def open(self, config: Mapping[str, Any] | None = None, *, rank: int | None = None) -> Emitter:
        """Returns the run, which is opened if it is not; after ``end`` it is the same run again, as a new attempt.

        Args:
            config: The run's configuration, of a run that is opened.
            rank: This process's rank, where the framework knows it and no environment variable tells.

        Raises:
            RunError: And what else ``open_run`` raises.
        """
        if self.run is None:
            if self._given is not None:
                self.run = self._given
            elif self._opened is not None:
                self.run = open_run(self._opened, sinks=self._sinks, config=config, resume=True, rank=rank)
            else:
                assert self._folder is not None
                self.run = open_run(os.fspath(self._folder), sinks=self._sinks, config=config, rank=rank)
                self._opened = self.run.path
        return self.run

    def watch(
        self,
        parts: Sequence[Part],
        *,
        scaler: Any = None,
        first_step: int | None = None,
        divides_loss: bool | Callable[[], int] = False,
    ) -> None:
        """Starts a session for each part; ends those that ran. There is none where ``STEPSCOPE_DISABLED`` is set.

        Args:
            parts: What the optimizers train.
            scaler: The framework's loss scaler; only a GradScaler of torch counts.
            first_step: The number of the first step, as after a checkpoint; None continues after the run's last one.
            divides_loss: Whether the framework divides the loss of each batch by the number of batches of a step; or
                what returns that number, where the last step of an epoch may have fewer.
        """
        self.stop()
        scaler = scaler if isinstance(scaler, torch.amp.GradScaler) else None
        changes = {} if first_step is None else {"first_step": first_step}
        with self.isolation.guard("starting a session"):
            emitter = self.open()
            self.sessions = watches = tuple(
                watch(
                    part.model,
                    part.optimizer,
                    run=emitter.scoped(part.scope) if part.scope else emitter,
                    scaler=scaler,
                    **self.options.of_session(**changes),
                )
                for part in parts
            )
            for session in watches if divides_loss else ():
                session.losses_add_up(divides_loss if callable(divides_loss) else None)
            if all(session.disabled for session in watches):
                self.stop()  # no session counts steps, so the framework's numbers are the steps of what it logs

    def take_over(self, other: "WatchedTraining") -> "WatchedTraining":
        """Returns this training, which measures from now on what the other one would; warns if that named a run."""
        if other.asked_run not in (None, self.asked_run):
            _log.warning("the run %s of the callback is not opened: it records in the logger's run", other.asked_run)
        self.options = other.options
        return self

    def observe(self, model: torch.nn.Module) -> None:
        """Starts a session that is told its steps, for a framework with optimizers of its own.

        Weights, updates and the optimizer's state are not measured: nothing tells when the weights change.
        """
        self.stop()
        unseen = {"weights": False, "updates": False, "optimizer_state": False}
        with self.isolation.guard("starting a session"):
            self.sessions = (DebugSession(model, run=self.open(), **self.options.of_session(**unseen)).start(),)

    def log(self, metrics: Mapping[str, Any], step: int | None = None) -> None:
        """Emits what the framework logs, by name: numbers as scalars, strings as texts; anything else is left out.

        A metric whose name begins with ``val``, ``valid``, ``validation`` or ``eval`` is one of a validation, and is
        emitted as ``validation/<the rest>``. One with the name of a series of the session is ``logged/<name>``. The
        norm before clipping is left out where a session has recorded it.

        Args:
            metrics: Numbers, tensors of one element, and strings; tensors on a device are read later.
            step: By default the last step of the sessions.
        """
        number = self.step if step is None else step
        validation: dict[str, Any] = {}
        with self.isolation.guard("recording metrics"):
            run = self.open()
            for name, value in metrics.items():
                if isinstance(value, str):
                    run.text(name, value, step=number)
                if not _is_number(value) or (name == UNCLIPPED and self._has_unclipped(number)):
                    continue
                if prefix := next((one for one in _VALIDATION if name.startswith(one) and name != one), None):
                    validation[name.removeprefix(prefix)] = value
                else:
                    run.scalar(f"logged/{name}" if name in OWN_SERIES else name, _plain(value), step=number)
        if not validation:
            return
        with self.isolation.guard("recording a validation"):
            if len(self.sessions) == 1:
                self.sessions[0].validation(validation.pop("loss", None), metrics=validation, step=number)
            else:
                for name, value in validation.items():
                    self.open().scalar(f"validation/{name}", _plain(value), step=number)

    def begin_validation(self) -> None:
        """Leaves what follows out of the training, until ``end_validation``."""
        self.end_validation()
        self._is_validating = True
        with self.isolation.guard("watching a validation"):
            for session in self.sessions:
                self._validation.enter_context(session.validating())

    def end_validation(self) -> None:
        """Goes on with the training; does nothing outside of a validation."""
        if not self._is_validating:
            return
        self._is_validating = False
        with self.isolation.guard("watching a validation"):
            self._validation.close()

    def fails_unless_ended(self) -> None:
        """Has the run marked as failed if the process ends before ``end``: for frameworks that tell of no failure."""
        atexit.register(self._abandon)

    def end(self, error: BaseException | None = None) -> None:
        """Ends the sessions, and closes the run if it was opened here; calling it again does nothing.

        Args:
            error: What ended the training, if it failed; leaving by ``sys.exit(0)`` is no failure.
        """
        atexit.unregister(self._abandon)
        self.stop(error)
        run, self.run = self.run, None
        if isinstance(run, Run) and run is not self._given:
            with self.isolation.guard("closing the run"):
                run.__exit__(None if error is None else type(error), error, None)

    def stop(self, error: BaseException | None = None) -> None:
        """Ends the sessions, and leaves the run open; ``error`` is what ended the training."""
        self.end_validation()
        sessions, self.sessions = self.sessions, ()
        for session in sessions:
            with self.isolation.guard("ending a session"):
                session.__exit__(None if error is None else type(error), error, None)

    def _has_unclipped(self, step: int) -> bool:
        return len(self.sessions) == 1 and self.sessions[0].gradient_debugger.unclipped.step == step

    def _abandon(self) -> None:
        raised = getattr(sys, "last_exc", None) or getattr(sys, "last_value", None)
        self.end(raised or RuntimeError("the process ended before the training did"))

    def _alert(self, message: str) -> None:
        failure_alerts(self.run, lambda: self.step, name="session_failure", level="warning")(message)

    def __getstate__(self) -> dict[str, Any]:
        """Copies and pickles carry the arguments alone: trainers are copied and sent to other processes."""
        state = self.__dict__ | {
            "run": None,
            "sessions": (),
            "_validation": None,
            "_is_validating": False,
            "isolation": None,
        }
        return state | ({"_opened": None} if run_of(self.run) is not None else {})

    def __setstate__(self, state: dict[str, Any]) -> None:
        self.__dict__.update(state)
        self._validation, self.isolation = ExitStack(), Isolation("isolate", self._alert)


def warn_of_second(what: str, count: int) -> None:
    """Warns that a framework was given the same thing several times, of which one works."""
    _log.warning("there are %s; only the first one is active", counted(count, what))


def _is_number(value: object) -> bool:
    if isinstance(value, torch.Tensor):
        return value.numel() == 1 and not value.is_complex()
    return hasattr(value, "__float__") and not isinstance(value, str)


def _plain(value: Any) -> Any:
    return value.detach().reshape(()) if isinstance(value, torch.Tensor) else value
