"""A hook that is registered: how often it acted, and whether it acts now."""

from dataclasses import dataclass

from debuggers.conditional_hooks.events import HookStatus
from debuggers.conditional_hooks.hook import ConditionalHook
from debuggers.conditional_hooks.vocabulary import HookTrigger
from debuggers.errors import ArgumentTypeError
from debuggers.measurement.tensor_summary import TensorSummary


@dataclass(slots=True)  # frozen ones take long to make
class _Counters:
    step: int
    executions: int

    @property
    def summary(self) -> TensorSummary:
        raise AssertionError("these conditions ask for no values")


@dataclass(frozen=True, slots=True)
class _Measured:
    step: int
    executions: int
    summary: TensorSummary


class RegisteredHook:
    """A hook with its state.

    Attributes:
        id: What ``register_hook`` returned.
        hook: What was registered.
        active: Whether it may act: it is enabled, and its executions are not used up.
        executions: How often it acted.
        failures: How often its condition or one of its actions failed.
        layers: The layers of the model that it looks at.
        is_forward: As of the hook; so is ``needs_values``. They are asked of each call of a layer.
    """

    __slots__ = (
        "_always_due",
        "_enabled",
        "_of_counters",
        "active",
        "executions",
        "failures",
        "hook",
        "id",
        "is_forward",
        "layers",
        "needs_values",
    )

    def __init__(self, hook_id: int, hook: ConditionalHook) -> None:
        self.id, self.hook = hook_id, hook
        self.is_forward, self.needs_values = hook.is_forward, hook.needs_values
        self._always_due = hook.trigger not in (HookTrigger.EVERY_N_STEPS, HookTrigger.AT_STEPS)
        self._of_counters = () if hook.condition is None else tuple(hook.condition.of_counters)
        self.executions = self.failures = 0
        self.layers: tuple[str, ...] = ()
        self.active = self._enabled = True

    def enable(self, enabled: bool) -> None:
        """Switches it on or off; its executions are counted on."""
        self._enabled = enabled
        self._update()

    def count(self) -> None:
        """Counts an execution."""
        self.executions += 1
        self._update()

    def may_act(self, step: int) -> bool:
        """Whether all holds that is known without measuring a tensor."""
        if not self.active or not (self._always_due or self.hook.is_due(step)):
            return False
        if self._of_counters:
            moment = _Counters(step, self.executions)
            for test in self._of_counters:
                if not test(moment):
                    return False
        return True

    def accepts(self, step: int, summary: TensorSummary) -> bool:
        """Whether the rest of its condition holds for a tensor.

        Raises:
            ArgumentTypeError: When a predicate returns something else than True and False.
        """
        hook = self.hook
        if hook.predicate is not None:
            answer = hook.predicate(summary)
            if answer is not True and answer is not False and type(answer).__name__ not in ("bool", "bool_"):
                raise ArgumentTypeError(
                    f"hook {hook.name!r}: its condition returned {answer!r}; expected True or False"
                )
            return bool(answer)
        if hook.condition is None:
            return True
        moment = _Measured(step, self.executions, summary)
        return all(test(moment) for test in hook.condition.of_values)

    def status(self) -> HookStatus:
        """Returns what ``list_hooks`` shows."""
        return HookStatus(
            id=self.id,
            name=self.hook.name,
            trigger=self.hook.trigger,
            enabled=self._enabled,
            executions=self.executions,
            failures=self.failures,
            layers=self.layers,
        )

    def _update(self) -> None:
        most = self.hook.max_executions
        self.active = self._enabled and (most is None or self.executions < most)
