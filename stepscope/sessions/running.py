"""The sessions that run in this process: one for each model and optimizer, and one for each set of names in a run."""

from __future__ import annotations

import atexit
import logging
import weakref
from typing import TYPE_CHECKING

from tracker_adapters.emitter import Emitter

from debuggers.instrumentation.joined_optimizers import members_of
from debuggers.torch_import import torch

if TYPE_CHECKING:
    from stepscope.sessions.lifecycle import SessionLifecycle

_log = logging.getLogger(__name__)
_running: weakref.WeakSet[SessionLifecycle] = weakref.WeakSet()


def begin(session: SessionLifecycle, model: torch.nn.Module | None, optimizer: torch.optim.Optimizer | None) -> None:
    """Enters a session; one that runs on the same model and optimizer ends, as when a notebook's cell runs again."""
    for other in list(_running):
        if model is not None and other.watches(model, optimizer):
            _log.warning(
                "this %s and its optimizer are already watched: the earlier session ends now, %s; "
                "end a session with close(), or use it as a context manager",
                type(model).__name__,
                f"at step {other.last_step}" if other.last_step >= 0 else "before its first step",
            )
            other.give_way()
            try:
                other.stop()
            except Exception:  # nothing of the earlier one may keep this one from beginning
                _log.exception("the earlier session of this %s could not be closed", type(model).__name__)
    _running.add(session)


def is_watched(optimizer: torch.optim.Optimizer) -> bool:
    """Whether a session that runs watches the steps of an optimizer."""
    return any(session.steps_with(optimizer) for session in list(_running))


def end(session: SessionLifecycle) -> None:
    """Forgets a session that has ended."""
    _running.discard(session)


def claim_names(emitter: Emitter, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None) -> None:
    """Alerts when another model or optimizer has emitted its series under the same names."""
    if not emitter.claim(next(iter(members_of(optimizer)), model)):
        emitter.alert(
            "mixed_series",
            f"{type(model).__name__}: a session of another model or optimizer emits under the same names in this run, "
            'so their series are mixed; give each its own scope: watch(model, optimizer, run=run.scoped("D"))',
            step=0,
        )


def _stop_all() -> None:
    """Ends the sessions that a script left open, so that they tell what they found; those of a run end with it."""
    for session in list(_running):
        try:
            session.stop()
        except Exception:
            _log.exception("ending a session that was still open")


atexit.register(_stop_all)
