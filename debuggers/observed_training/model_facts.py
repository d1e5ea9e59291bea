"""Facts of a model, its optimizer and its surroundings, as they are at one moment."""

from collections.abc import Mapping
from typing import Any

from debuggers.diagnosis.facts import GroupFacts, LayerFacts, ParameterFacts
from debuggers.gradients.parameters import Parameters
from debuggers.instrumentation.joined_optimizers import members_of
from debuggers.instrumentation.module_selection import WRAPPERS
from debuggers.observed_training.holders import holder_of
from debuggers.observed_training.initial_parameters import MOST, InitialParameters
from debuggers.torch_import import torch
from debuggers.torch_internals.modules import WRAPPED, BatchNorm, Dropout, children_of

_MOST_GROUPS = 64
_UNSTORED = frozenset(["params", "initial_lr", "param_names"])


class FirstFacts:
    """What a model and its optimizer were when their first step came.

    Attributes:
        initial: The model's parameters; None before the first step.
        layers: The model's layers.
        acts_by_mode: Whether some layer acts differently in eval mode.
        groups: Of the optimizer.
        scheduler: Its type; a loop may make it after the first step.
    """

    def __init__(self, model: torch.nn.Module, optimizer: torch.optim.Optimizer | None, parameters: Parameters) -> None:
        self._model, self._optimizer, self._parameters = model, optimizer, parameters
        self.initial: InitialParameters | None = None
        self.layers: tuple[LayerFacts, ...] = ()
        self.acts_by_mode = False
        self.groups: tuple[GroupFacts, ...] = ()
        self.scheduler = ""
        self._has_trained_statistics: bool | None = None

    def look(self) -> None:
        """Looks at the model and the optimizer as they are now."""
        self.layers = layer_facts(self._model)
        tables = {f"{layer.name}.weight" for layer in self.layers if layer.kind.startswith("Embedding")}
        self.initial = InitialParameters(self._parameters, self._optimizer, tables)
        self.acts_by_mode = any(layer.kind.startswith(("Dropout", "BatchNorm")) for layer in self.layers)
        self.groups = () if self._optimizer is None else group_facts(self._optimizer)

    def parameters(self, roles: Mapping[str, str], *, waits: bool) -> tuple[ParameterFacts, ...]:
        """Returns the facts of the parameters.

        Which of those without gradients change is looked at only if it may wait for the device.
        """
        if self.initial is None:
            return ()
        frozen = {
            name: tensor
            for name, tensor in zip(self._parameters.names, self._parameters.tensors, strict=True)
            if roles.get(name) in ("frozen", "without_gradient")
        }
        return self.initial.facts(roles, self.initial.changed(frozen) if waits and frozen else ())

    def has_trained_statistics(self) -> bool:
        """Whether all batch norms were trained before, as far as is known by now: new ones have weights of 1."""
        if self._has_trained_statistics is None and self.initial is not None and self.initial.ready():
            norms = {f"{layer.name}.weight" for layer in self.layers if layer.kind.startswith("BatchNorm")}
            spreads = [one.std for one in self.initial.facts({}) if one.name in norms]
            self._has_trained_statistics = bool(spreads) and min(spreads) > 0
        return bool(self._has_trained_statistics)

    def look_for_scheduler(self) -> None:
        """Looks whether the optimizer has a scheduler now."""
        if self._optimizer is not None:
            self.scheduler = next(filter(None, map(scheduler_of, members_of(self._optimizer))), "")

    def is_on_host(self) -> bool:
        """Whether the values have arrived from a device."""
        return self.initial is None or self.initial.ready()


def layer_facts(model: torch.nn.Module) -> tuple[LayerFacts, ...]:
    """Returns the model's leaf modules in order, at most 1,000."""
    found: list[LayerFacts] = []
    _walk(model, "", found)
    return tuple(found[:MOST])


def _walk(module: torch.nn.Module, prefix: str, found: list[LayerFacts]) -> None:
    children = {key: child for key, child in children_of(module).items() if child is not None}
    if not children:
        value = module.p if isinstance(module, Dropout) else None
        value = module.momentum if isinstance(module, BatchNorm) else value
        is_number = isinstance(value, int | float)
        number = float(value) if is_number else None  # type: ignore[arg-type]
        found.append(LayerFacts(name=prefix.rstrip("."), kind=type(module).__name__, value=number))
        return
    for key, child in children.items():
        if len(found) < MOST:
            hidden = key in WRAPPED or isinstance(module, WRAPPERS)
            _walk(child, prefix if hidden else f"{prefix}{key}.", found)


