"""What a user wants done about findings, as hooks."""

from __future__ import annotations

import difflib
import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, TypeAlias, get_args

from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.emitter import Emitter

from debuggers.conditional_hooks.vocabulary import HookAction, HookTrigger
from debuggers.detectors.depth import ExplodingByDepth
from debuggers.gradients.health import WEIGHED_KINDS
from debuggers.observed_training.invariants import INVARIANTS
from stepscope.errors import SessionError
from stepscope.runs.live_run import run_of

if TYPE_CHECKING:
    from debuggers.conditional_hooks.builder import HookBuilder
    from debuggers.conditional_hooks.events import HookEvent
    from debuggers.conditional_hooks.hook import ConditionalHook

Reaction: TypeAlias = str | type[Exception] | Callable[["HookEvent"], Any]
"""The name of an action, an exception to raise, or a function to call."""
OnFinding: TypeAlias = Mapping[str, Reaction | Sequence[Reaction]]
"""What to do, by the kind of a finding, or by the lowest level: ``info``, ``warning`` or ``error``."""

ACTIONS = (
    HookAction.LOG, HookAction.NOTIFY, HookAction.STOP, HookAction.RAISE, HookAction.MEASURE, HookAction.SAVE_TENSOR,
    HookAction.SNAPSHOT, HookAction.PAUSE,
)  # fmt: skip
_OF_SESSIONS = WEIGHED_KINDS | {ExplodingByDepth.kind}
"""Kinds that a session finds whatever its rules about signals are."""
_OF_REPORTS = frozenset(invariant.name for invariant in INVARIANTS)
_PREFIX = "on_finding/"
"""How the names of hooks begin that are made of ``on_finding``."""
_log = logging.getLogger(__name__)
_EXPECTED = "a function, an exception type, " + ", ".join(repr(str(action)) for action in ACTIONS) + " or 'measure:20'"


def hooks_on_findings(on_finding: object, *, known: Iterable[str], run: Emitter | None) -> list[ConditionalHook]:
    """Returns a hook for each kind or level.

    Args:
        on_finding: See ``OnFinding``; None for nothing.
        known: Kinds of findings, to tell a wrong spelling; others are taken as well.
        run: Where the session emits: a warning says if no sink of it posts notifications.

    Raises:
        SessionError: For anything else, naming it, and for kinds that are not known before a report is made.
    """
    if on_finding is None:
        return []
    if not isinstance(on_finding, Mapping):
        raise SessionError(f"on_finding is {on_finding!r}; expected a mapping, such as {{'error': 'stop'}}")
    kinds = {*known, *_OF_SESSIONS}
    hooks = [_hook(key, reactions, kinds) for key, reactions in on_finding.items()]
    live = run_of(run)
    notifies = any(hook.has(HookAction.NOTIFY) for hook in hooks)
    if notifies and live is not None and all(getattr(sink, "type", "") != "webhook" for sink in live.sinks):
        _log.warning(
            "the run has no sink 'webhook', so notifications are only stored; expected one in "
            "open_run(..., sinks=[...]), or a later sync to it"
        )
    return hooks


def warn_of_unknown_kinds(hook: ConditionalHook, known: Iterable[str]) -> None:
    """Warns of kinds that no rule of a session finds, as where the spelling is wrong: nothing would ever be done.

    Args:
        hook: One of ``hooks_on_findings``, or of the user.
        known: As for ``hooks_on_findings``, of the session that is to act.
    """
    kinds = {*known, *_OF_SESSIONS}
    where = "on_finding" if hook.name.startswith(_PREFIX) else f"hook {hook.name!r}"
    for kind in sorted(set(hook.kinds) - kinds):
        close = _close(kind, kinds)
        _log.warning(
            "%s: no rule of this session finds %r, so that nothing is done; expected the kind of one of its findings, "
            "such as %r, or a level: %s",
            where,
            kind,
            close or "non_finite_loss",
            ", ".join(get_args(AlertLevel)),
        )


def _hook(key: object, reactions: object, kinds: set[str]) -> ConditionalHook:
    if not isinstance(key, str) or not key:
        raise SessionError(f"on_finding has the key {key!r}; expected the kind of a finding or a level")
    from debuggers.conditional_hooks.builder import HookBuilder  # takes time, and most sessions have no such hook

    builder = HookBuilder(f"{_PREFIX}{key}")
    if key in get_args(AlertLevel):
        builder.trigger(HookTrigger.ON_FINDING, level=key)  # type: ignore[arg-type]
    elif key in _OF_REPORTS - kinds:
        raise SessionError(
            f"on_finding: {key!r} is judged over many steps, when a report is made, so that nothing can act on it; "
            "expected another kind of finding, or a level"
        )
    elif key not in kinds and (close := _close(key, kinds)):
        raise SessionError(f"on_finding: no rule finds {key!r}; did you mean {close!r}?")
    else:
        builder.trigger(HookTrigger.ON_FINDING, kinds=[key])
    several = list(reactions) if isinstance(reactions, (list, tuple)) else [reactions]
    if not several:
        raise SessionError(f"on_finding: {key!r} has no action; expected {_EXPECTED}")
    for reaction in several:
        _add(builder, key, reaction)
    return builder.build()


def _close(key: str, kinds: set[str]) -> str:
    """What is spelled nearly like a key; packages and users may have kinds of their own that are a little like it."""
    return next(iter(difflib.get_close_matches(key, {*kinds, *get_args(AlertLevel)}, n=1, cutoff=0.9)), "")


def _add(builder: HookBuilder, key: str, reaction: object) -> None:
    if isinstance(reaction, type) and issubclass(reaction, Exception):
        builder.action(HookAction.RAISE, exception=reaction)
        return
    if callable(reaction):
        builder.action(HookAction.CALLBACK, callback=reaction)
        return
    name, colon, argument = reaction.partition(":") if isinstance(reaction, str) else ("", "", "")
    if name == HookAction.MEASURE and colon and argument.isdecimal() and int(argument):
        builder.action(HookAction.MEASURE, steps=int(argument))
    elif name in ACTIONS and not colon:
        builder.action(HookAction(name))
    else:
        raise SessionError(f"on_finding: {key!r} has {reaction!r}; expected {_EXPECTED}, or a list of these")
