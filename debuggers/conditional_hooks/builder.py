"""Builds conditional hooks, and checks what they are made of."""

from collections.abc import Callable, Iterable
from os import PathLike
from typing import Annotated, Any, Self, TypeVar

from msgspec import Meta
from tracker_adapters.artifacts import AlertLevel
from tracker_adapters.errors import ArtifactError
from tracker_adapters.values.base import check_name
from tracker_adapters.values.checked_values import PositiveInteger, check_value

from debuggers.conditional_hooks.events import HookEvent
from debuggers.conditional_hooks.expression import Expression, compile_expression
from debuggers.conditional_hooks.hook import Action, ConditionalHook, Predicate
from debuggers.conditional_hooks.patterns import LayerPatterns
from debuggers.conditional_hooks.vocabulary import HookAction, HookTrigger
from debuggers.errors import DebuggerConfigError, FindingError

_Step = Annotated[int, Meta(ge=0, description="integers of at least 0")]
_Member = TypeVar("_Member", HookTrigger, HookAction)


class HookBuilder:
    """Builds a conditional hook.

    ::

        hook = (
            HookBuilder("Layer Monitor")
            .trigger(HookTrigger.EVERY_FORWARD)
            .action(HookAction.INSPECT_TENSOR)
            .layer_patterns(["attention.*"])
            .max_executions(100)
            .build()
        )
        hook_id = session.hooks.register_hook(hook)

    Each method but ``build`` returns the builder.
    """

    def __init__(self, name: str) -> None:
        """Begins a hook.

        Args:
            name: What results, alerts and messages call it.

        Raises:
            DebuggerConfigError: For what is no name.
        """
        try:
            self._name = check_name("hook", name)
        except ArtifactError as error:
            raise DebuggerConfigError(str(error)) from None
        self._trigger: HookTrigger | None = None
        self._actions: list[Action] = []
        self._patterns = LayerPatterns(())
        self._condition: Expression | None = None
        self._predicate: Predicate | None = None
        self._n: int | None = None
        self._steps: frozenset[int] | None = None
        self._kinds: frozenset[str] | None = None
        self._max_executions: int | None = None

    def trigger(
        self,
        trigger: HookTrigger,
        *,
        n: int | None = None,
        steps: Iterable[int] | None = None,
        condition: str | Predicate | None = None,
        kinds: Iterable[str] | None = None,
        level: AlertLevel | None = None,
    ) -> Self:
        """Says when the hook acts.

        Args:
            trigger: When.
            n: Of ``EVERY_N_STEPS``.
            steps: Of ``AT_STEPS``.
            condition: Of ``ON_CONDITION``; the other triggers take one, too. See ``condition``.
            kinds: Of ``ON_FINDING``: kinds such as ``exploding_gradient``, of any level.
            level: Of ``ON_FINDING``, instead of kinds: the lowest level; ``warning`` by default.

        Raises:
            DebuggerConfigError: For a wrong value, or one that the trigger does not take.
        """
        self._trigger = _member(trigger, HookTrigger)
        self._n, self._steps, self._kinds = n, None if steps is None else frozenset(steps), _kinds(kinds)
        for name, value, owner in (
            ("n", n, HookTrigger.EVERY_N_STEPS),
            ("steps", self._steps, HookTrigger.AT_STEPS),
            ("kinds", self._kinds, HookTrigger.ON_FINDING),
            ("level", level, HookTrigger.ON_FINDING),
        ):
            if value is not None and trigger is not owner:
                raise self._error(f"{name} is {value!r} with HookTrigger.{trigger.name}; only {owner.name} takes it")
        check_value(f"hook {self._name!r}: level", level, AlertLevel | None, DebuggerConfigError)
        if kinds is not None and level is not None:
            raise self._error(f"kinds is {kinds!r} and level is {level!r}; expected one of the two")
        self._level: AlertLevel = level or "warning"
        if trigger is HookTrigger.EVERY_N_STEPS:
            check_value(f"hook {self._name!r}: n", n, PositiveInteger, DebuggerConfigError)
        if trigger is HookTrigger.AT_STEPS:
            if not self._steps:
                raise self._error("HookTrigger.AT_STEPS has no steps; expected some, such as steps=[0, 10]")
            for step in self._steps:
                check_value(f"hook {self._name!r}: steps: {step!r}", step, _Step, DebuggerConfigError)
        return self if condition is None else self.condition(condition)

    def condition(self, condition: str | Predicate) -> Self:
        """Says what must hold besides.

        Args:
            condition: An expression, such as ``"l2_norm > 10 and step > 100"``; or a function that takes the tensor's
                ``TensorSummary`` and returns whether the hook acts. An expression is cheaper where it asks for
                ``step`` or ``executions``: while that part is false, nothing is measured.

        Raises:
            DebuggerConfigError: For an expression that cannot be compiled; the message shows the place.
        """
        if isinstance(condition, str):
            try:
                self._condition, self._predicate = compile_expression(condition), None
            except DebuggerConfigError as error:
                raise self._error(str(error)) from None
        elif callable(condition):
            self._condition, self._predicate = None, condition
        else:
            raise self._error(f"condition is {condition!r}; expected an expression or a function of a TensorSummary")
        return self

    def action(
        self,
        action: HookAction,
        *,
        callback: Callable[[HookEvent], Any] | None = None,
        message: str | None = None,
        level: AlertLevel | None = None,
        folder: str | PathLike[str] | None = None,
        steps: int | None = None,
        exception: type[Exception] | None = None,
    ) -> Self:
        """Adds something that the hook does.

        Args:
            action: What.
            callback: Of ``CALLBACK``. It runs on the training thread: training goes on when it returns, and not
                before. One that takes longer than a second is told once, afterwards; one that raises is counted and
                told once. Random numbers that it draws from the global generators do not change the training.
            message: Of ``ALERT``; by default a sentence about the event.
            level: Of ``ALERT``: ``info``, ``warning`` (the default) or ``error``.
            folder: Of ``SAVE_TENSOR``: a folder for pages, made when it does not exist.
            steps: Of ``MEASURE``: how many steps; 100 by default.
            exception: Of ``RAISE``: a type that takes a message; ``FindingError`` by default.

        Raises:
            DebuggerConfigError: For a wrong value, or one that the action does not take.
        """
        action = _member(action, HookAction)
        for name, value, owner in (
            ("callback", callback, HookAction.CALLBACK),
            ("message", message, HookAction.ALERT),
            ("level", level, HookAction.ALERT),
            ("folder", folder, HookAction.SAVE_TENSOR),
            ("steps", steps, HookAction.MEASURE),
            ("exception", exception, HookAction.RAISE),
        ):
            if value is not None and action is not owner:
                raise self._error(f"{name} is {value!r} with HookAction.{action.name}; only {owner.name} takes it")
        if action is HookAction.CALLBACK and not callable(callback):
            raise self._error(f"callback is {callback!r}; expected a function that takes a HookEvent")
        check_value(f"hook {self._name!r}: level", level, AlertLevel | None, DebuggerConfigError)
        check_value(f"hook {self._name!r}: message", message, str | None, DebuggerConfigError)
        if folder is not None and not isinstance(folder, (str, PathLike)):
            raise self._error(f"folder is {folder!r}; expected a path")
        check_value(f"hook {self._name!r}: steps", steps, PositiveInteger | None, DebuggerConfigError)
        if exception is not None and not (isinstance(exception, type) and issubclass(exception, Exception)):
            raise self._error(f"exception is {exception!r}; expected a type of exceptions, such as RuntimeError")
        self._actions.append(
            Action(
                kind=action,
                callback=callback,
                message=message or "",
                level=level or "warning",
                folder=folder,
                steps=steps or 100,
                exception=exception or FindingError,
            )
        )
        return self

    def layer_patterns(self, patterns: Iterable[str]) -> Self:
        """Chooses layers by their names; all leaf modules by default. See ``LayerPatterns``.

        Args:
            patterns: Regular expressions that match whole names, such as ``attention.*``, or patterns as in
                ``fnmatch``, such as ``*.linear1``.

        Raises:
            DebuggerConfigError: For what is no list of texts.
        """
        if isinstance(patterns, str):
            raise self._error(f"layer_patterns is {patterns!r}; expected a list, such as [{patterns!r}]")
        self._patterns = LayerPatterns(tuple(patterns))
        return self

    def max_executions(self, most: int) -> Self:
        """Limits how often the hook acts.

        Raises:
            DebuggerConfigError: Unless it is an integer of at least 1.
        """
        check_value(f"hook {self._name!r}: max_executions", most, PositiveInteger, DebuggerConfigError)
        self._max_executions = most
        return self

    def build(self) -> ConditionalHook:
        """Returns the hook.

        Raises:
            DebuggerConfigError: Without a trigger or an action, and where they do not fit together.
        """
        if self._trigger is None:
            raise self._error("it has no trigger; expected .trigger(HookTrigger.EVERY_FORWARD) or another one")
        if not self._actions:
            raise self._error("it has no action; expected .action(HookAction.INSPECT_TENSOR) or another one")
        hook = ConditionalHook(
            name=self._name,
            trigger=self._trigger,
            actions=tuple(self._actions),
            patterns=self._patterns,
            condition=self._condition,
            predicate=self._predicate,
            n=self._n or 1,
            steps=self._steps or frozenset(),
            kinds=self._kinds or frozenset(),
            level=self._level,
            max_executions=self._max_executions,
        )
        if hook.trigger is HookTrigger.ON_CONDITION and hook.condition is None and hook.predicate is None:
            raise self._error("HookTrigger.ON_CONDITION has no condition; expected one, such as 'l2_norm > 10'")
        if hook.trigger is HookTrigger.EVERY_FORWARD and hook.has(HookAction.RECORD_GRADIENT):
            raise self._error("RECORD_GRADIENT with EVERY_FORWARD: outputs are no gradients; expected EVERY_BACKWARD")
        if hook.has(HookAction.NOTIFY) and hook.trigger is not HookTrigger.ON_FINDING:
            raise self._error(f"NOTIFY with {hook.trigger.name}: it sends a finding; expected ON_FINDING")
        if not hook.looks_at_tensors and hook.needs_values:
            raise self._error(
                f"HookTrigger.{hook.trigger.name} concerns a step, and the condition a tensor; expected a condition of "
                "step and executions"
            )
        return hook

    def _error(self, what: str) -> DebuggerConfigError:
        return DebuggerConfigError(f"hook {self._name!r}: {what}")


def _member(value: _Member, kind: type[_Member]) -> _Member:
    if not isinstance(value, kind):
        known = ", ".join(f"{kind.__name__}.{member.name}" for member in kind)
        raise DebuggerConfigError(f"{kind.__name__} is {value!r}; expected one of {known}")
    return value


def _kinds(kinds: Iterable[str] | None) -> frozenset[str] | None:
    if kinds is None:
        return None
    found = frozenset([kinds] if isinstance(kinds, str) else kinds)
    if not found or not all(isinstance(kind, str) for kind in found):
        raise DebuggerConfigError(f"kinds is {kinds!r}; expected kinds of findings, such as ['exploding_gradient']")
    return found
