"""A conditional hook as data; ``HookBuilder`` makes it."""

from collections.abc import Callable
from dataclasses import dataclass, field
from os import PathLike
from typing import TYPE_CHECKING, Any, TypeAlias

from tracker_adapters.artifacts import AlertLevel

from debuggers.conditional_hooks.expression import Expression
from debuggers.conditional_hooks.patterns import LayerPatterns
from debuggers.conditional_hooks.vocabulary import TENSOR_TRIGGERS, HookAction, HookTrigger
from debuggers.detectors import Finding
from debuggers.errors import FindingError
from debuggers.measurement.tensor_summary import TensorSummary

if TYPE_CHECKING:
    from debuggers.conditional_hooks.events import HookEvent

Predicate: TypeAlias = Callable[[TensorSummary], bool]


_LEVELS: dict[AlertLevel, int] = {"info": 0, "warning": 1, "error": 2}


@dataclass(frozen=True, slots=True, kw_only=True)
class Action:
    """An action with its settings.

    Attributes:
        kind: What is done.
        callback: Of ``CALLBACK``: what is called.
        message: Of ``ALERT``: what it says; empty for a sentence about the event.
        level: Of ``ALERT``.
        folder: Of ``SAVE_TENSOR``: where pages go; None for the session's ``output_dir``, or else only into the run.
        steps: Of ``MEASURE``: how many steps.
        exception: Of ``RAISE``: its type; it gets a sentence about the event.
    """

    kind: HookAction
    callback: Callable[["HookEvent"], Any] | None = None
    message: str = ""
    level: AlertLevel = "warning"
    folder: str | PathLike[str] | None = None
    steps: int = 100
    exception: type[Exception] = FindingError


@dataclass(frozen=True, slots=True, kw_only=True)
class ConditionalHook:
    """What ``HookBuilder.build`` returns and ``register_hook`` takes.

    Attributes:
        name: Stands in results, alerts and messages.
        trigger: When it acts.
        actions: What it does, in order.
        patterns: Which layers it looks at.
        condition: What must hold besides; None for nothing.
        predicate: The same as a function of the tensor's summary.
        n: Of ``EVERY_N_STEPS``.
        steps: Of ``AT_STEPS``.
        kinds: Of ``ON_FINDING``: the kinds of findings; empty for all.
        level: Of ``ON_FINDING`` without kinds: the lowest level.
        max_executions: How often it acts at most; None for no limit.
    """

    name: str
    trigger: HookTrigger
    actions: tuple[Action, ...]
    patterns: LayerPatterns = field(default_factory=lambda: LayerPatterns(()))
    condition: Expression | None = None
    predicate: Predicate | None = None
    n: int = 1
    steps: frozenset[int] = frozenset()
    kinds: frozenset[str] = frozenset()
    level: AlertLevel = "warning"
    max_executions: int | None = None

    @property
    def looks_at_tensors(self) -> bool:
        """Whether it looks at tensors of layers, and not at steps as a whole."""
        return self.trigger in TENSOR_TRIGGERS

    @property
    def is_forward(self) -> bool:
        """Whether the tensors that it looks at are those of the forward pass."""
        if self.trigger is HookTrigger.EVERY_BACKWARD:
            return False
        return self.trigger is HookTrigger.EVERY_FORWARD or not self.has(HookAction.RECORD_GRADIENT)

    @property
    def needs_values(self) -> bool:
        """Whether a tensor must be measured to know whether it acts."""
        return self.predicate is not None or (self.condition is not None and bool(self.condition.of_values))

    def is_about(self, finding: Finding) -> bool:
        """Whether it acts on a finding, as far as kind, level and name say."""
        is_meant = finding.kind in self.kinds if self.kinds else _LEVELS[finding.level] >= _LEVELS[self.level]
        return is_meant and (self.patterns(finding.name) or self.patterns(finding.name.rpartition(".")[0]))

    def has(self, kind: HookAction) -> bool:
        """Whether an action is among its actions."""
        return any(action.kind is kind for action in self.actions)

    def is_due(self, step: int) -> bool:
        """Whether it may act at a step, as far as its trigger says."""
        if self.trigger is HookTrigger.EVERY_N_STEPS:
            return step % self.n == 0
        return self.trigger is not HookTrigger.AT_STEPS or step in self.steps
