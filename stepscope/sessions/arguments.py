"""Checks what a session is made of."""

from __future__ import annotations

import logging
from collections.abc import Iterable, Sequence
from os import PathLike
from typing import TYPE_CHECKING, Any, cast

from tracker_adapters.emitter import Emitter
from tracker_adapters.wording import counted

from debuggers.detectors import Detector, SignalDetector
from debuggers.detectors.finding import name_some
from debuggers.detectors.signals.front import Rule
from debuggers.detectors.signals.rule_check import check_rule
from debuggers.errors import DebuggerConfigError
from debuggers.instrumentation.joined_optimizers import JoinedOptimizers, members_of
from debuggers.torch_import import torch
from debuggers.torch_internals.optimizers import has_hooks, held_parameters
from stepscope.errors import SessionError
from stepscope.sessions.config import DebugConfig

if TYPE_CHECKING:
    from stability import NumericalStabilityManager

_log = logging.getLogger(__name__)
_SEVERAL = "Several that train one model are watched by watch(model, [first, second])"


def only_config(given: DebugConfig, config: object) -> DebugConfig:
    """Returns the configuration that came in the model's place.

    Raises:
        SessionError: When another one was given as ``config``.
    """
    if config is not None:
        raise SessionError(f"two configurations were given, {given!r} and config={config!r}; expected one")
    return given


def check_run(run: object) -> None:
    """Checks that what a session emits to is a run, or an emitter that was scoped.

    Raises:
        SessionError: For a path, and for what is no emitter.
    """
    if run is None or isinstance(run, Emitter):
        return
    path = str(run) if isinstance(run, str | PathLike) else "runs/exp1"
    what = "" if isinstance(run, str | PathLike) else f"{type(run).__name__} "
    raise SessionError(f"run is {what}{run!r}; expected an open run, such as run=stepscope.open_run({path!r})")


def check_session(
    model: object,
    optimizer: object,
    config: DebugConfig,
    stability: NumericalStabilityManager | None,
    scaler: torch.amp.GradScaler | None,
) -> None:
    """Checks that a session has what its configuration and its stability manager need.

    Raises:
        SessionError: When ``model``, ``optimizer`` or ``stability`` is something else, one that is needed is missing,
            or ``scaler`` is not the manager's, which would take scaled
            gradients for unscaled ones.
    """
    check_order(model, optimizer)
    if model is not None and not isinstance(model, torch.nn.Module):
        raise SessionError(f"model is {_named(model)}; expected a torch.nn.Module, or None")
    if optimizer is not None and not isinstance(optimizer, torch.optim.Optimizer):
        hint = f". {_SEVERAL}" if isinstance(optimizer, list | tuple | dict) else ""
        raise SessionError(f"optimizer is {_named(optimizer)}; expected a torch.optim.Optimizer, or None{hint}")
    wanted = [name for name in ("updates", "weights", "optimizer_state") if getattr(config, name)]
    if wanted and model is not None and optimizer is None:
        raise SessionError(f"the configuration has {wanted[0]}=True and there is no optimizer; expected one")
    if model is not None and optimizer is not None:
        _warn_of_strangers(model, optimizer)
    if stability is None:
        return
    if model is None or optimizer is None:
        raise SessionError(
            "a stability manager needs a model and an optimizer; expected DebugSession(model, optimizer)"
        )
    from stability import NumericalStabilityManager

    if not isinstance(stability, NumericalStabilityManager):
        raise SessionError(f"stability is of type {type(stability).__name__}; expected a NumericalStabilityManager")
    if scaler is not None and scaler is not stability.scaler:
        theirs = "none" if stability.scaler is None else "another one"
        raise SessionError(
            f"the session has a GradScaler and its stability manager has {theirs}; "
            "expected NumericalStabilityManager(..., scaler=scaler) with the same scaler"
        )


def checked_detectors(given: object, model: object, config: DebugConfig) -> tuple[Rule, ...]:
    """Returns the rules that a user gave.

    Raises:
        SessionError: For what is no list of detectors, and for one that needs what this session does not collect.
    """
    if isinstance(given, (str, Detector, SignalDetector)) or not isinstance(given, Iterable):
        raise SessionError(f"detectors is {given!r}; expected a list of detectors, such as [VarianceBounds(1e-4, 100)]")
    rules = tuple(given)
    if rules and (model is None or not config.diagnosis):
        missing = "no model" if model is None else "diagnosis=False"
        raise SessionError(f"the session has detectors, and {missing}; expected a model and diagnosis=True")
    try:
        for rule in rules:
            check_rule(rule)
    except DebuggerConfigError as error:
        raise SessionError(f"detectors: {error}") from None
    return rules


