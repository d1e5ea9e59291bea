"""The begin, the pauses and the end of a session."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import Self

from tracker_adapters.emitter import Emitter

from debuggers.instrumentation.compiled_code import methods_between_graphs
from stepscope.errors import SessionError
from stepscope.runs.live_run import run_of
from stepscope.sessions import running as running_sessions
from stepscope.sessions.config import DebugConfig
from stepscope.sessions.report import DebugReport
from stepscope.sessions.report_output import make_folder, put_out
from stepscope.sessions.view import SessionView


@methods_between_graphs
class SessionLifecycle(SessionView):
    """The part of a session that begins, pauses and ends it.

    Attributes:
        config: What is measured, how often, at what cost.
        measures_next: Whether the coming step is to be measured in full.
    """

    config: DebugConfig
    _run: Emitter | None
    measures_next = False
    _forget_run: Callable[[], None]

    def start(self) -> Self:
        """Starts watching, and ends another session on the same model and optimizer.

        Raises:
            SessionError: When the session was started before.
            ConfigError: When the configuration's ``output_dir`` cannot be written.
        """
        if self._started:
            raise SessionError("this session was started before; expected a new DebugSession for each training")
        if not self.disabled:
            make_folder(self.config.output_dir)
        self._started, self._process = True, os.getpid()
        if not self.disabled:
            self._stability.leave_series_to(self._run, self.config)
        if (run := run_of(self._run)) is not None:
            self._forget_run = run.call_before_close(self.stop)
        running_sessions.begin(self, self._model, self._optimizer)
        first = self.config.first_step
        self._pacing.last = (-1 if self._run is None else self._run.reached) if first is None else first - 1
        if not self.disabled:
            if self._run is not None and self._model is not None:
                running_sessions.claim_names(self._run, self._model, self._optimizer)
            with self._isolation.guard("the measuring kernel"):
                self._instruments.prepare()
            self._expect(self._pacing.next)
        self._stability.begin()
        with self._isolation.guard("observing forward passes"):
            self._first_nan.start()
        self._pacing.start()
        return self

    @contextmanager
    def paused(self) -> Iterator[None]:
        """Leaves out what happens inside, between two steps: a validation, a checkpoint, the step of another model.

        No layer has a hook meanwhile, and the time counts neither as training nor as overhead. Steps of another thread
        meanwhile are a gap in the coverage.
        """
        with self._pacing.paused():
            self._paused, self._pausing_thread = True, threading.get_ident()
            self._instruments.pause()
            self._first_nan.pause()
            self._diagnosis.pause()
            try:
                yield
            finally:
                self._paused = False
                self._stability.begin()
                if self._started and not self._stopped and not self.disabled:
                    self._first_nan.resume()
                    with self._isolation.guard("preparing a step"):
                        self._expect(self._pacing.next)

    def clipping_begins(self) -> None:
        """Says that the loop is about to clip its gradients, accumulated and unscaled, in whatever way.

        Where torch tells no norm of that, the gradients of a step that is measured in full are gone through for it.
        """
        if self.measures_next:
            with self._pacing.stopwatch:
                self._instruments.gradients.unclipped.take()

    def stop(self) -> DebugReport:
        """Ends the session: removes every hook, emits what is left, writes and prints what ``report`` returns.

        The measured overhead is printed to standard error. A second call only returns the report, and so does a call in
        a forked child: the session is its parent's.
        """
        if self._is_inherited:
            self._let_go()
        if self._stopped:
            return self.report()
        self._stopped = True
        self._forget_run()
        self._stability.leave_series_to(None, self.config)
        running_sessions.end(self)
        if self._run is not None and self._started:
            self._run.reach(self._pacing.last)
        with self._isolation.guard("ending the session"):
            self._diagnosis.judge_noted()
            self._instruments.tools.act_at_end()
            self._instruments.close()
            self._first_nan.close()
            self._diagnosis.close()
        report = self.report()
        with self._isolation.guard("ending the session"):
            self._diagnosis.put_out(self._pacing.last, self._findings(), report.coverage.gaps)
        if self._started:
            with self._isolation.guard("writing the report"):
                put_out(report, self.config.output_dir, self._run, self._pacing.last)
        return report

    def close(self) -> DebugReport:
        """Ends the session as ``stop`` does."""
        return self.stop()

    def __enter__(self) -> Self:
        if self._stopped:
            raise SessionError("this session has ended; expected a new one from stepscope.watch()")
        return self if self._started else self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._is_inherited:
            self._let_go()
            return
        try:
            if error is not None:
                with self._isolation.guard("recording an error"):
                    self._stability.note_error(error)
                    self._diagnosis.note_error(error)
            with self._isolation.guard("repeating a step that ended with an exception"):
                if error is not self._instruments.tools.control.raised:  # no operator failed: a finding asked for it
                    self._first_nan.look_at_error(error)
        finally:
            # What fails now, as on a device that is broken, must not stand before what ended the training.
            with self._isolation.guard("ending the session"):
                self.stop()

    def _let_go(self) -> None:
        """Ends the copy in a forked child: no layer has a hook any more, and nothing is emitted, printed or removed."""
        self._stopped = True
        running_sessions.end(self)
        self._instruments.pause()
        self._first_nan.pause()
        self._diagnosis.pause()

    def _expect(self, number: int) -> None:
        """Prepares for the coming forward pass of a step that will be measured."""
        self._instruments.begin(number)
        self._diagnosis.expect()
        self.measures_next = self._pacing.grant(number)
        if self.measures_next:
            self._instruments.expect(number)
