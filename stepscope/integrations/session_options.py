"""What a user says of the sessions that an integration starts, and whether one of them asks to stop."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from debuggers.conditional_hooks.vocabulary import HookAction
from debuggers.detectors.signals.front import Rule, SignalDetectors
from debuggers.detectors.signals.plugins import plugin_rules
from debuggers.instrumentation.isolation import describe
from debuggers.ranks.placement import is_one_of_several
from debuggers.torch_import import torch
from stepscope.errors import SessionError
from stepscope.sessions.arguments import checked_detectors
from stepscope.sessions.config import ConfigSpec, DebugConfig, as_config
from stepscope.sessions.on_finding import OnFinding, hooks_on_findings
from stepscope.sessions.session import DebugSession


@dataclass(frozen=True)
class SessionOptions:
    """Arguments of ``watch`` for sessions that begin later, checked now: then nobody would see an error.

    Attributes:
        config: What is measured.
        detectors: Further rules.
        on_finding: What to do when findings begin.
        may_stop: Whether an action asks to stop the training.
    """

    config: DebugConfig = field(default_factory=DebugConfig)
    detectors: tuple[Rule, ...] = ()
    on_finding: OnFinding | None = None
    may_stop: bool = False

    @classmethod
    def checked(
        cls,
        config: ConfigSpec | None = None,
        settings: Mapping[str, Any] | None = None,
        detectors: Sequence[Rule] = (),
        on_finding: OnFinding | None = None,
    ) -> SessionOptions:
        """Returns the options; for the arguments see ``watch``.

        Raises:
            ConfigError: For a wrong configuration or setting.
            SessionError: For wrong detectors or actions, and for detectors that cannot be copied.
        """
        whole = as_config(config, settings)
        rules = checked_detectors(detectors, torch.nn.Module, whole)
        known = SignalDetectors([*plugin_rules(), *_copies_of(rules)]).kinds
        hooks = hooks_on_findings(on_finding, known=known, run=None)
        return cls(whole, rules, on_finding, any(hook.has(HookAction.STOP) for hook in hooks))

    def of_session(self, **changes: Any) -> dict[str, Any]:
        """Returns the arguments of a new session, which gets rules of its own: rules remember what they have seen.

        Args:
            changes: Fields of the configuration to change.
        """
        config = self.config.changed(changes) if changes else self.config
        return {"config": config, "detectors": _copies_of(self.detectors), "on_finding": self.on_finding}

    def asks_to_stop(self, sessions: Iterable[DebugSession]) -> bool:
        """Whether a training ends: where an action asked for it on any rank, because all ranks stop at the same step.

        Where no action can ask for it, as in nearly all trainings, no session is asked and nothing is communicated.
        Else every rank has to call it equally often.

        Args:
            sessions: Those of this rank.
        """
        return self.may_stop and asked_on_any_rank(any(session.should_stop for session in sessions))


def _copies_of(rules: tuple[Rule, ...]) -> tuple[Rule, ...]:
    """Returns copies of rules, together: what they share, their copies share.

    Raises:
        SessionError: When one cannot be copied, as where it holds a lock or a file.
    """
    try:
        return copy.deepcopy(rules)
    except Exception as error:
        names = ", ".join(type(rule).__name__ for rule in rules)
        raise SessionError(
            f"detectors: {names} cannot be copied ({describe(error)}); expected detectors that copy.deepcopy copies, "
            "because each session gets its own: give one that holds a lock or a file a __deepcopy__"
        ) from error


def asked_on_any_rank(asked: bool) -> bool:
    """Returns whether ``asked`` is true on any rank of ``torch.distributed``; a collective where there are several."""
    if not is_one_of_several():
        return asked
    distributed = torch.distributed
    is_on_cpu = any(name in str(distributed.get_backend()) for name in ("gloo", "mpi"))
    device = torch.device("cpu") if is_on_cpu else torch.accelerator.current_accelerator()
    flag = torch.tensor(int(asked), dtype=torch.int32, device=device)
    distributed.all_reduce(flag, distributed.ReduceOp.MAX)
    return bool(flag.item())
