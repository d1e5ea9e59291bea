"""What can be done about a fault so that it does not come again; each remedy can be undone."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any, Protocol

from debuggers.first_nan.origin import NonFiniteOrigin
from debuggers.instrumentation.hooks import Hooks
from debuggers.instrumentation.model_replay import plain_model
from debuggers.torch_import import torch
from debuggers.utils import apply_tensor_op
from stability.recovery.config import RecoveryConfig
from stability.recovery.excluded_datapoints import ExcludedDatapoints
from stability.results.step import NaNStats

_NARROW = {"float16": torch.float16, "bfloat16": torch.bfloat16}


@dataclass(frozen=True, slots=True)
class Fault:
    """A step that is perhaps faulty. ``origin`` is the operator that a replay has named, or None."""

    step: int
    model: torch.nn.Module
    optimizer: torch.optim.Optimizer
    scaler: torch.amp.GradScaler | None
    stats: NaNStats
    origin: NonFiniteOrigin | None

    @property
    def is_faulty(self) -> bool:
        """Whether something is not finite on some rank; a GradScaler's own overflow is no fault."""
        stats = self.stats
        if stats["scaler_step"]:
            return False
        return not (stats["loss_finite"] and stats["gradients_finite"]) or self.concerns_several_ranks

    @property
    def concerns_several_ranks(self) -> bool:
        """Whether ranks have agreed about it: what is done then has to be the same on all of them."""
        return bool(self.stats["ranks"])


class Remedy(Protocol):
    """Something that may help; it may be applied several times."""

    name: str

    def apply(self, fault: Fault) -> str | None:
        """Does it, and says what in a sentence without a full stop; None where it does not fit the fault."""

    def has_failed(self, fault: Fault) -> bool:
        """Whether a fault that comes soon after ``apply`` shows that it did not help."""

    def undo(self) -> str:
        """Takes back what the last ``apply`` did, and says so."""

    def close(self) -> None:
        """Leaves nothing behind in model and optimizer."""


class ExcludeDatapoints:
    """Leaves the datapoints that trigger a fault out of the training."""

    name = "exclude_datapoints"

    def __init__(self, excluded: ExcludedDatapoints) -> None:
        self._excluded = excluded
        self._last: frozenset[int] = frozenset()

    def apply(self, fault: Fault) -> str | None:
        """See the class."""
        origin = fault.origin
        if origin is None or not origin.datapoints or fault.concerns_several_ranks:
            return None
        self._last = frozenset(origin.datapoints) - self._excluded.indices
        self._excluded.add(self._last)
        return f"datapoints {_listed(self._last)} are excluded: they trigger {origin.title}" if self._last else None

    def has_failed(self, fault: Fault) -> bool:
        """Not when other datapoints trigger the new fault."""
        found = () if fault.origin is None else fault.origin.datapoints or ()
        return not set(found) - self._excluded.indices

    def close(self) -> None:
        """The datapoints stay out: the sampler is the caller's."""

    def undo(self) -> str:
        """See the class."""
        self._excluded.remove(self._last)
        return f"datapoints {_listed(self._last)} are back"


class WidenOperator:
    """Lets one module compute in float32 although autocast is on."""

    name = "widen_operator"

    def __init__(self) -> None:
        self._widened: dict[str, Hooks] = {}

    def apply(self, fault: Fault) -> str | None:
        """See the class. It fits where a narrow tensor went into the operator, or came out of it.

        Not where the model's own parameters are narrow: they would meet float32 in the next product.
        """
        origin = fault.origin
        if origin is None or fault.concerns_several_ranks:
            return None
        if not any(operand.dtype in _NARROW for operand in (*origin.inputs, *origin.outputs)):
            return None
        if any(parameter.dtype in _NARROW.values() for parameter in fault.model.parameters()):
            return None
        modules = dict(plain_model(fault.model).named_modules())
        module = modules.get(origin.module)
        if module is None or origin.module in self._widened:
            return None
        hooks = self._widened[origin.module] = Hooks()
        widening = _Widening(next(fault.model.parameters()).device.type)
        hooks.add_change(module, widening.enter, widening.leave)
        return f"{origin.module} computes in float32: {origin.operator} left the range of its narrower dtype"

    def undo(self) -> str:
        """See the class."""
        name, hooks = self._widened.popitem()
        hooks.remove()
        return f"{name} computes under autocast again"

    def has_failed(self, fault: Fault) -> bool:
        """Not when another module is at fault."""
        return fault.origin is None or fault.origin.module in self._widened

    def close(self) -> None:
        """Removes the hooks."""
        while self._widened:
            self.undo()