def check_order(model: object, optimizer: object) -> None:
    """Checks that a model and its optimizer are not given in each other's place.

    Raises:
        SessionError: When they are; also where only one of them was given.
    """
    if isinstance(model, torch.optim.Optimizer) or isinstance(optimizer, torch.nn.Module):
        raise SessionError(
            f"model is {_named(model)} and optimizer is {_named(optimizer)}; expected the model first, then its "
            "optimizer: (model, optimizer)"
        )


def with_hooks(optimizer: Any, name: str = "optimizer") -> Any:
    """Returns the optimizer whose steps can be watched: the one in a wrapper without hooks of its own.

    Args:
        optimizer: An optimizer; anything else is returned as it is.
        name: How the message calls it.

    Raises:
        SessionError: For an optimizer that was made without torch's constructor, and wraps none.
    """
    if not isinstance(optimizer, torch.optim.Optimizer) or isinstance(optimizer, JoinedOptimizers):
        return optimizer
    inner: Any = optimizer
    while not has_hooks(inner, of_its_own=True):
        wrapped = getattr(inner, "optimizer", None)
        if not isinstance(wrapped, torch.optim.Optimizer):
            break
        inner = wrapped
    if not has_hooks(inner):
        kind = type(inner).__name__
        raise SessionError(
            f"{name} is of type {kind}, which did not call torch.optim.Optimizer.__init__ and has no optimizer in "
            f"{kind}.optimizer; expected an optimizer whose steps can be watched"
        )
    return inner


def joined(model: object, optimizer: torch.optim.Optimizer | Sequence[torch.optim.Optimizer]) -> torch.optim.Optimizer:
    """Returns what was given as optimizer; a list or tuple of several as one.

    Warns of parameters that several of them hold.

    Raises:
        SessionError: For an empty list, an element that is no optimizer, and one that is given twice.
    """
    if not isinstance(optimizer, list | tuple):
        return cast("torch.optim.Optimizer", with_hooks(optimizer))  # checked with the model
    if not optimizer:
        raise SessionError(
            f"optimizer is an empty {type(optimizer).__name__}; expected a torch.optim.Optimizer, or a list of them"
        )
    optimizer = [with_hooks(one, f"optimizer[{place}]") for place, one in enumerate(optimizer)]
    for place, one in enumerate(optimizer):
        if not isinstance(one, torch.optim.Optimizer):
            raise SessionError(f"optimizer[{place}] is {_named(one)}; expected a torch.optim.Optimizer")
        first = next(index for index, other in enumerate(optimizer) if other is one)
        if first < place:
            raise SessionError(
                f"optimizer[{first}] and optimizer[{place}] are the same {type(one).__name__}; expected each optimizer "
                "once"
            )
    if len(optimizer) == 1:
        return optimizer[0]
    _warn_of_shared(model, optimizer)
    return JoinedOptimizers(optimizer)


def _warn_of_shared(model: object, optimizers: Sequence[torch.optim.Optimizer]) -> None:
    """Warns of parameters that several optimizers hold, by the names that the model has for them."""
    named = model.named_parameters() if isinstance(model, torch.nn.Module) else ()
    names = {id(parameter): name for name, parameter in named}
    holders: dict[int, list[int]] = {}
    for place, one in enumerate(optimizers):
        for key in dict.fromkeys(map(id, held_parameters(one))):
            holders.setdefault(key, []).append(place)
    shared = [key for key, places in holders.items() if len(places) > 1]
    if shared:
        kinds = [f"optimizer[{place}] ({type(optimizers[place]).__name__})" for place in holders[shared[0]]]
        _log.warning(
            "%s hold the same %s (%s): each of them changes what the other one has changed; expected each parameter "
            "in one optimizer",
            " and ".join(kinds),
            counted(len(shared), "parameters"),
            name_some([names.get(key, "of no given model") for key in shared]),
        )


def _named(value: object) -> str:
    """Names what was given, by its type; the repr of a model or optimizer takes pages."""
    if value is None:
        return "None"
    kind = type(value).__name__
    return f"{kind} {value!r}"[:80] if isinstance(value, str | int | float) else f"of type {kind}"


def _warn_of_strangers(model: torch.nn.Module, optimizer: torch.optim.Optimizer) -> None:
    """Warns of an optimizer that holds none of the model's parameters; the diagnosis names it as a cause."""
    mine = {id(parameter) for parameter in model.parameters()}
    members = members_of(optimizer)
    for place, member in enumerate(members):
        theirs = list(map(id, held_parameters(member)))
        if mine and theirs and mine.isdisjoint(theirs):
            _log.warning(
                "none of %s's %s is one of the %s's %d: its steps do not train the model, unless that is called with "
                "them (torch.func.functional_call); expected an optimizer that was made from model.parameters() after "
                "the model was complete",
                "the optimizer" if len(members) == 1 else f"optimizer[{place}]",
                counted(len(theirs), "parameters"), type(model).__name__, len(mine),
            )  # fmt: skip