def group_facts(optimizer: torch.optim.Optimizer) -> tuple[GroupFacts, ...]:
    """Returns the numbers and flags of each group of an optimizer; a tensor on a device is left out."""
    return tuple(
        GroupFacts(parameters=len(group["params"]), settings=_settings(group), initial_rate=_initial_rate(group))
        for group in optimizer.param_groups[:_MOST_GROUPS]
    )


def _initial_rate(group: Mapping[str, Any]) -> float | None:
    rate = _setting(group.get("initial_lr"))
    return rate if isinstance(rate, float) else None


def _settings(group: Mapping[str, Any]) -> dict[str, float | bool | tuple[float, ...] | None]:
    known = {name: _setting(value) for name, value in group.items() if name not in _UNSTORED}
    return {name: value for name, value in known.items() if value is not None or group[name] is None}


def _setting(value: Any) -> float | bool | tuple[float, ...] | None:
    if isinstance(value, torch.Tensor):
        value = value.detach().item() if value.numel() == 1 and value.is_cpu else None
    if isinstance(value, bool):
        return value
    if isinstance(value, int | float):
        return float(value)
    if isinstance(value, (tuple, list)):
        numbers = [_setting(one) for one in value]
        return tuple(float(one) for one in numbers if isinstance(one, int | float)) if numbers else None
    return None


def scheduler_of(optimizer: torch.optim.Optimizer) -> str:
    """Returns the class of an optimizer's scheduler; ``""`` where there is none.

    ``LRScheduler`` where it leaves its mark in the optimizer and is not found. It takes tens of milliseconds.
    """
    kinds = (torch.optim.lr_scheduler.LRScheduler, torch.optim.lr_scheduler.ReduceLROnPlateau)
    if (found := holder_of(optimizer, "optimizer", kinds)) is not None:
        return type(found).__name__
    return "LRScheduler" if any("initial_lr" in group for group in optimizer.param_groups) else ""


_FLAGS = frozenset({
    "requires_grad", "require_grad", "requires_grads", "required_grad", "requires_gradient", "require_gradient",
    "requiresGrad", "require_grads",
})  # fmt: skip
"""``requires_grad``, which modules do not have, and how it is misspelt."""


def flagged_modules(model: torch.nn.Module) -> list[str]:
    """Returns the modules that were given a ``requires_grad`` of their own, which none of their parameters has.

    And modules and parameters that were given one that is not quite spelt so. The assignment makes a new attribute, and
    changes no parameter. A module some of whose parameters are as it says may mean something else by it.
    """
    found = []
    for name, module in model.named_modules():
        if not _FLAGS.isdisjoint(vars(module)):
            found += _flags_against(name or type(module).__name__, module, list(module.parameters()))
    for name, parameter in model.named_parameters():
        if not _FLAGS.isdisjoint(vars(parameter)):
            found += _flags_against(name, parameter, [parameter])
    return found


def _flags_against(name: str, flagged: object, parameters: list[torch.nn.Parameter]) -> list[str]:
    """What is set to other than what all the parameters have."""
    flags = {attribute: vars(flagged)[attribute] for attribute in sorted(_FLAGS & vars(flagged).keys())}
    return [
        f"{name}.{attribute} = {flag}"
        for attribute, flag in flags.items()
        if isinstance(flag, bool) and parameters and all(one.requires_grad is not flag for one in parameters)
    ]


def frozen_batch_norms(model: torch.nn.Module) -> list[str]:
    """Returns the batch norms whose statistics follow the batches though their parameters are frozen."""
    return [
        name
        for name, module in model.named_modules()
        if isinstance(module, BatchNorm)
        and module.training
        and module.track_running_stats
        and module.affine
        and not any(parameter.requires_grad for parameter in module.parameters(recurse=False))
    ]


def world_size() -> int:
    """Returns the number of ranks of ``torch.distributed``; 1 without."""
    distributed = torch.distributed
    return distributed.get_world_size() if distributed.is_available() and distributed.is_initialized() else 1