class _Widening:
    """Autocast switched off during the calls of a module, which may nest."""

    def __init__(self, device_type: str) -> None:
        self._device_type = device_type
        self._open: list[ExitStack] = []

    def enter(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[tuple[Any, ...], dict[str, Any]]:
        context = ExitStack()
        context.enter_context(torch.autocast(self._device_type, enabled=False))
        self._open.append(context)
        return apply_tensor_op(_wide, args), apply_tensor_op(_wide, kwargs)

    def leave(self) -> None:
        if self._open:
            self._open.pop().close()


class ReduceLossScale:
    """Lowers the GradScaler's scale, before the next loss is scaled."""

    name = "reduce_loss_scale"

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._set: Callable[[], None] = lambda: None
        self._before = 1.0

    def apply(self, fault: Fault) -> str | None:
        """See the class. It fits where the loss is finite and the gradients are not."""
        scaler = fault.scaler
        if scaler is None or not scaler.is_enabled() or not fault.stats["loss_finite"] or fault.concerns_several_ranks:
            return None
        self._before = scaler.get_scale()
        wanted = self._before * self._factor
        self._set = _before_next_forward(fault.model, scaler, self._before)
        _before_next_forward(fault.model, scaler, wanted)()
        return f"the loss scale goes from {self._before:g} to {wanted:g}: gradients are not finite although the loss is"

    def undo(self) -> str:
        """See the class."""
        self._set()
        return f"the loss scale goes back to {self._before:g}"

    def has_failed(self, fault: Fault) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Nothing is left: the scale is the scaler's own."""


class LowerLearningRate:
    """Lets the optimizer step with a lower learning rate than its groups and their schedulers say.

    Between the steps the groups have their own rates: a scheduler that computes the next one finds what it left.
    """

    name = "lower_learning_rate"

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._lowered: dict[torch.optim.Optimizer, _LoweredRate] = {}
        self._applied: list[_LoweredRate] = []

    def apply(self, fault: Fault) -> str:
        """See the class. It always fits; it concerns the optimizer of the faulty step."""
        rates = dict.fromkeys(f"{float(group['lr']):g}" for group in fault.optimizer.param_groups)
        lowered = self._lowered.get(fault.optimizer)
        if lowered is None:
            lowered = self._lowered[fault.optimizer] = _LoweredRate(fault.optimizer)
        lowered.factor *= self._factor
        self._applied.append(lowered)
        return f"the learning rate, {', '.join(rates)}, is multiplied by {lowered.factor:g}"

    def undo(self) -> str:
        """See the class."""
        lowered = self._applied.pop()
        lowered.factor /= self._factor
        if lowered not in self._applied:
            lowered.factor = 1.0
            lowered.close()
            del self._lowered[lowered.optimizer]
        return f"the learning rate is multiplied by {lowered.factor:g}"

    def has_failed(self, fault: Fault) -> bool:
        """Always."""
        return True

    def close(self) -> None:
        """Removes the hooks."""
        while self._applied:
            self.undo()


class _LoweredRate:
    """Multiplies the learning rates of an optimizer by a factor while it steps."""

    def __init__(self, optimizer: torch.optim.Optimizer) -> None:
        self.optimizer, self.factor = optimizer, 1.0
        self._own: list[Any] = []
        self._hooks = Hooks()
        self._hooks.add_optimizer_pre_step(optimizer, self._lower)
        self._hooks.add_optimizer_post_step(optimizer, self._put_back)

    def close(self) -> None:
        self._hooks.remove()
        self._put_back(self.optimizer)

    def _lower(self, optimizer: torch.optim.Optimizer) -> None:
        self._put_back(optimizer)  # after a step that raised nobody else does
        self._own = [group["lr"] for group in optimizer.param_groups]
        for group in optimizer.param_groups:
            group["lr"] = group["lr"] * self.factor

    def _put_back(self, optimizer: torch.optim.Optimizer) -> None:
        for group, rate in zip(optimizer.param_groups, self._own, strict=False):
            group["lr"] = rate
        self._own = []


def remedies(config: RecoveryConfig, excluded: ExcludedDatapoints) -> list[Remedy]:
    """Returns the remedies that are switched on, in the order in which they are tried."""
    every: list[Remedy] = [
        ExcludeDatapoints(excluded),
        WidenOperator(),
        ReduceLossScale(config.loss_scale_factor),
        LowerLearningRate(config.learning_rate_factor),
    ]
    return [remedy for remedy in every if getattr(config, remedy.name)]


def _before_next_forward(model: torch.nn.Module, scaler: torch.amp.GradScaler, scale: float) -> Callable[[], None]:
    """Returns a function that sets the scale when the model is called next.

    Earlier, the gradients of the current step would be divided by another scale than they were multiplied by.
    """

    def schedule() -> None:
        hooks = Hooks()

        def change(*_: Any) -> None:
            hooks.remove()
            scaler.load_state_dict(scaler.state_dict() | {"scale": scale})

        hooks.add_before_forward(model, change)

    return schedule


def _wide(tensor: torch.Tensor) -> torch.Tensor:
    return tensor.float() if tensor.dtype in _NARROW.values() else tensor


def _listed(indices: frozenset[int]) -> str:
    return ", ".join(map(str, sorted(indices)))
