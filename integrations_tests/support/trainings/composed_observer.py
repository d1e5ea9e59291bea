"""Who looks on at a training of a random composition: a session, a watch, a stability manager, or nobody."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack, nullcontext
from pathlib import Path
from typing import TYPE_CHECKING, Any

from compositions import Case

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

if TYPE_CHECKING:
    import torch
    from composed_training import Training


class Observer:
    """Without a folder it is only the stability manager, which is a part of the training."""

    def __init__(self, case: Case, folder: Path | None) -> None:
        self.case, self.folder = case, folder
        self.reports: list[stepscope.DebugReport] = []
        self.places: list[Path] = []
        self.session: stepscope.DebugSession | None = None
        self.manager: NumericalStabilityManager | None = None
        self._training: Training | None = None
        self._run: stepscope.Run | None = None
        self._stack, self._outer = ExitStack(), ExitStack()
        self._emitted = 0

    def begin(self, training: Training) -> None:
        """Begins a session; the first one of a run opens it."""
        self._training = training
        self._stack = ExitStack()
        if self.folder is None:
            self.manager = self._make_manager(None)
            if self.manager is not None:
                self.manager.keep_buffers(training.model)
            return
        if self.case.run and self._run is None:
            resumes = bool(self.places)
            run = stepscope.open_run(self.folder / "run", sinks=list(self.case.sinks), resume=resumes)
            self._run = self._outer.enter_context(run)
            self.places.append(run.path)
            if self.case.thread:
                self._outer.callback(self._emit_beside(run))
        self.manager = self._make_manager(self._run)
        config = stepscope.DebugConfig.preset(self.case.preset, **self._settings())
        self.session = self._make_session(training, config)
        if training.critic is not None:
            run = None if self._run is None else self._run.scoped("critic")
            watch = stepscope.watch(training.critic, training.critic_optimizer, run=run, config=config)
            self._stack.enter_context(watch)

    def _make_session(self, training: Training, config: stepscope.DebugConfig) -> stepscope.DebugSession:
        given: dict[str, Any] = {"run": self._run, "config": config}
        if self.case.way != "session":
            # Half of the watches find the scaler; one that is told of steps cannot find it before the first.
            scaler = training.scaler if self.case.seed % 2 or self.case.way == "told" else None
            return self._stack.enter_context(stepscope.watch(training.net, training.optimizer, scaler=scaler, **given))
        session = stepscope.DebugSession(
            training.net, training.optimizer, stability=self.manager,
            scaler=None if self.manager else training.scaler, **given,
        )  # fmt: skip
        return self._stack.enter_context(session)

    def _settings(self) -> dict[str, Any]:
        settings = dict(self.case.settings)
        if "every" in settings:
            settings["schedule"] = stepscope.Schedule(every=settings.pop("every"))
        return settings

    def _make_manager(self, run: stepscope.Run | None) -> NumericalStabilityManager | None:
        if self.case.manager is None or self._training is None:
            return None
        clipping, handling = (
            GradientClippingConfig(clipping_type=self.case.clipping),
            NaNHandlingConfig(handling_type=self.case.manager),
        )
        return NumericalStabilityManager(clipping, handling, emitter=run, scaler=self._training.scaler)

    def _emit_beside(self, run: stepscope.Run) -> Callable[[], None]:
        """Starts a thread that emits to the run; returns what ends it."""
        stop = threading.Event()

        def emit() -> None:
            while not stop.wait(0.001):
                run.scalar("beside", self._emitted, step=self._emitted)
                self._emitted += 1

        thread = threading.Thread(target=emit)
        thread.start()

        def end() -> None:
            stop.set()
            thread.join()

        return end

    def look(self, loss: torch.Tensor, replay: Callable[[], torch.Tensor] | None) -> None:
        """Takes a step before the optimizer does."""
        if self.session is not None and self.case.way != "watch":
            self.session.step(loss, replay=replay if self.case.replay else None)
        elif self.manager is not None and self._training is not None:
            self.manager.step(self._training.model, loss, self._training.optimizer)

    def paused(self) -> AbstractContextManager[None]:
        """The session's pause."""
        return nullcontext() if self.session is None else self.session.paused()

    def end(self, *, last: bool = False) -> None:
        """Ends the session, and the run where it is the last one or is resumed."""
        session, self.session = self.session, None
        self._stack.close()
        if session is not None:
            self.reports.append(session.report())
        if last or self.case.resumes:
            self._outer.close()
            self._outer, self._run = ExitStack(), None
