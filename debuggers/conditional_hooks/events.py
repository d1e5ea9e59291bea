"""What a hook acts on, and what came of it."""

from dataclasses import dataclass
from functools import cached_property
from typing import Any

from debuggers.conditional_hooks.vocabulary import HookAction
from debuggers.detectors import Finding
from debuggers.measurement.measure import summarize
from debuggers.measurement.tensor_summary import TensorSummary
from debuggers.torch_import import torch


class HookEvent:
    """Why and on what a hook acts; what a callback gets.

    Attributes:
        hook: The hook's name.
        layer: The layer; of a finding what it is about; ``loss`` of a loss spike.
        step: The number of the step.
        is_forward: Whether the tensor is an output of the forward pass; else it is a gradient. None without a tensor.
        finding: Of ``ON_FINDING``: the finding.
        executions: How often the hook had acted before.
        given_step: The step that a caller of ``execute_hooks`` gave; else None.
    """

    def __init__(
        self,
        hook: str,
        layer: str,
        step: int,
        *,
        executions: int,
        is_forward: bool | None = None,
        source: torch.Tensor | None = None,
        finding: Finding | None = None,
        given_step: int | None = None,
    ) -> None:
        self.hook, self.layer, self.step, self.executions = hook, layer, step, executions
        self.is_forward, self.finding, self.given_step = is_forward, finding, given_step
        self._source = source

    @cached_property
    def tensor(self) -> torch.Tensor | None:
        """A copy of the tensor; None where the event concerns no single tensor, and after the hook's actions.

        It is made when it is first read: what is done to it does not reach the training.
        """
        with torch.no_grad():
            return None if self._source is None else self._source.detach().clone()

    @cached_property
    def summary(self) -> TensorSummary | None:
        """The tensor's statistics; None without a tensor. Reading it waits for the tensor's device."""
        return None if self._source is None else summarize([self._source.detach()])[0]

    @property
    def source(self) -> torch.Tensor | None:
        """The tensor itself, for those who only read it."""
        return self._source

    def release(self) -> None:
        """Lets the tensor go: a callback that keeps the event does not keep the graph's memory."""
        self._source = None

    def __repr__(self) -> str:
        return f"<HookEvent of {self.hook!r}: {self.layer} at step {self.step}>"


@dataclass(frozen=True, slots=True, kw_only=True)
class HookResult:
    """What one action of a hook did.

    Attributes:
        hook_id: What ``register_hook`` returned.
        hook: The hook's name.
        layer: The layer.
        step: The number of the step.
        action: The action.
        value: What it says it gives; see ``HookAction``. None if it failed.
        error: What it failed with; empty if it did not.
    """

    hook_id: int
    hook: str
    layer: str
    step: int
    action: HookAction
    value: Any = None
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class HookStatus:
    """A registered hook.

    Attributes:
        id: What ``register_hook`` returned.
        name: Its name.
        trigger: Its trigger.
        enabled: Whether it may act.
        executions: How often it has acted.
        failures: How often its condition or one of its actions failed.
        layers: The model's layers that it looks at; empty without a model, and for triggers that look at steps.
    """

    id: int
    name: str
    trigger: str
    enabled: bool
    executions: int
    failures: int
    layers: tuple[str, ...]
