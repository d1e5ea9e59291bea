"""Watches every optimizer of the process from its first step on."""

from __future__ import annotations

import weakref
from collections.abc import Sequence

from tracker_adapters.emitter import Emitter
from tracker_adapters.fork_safe import OwnerProcess

from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.isolation import Isolation, failure_alerts
from debuggers.torch_import import torch
from stepscope.integrations.parts import torch_optimizer
from stepscope.integrations.session_options import SessionOptions
from stepscope.scripts.models import model_of
from stepscope.sessions.running import is_watched
from stepscope.sessions.watching import Watch, watch

OVER_AFTER = 100
"""Steps after which a training is over when another optimizer begins: those of a GAN take turns long before."""


class WatchedOptimizers:
    """Starts a session when an optimizer takes its first step, unless somebody watches it.

    A script that trains one model after the other has one session after the other: the one before ends when the next
    optimizer begins, lest all models be kept. If it goes on after all, so does its session. What a process trains that
    the script forks is left alone: it writes nothing to the run.

    Attributes:
        sessions: Those that run, by optimizer in the order of their beginnings.
        seen: How many optimizers have taken a step.
        process: The one that is watched.
    """

    def __init__(self, run: Emitter, options: SessionOptions, models: Sequence[torch.nn.Module] | None = None) -> None:
        """Starts looking for optimizers; with ``models`` for those that train one of these."""
        self._run, self._options, self._models = run, options, models
        self.sessions: dict[torch.optim.Optimizer, Watch] = {}
        self.seen = 0
        self.process = OwnerProcess()
        self._scopes: set[str] = set()
        self._scope_of: weakref.WeakKeyDictionary[torch.optim.Optimizer, str] = weakref.WeakKeyDictionary()
        self._left_out: weakref.WeakSet[torch.optim.Optimizer] = weakref.WeakSet()
        self._isolation = Isolation("isolate", failure_alerts(run, lambda: 0, name="session_failure", level="warning"))
        self._hooks = Hooks()
        self._hooks.add_any_optimizer_step(self._step_begins)

    def end(self, error: BaseException | None = None) -> None:
        """Ends all sessions; ``error`` is what ended the script."""
        self._hooks.remove()
        for optimizer in list(self.sessions):
            self._end(optimizer, error)

    def _step_begins(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer in self.sessions or optimizer in self._left_out or not self.process.is_current:
            return
        with self._isolation.guard("starting a session"):
            self._begin(torch_optimizer(optimizer))

    def _begin(self, optimizer: torch.optim.Optimizer) -> None:
        if optimizer in self.sessions:
            return
        is_new = optimizer not in self._scope_of
        self.seen += is_new
        self._left_out.add(optimizer)  # also where finding its model fails
        model = None if is_watched(optimizer) else model_of(optimizer, self._models)
        if model is None:
            return
        if is_new:
            for other, session in list(self.sessions.items()):
                if session.last_step >= OVER_AFTER:
                    self._end(other)
            self._scope_of[optimizer] = self._free_scope(model)
        scope = self._scope_of[optimizer]
        run = self._run.scoped(scope) if scope else self._run
        self.sessions[optimizer] = watch(model, optimizer, run=run, **self._options.of_session())
        self._left_out.discard(optimizer)

    def _end(self, optimizer: torch.optim.Optimizer, error: BaseException | None = None) -> None:
        session = self.sessions.pop(optimizer)
        with self._isolation.guard("ending a session"):
            session.__exit__(None if error is None else type(error), error, None)

    def _free_scope(self, model: torch.nn.Module) -> str:
        """Empty for the first session; then the name of the model's class, with a number where it is taken."""
        if not self._scopes:
            self._scopes.add("")
            return ""
        name = scope = type(model).__name__.lower()
        number = 1
        while scope in self._scopes:
            number += 1
            scope = f"{name}_{number}"
        self._scopes.add(scope)
        return scope
