"""Everyday faults that are planted into the sound trainings of the zoo, from outside of their loops."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass
from typing import Any

import torch
from torch import nn
from torch.nn import functional

from examples.zoo.cases import Watch

Plant = Callable[[nn.Module, Any, ExitStack], None]
"""Changes a model, its optimizer, or functions of torch, which the stack puts back."""

LOSSES = (
    "cross_entropy", "nll_loss", "mse_loss", "l1_loss", "smooth_l1_loss", "huber_loss", "binary_cross_entropy",
    "binary_cross_entropy_with_logits",
)  # fmt: skip
MODES = (nn.Dropout, nn.Dropout2d, nn.modules.batchnorm._BatchNorm)
"""Modules that do something else in eval mode."""


class UnsuitedError(Exception):
    """A training cannot have a fault, such as a wrong mode where no module has modes."""


@dataclass(frozen=True)
class Fault:
    """One way to spoil a training.

    Attributes:
        plant: Spoils it.
        codes: The code of what is then wrong, and those that are true of it as well.
    """

    plant: Plant
    codes: tuple[str, ...]


FAULTS: dict[str, Fault] = {}
"""By name."""


def planted(fault: Fault, watch: Watch, undo: ExitStack) -> Watch:
    """Returns a ``watch`` that plants a fault into each model before it is watched.

    Args:
        fault: Which one.
        watch: The one of the training.
        undo: Puts functions of torch back when it is closed.
    """

    def watch_spoilt(model: Any, optimizer: Any, **options: Any) -> Any:
        fault.plant(model, optimizer, undo)
        return watch(model, optimizer, **options)

    return watch_spoilt


def _fault(*codes: str) -> Callable[[Plant], Plant]:
    def register(plant: Plant) -> Plant:
        FAULTS[plant.__name__] = Fault(plant, codes)
        return plant

    return register


@_fault("learning_rate_too_high", "missing_warmup")
def rate_times_1000(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """The rate of all groups, unless a schedule sets it."""
    _scale_rates(optimizer, 1000)


@_fault("learning_rate_too_low")
def rate_over_3000(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """The rate of all groups, unless a schedule sets it."""
    _scale_rates(optimizer, 1 / 3000)


@_fault("schedule_collapsed")
def rate_collapses(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """A thousandth of the rate after the tenth step."""
    _check_without_schedule(optimizer)
    steps = iter(range(1, 1_000_000))
    optimizer.register_step_post_hook(lambda *_: _scale_rates(optimizer, 1e-3) if next(steps) == 10 else None)


@_fault("gradients_not_zeroed")
def gradients_never_zeroed(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """``zero_grad`` does nothing."""
    optimizer.zero_grad = model.zero_grad = lambda *_, **__: None


@_fault("no_update")
def step_left_out(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """``optimizer.step`` does nothing."""
    optimizer.step = lambda *_, **__: None


@_fault("parameters_not_in_optimizer")
def half_left_out(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """The parameters of the first half of the layers are in no group."""
    layers = _layers(model, 2)
    gone = {id(one) for layer in layers[: len(layers) // 2] for one in layer.parameters(recurse=False)}
    for group in optimizer.param_groups:
        group["params"] = [one for one in group["params"] if id(one) not in gone]
    if not any(group["params"] for group in optimizer.param_groups):
        raise UnsuitedError


@_fault("frozen_parameters")
def body_frozen(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """All but the last layer requires no gradient."""
    for layer in _layers(model, 2)[:-1]:
        for parameter in layer.parameters(recurse=False):
            parameter.requires_grad_(False)


@_fault("detached_parameters")
def body_detached(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """What a layer in the middle puts out is detached."""
    layers = _layers(model, 3)
    layers[len(layers) // 2].register_forward_hook(lambda _, __, out: out.detach() if torch.is_tensor(out) else out)


@_fault("poor_initialization", "exploding_gradients")
def weights_times_30(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """All weights are thirty times as large."""
    for weight in _weights(model):
        weight.data.mul_(30)


@_fault("unbroken_symmetry", "poor_initialization")
def weights_equal(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """All weights are 0.01."""
    for weight in _weights(model):
        weight.data.fill_(0.01)


@_fault("wrong_mode")
def always_evaluates(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """``train`` has no effect, and the model is in eval mode."""
    if not any(isinstance(module, MODES) for module in model.modules()):
        raise UnsuitedError
    model.eval()
    model.train = lambda mode=True: model  # type: ignore[method-assign]


@_fault("clipping_too_strong")
def clipped_to_nothing(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """The norm of all gradients is clipped to 1e-4."""
    _check_gradient_descent(optimizer)  # others divide by the gradients' own size
    own = [one for group in optimizer.param_groups for one in group["params"]]
    step = optimizer.step

    def clip_and_step(*arguments: Any, **options: Any) -> Any:
        nn.utils.clip_grad_norm_(own, 1e-4)
        return step(*arguments, **options)

    optimizer.step = clip_and_step


@_fault("over_regularized")
def decay_of_one(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """A weight decay of 1; of AdamW, which multiplies it with the rate, 0.05 a step."""
    for group in optimizer.param_groups:
        if "weight_decay" not in group:
            raise UnsuitedError
        group["weight_decay"] = max(1.0, 0.05 / group["lr"]) if isinstance(optimizer, torch.optim.AdamW) else 1.0


@_fault("over_regularized")
def dropout_of_95(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """Each dropout leaves a twentieth."""
    found = [module for module in model.modules() if isinstance(module, nn.Dropout | nn.Dropout2d)]
    if not found:
        raise UnsuitedError
    for module in found:
        module.p = 0.95


@_fault("inputs_not_normalized")
def inputs_far_from_zero(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """Inputs times 1,000, plus 3,000."""
    _change_inputs(model, lambda values: values * 1000 + 3000)


@_fault("inputs_constant")
def inputs_of_zeros(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """All inputs are zero."""
    _change_inputs(model, torch.zeros_like)


@_fault("non_finite_inputs")
def a_missing_value(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """One NaN in the inputs of the tenth call that trains."""
    calls = iter(range(1, 1_000_000))

    def lose_one(values: torch.Tensor) -> torch.Tensor:
        if not torch.is_grad_enabled() or next(calls) != 10:
            return values
        values = values.clone()
        values[(0,) * values.dim()] = float("nan")
        return values

    _change_inputs(model, lose_one)


@_fault("labels_unrelated")
def targets_shuffled(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """The targets of each batch in another order."""
    _change_losses(undo, LOSSES, lambda outputs, targets: (outputs, targets[torch.randperm(len(targets))]))


@_fault("single_class_labels")
def targets_of_one_class(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """All targets are class 0."""
    _change_losses(undo, ("cross_entropy", "nll_loss"), lambda outputs, targets: (outputs, torch.zeros_like(targets)))


@_fault("wrong_output_or_loss")
def softmax_twice(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """A cross entropy of probabilities."""
    _change_losses(undo, ("cross_entropy",), lambda outputs, targets: (outputs.softmax(1), targets))


@_fault("flipped_loss_sign")
def loss_negated(model: nn.Module, optimizer: Any, undo: ExitStack) -> None:
    """The backward pass of minus the loss."""
    backward = torch.Tensor.backward
    _replace(undo, torch.Tensor, "backward", lambda loss, *rest, **options: backward(-loss, *rest, **options))


def _check_without_schedule(optimizer: Any) -> None:
    if any("initial_lr" in group for group in optimizer.param_groups):
        raise UnsuitedError


def _check_gradient_descent(optimizer: Any) -> None:
    if not isinstance(optimizer, torch.optim.SGD):
        raise UnsuitedError


def _scale_rates(optimizer: Any, factor: float) -> None:
    _check_without_schedule(optimizer)
    for group in optimizer.param_groups:
        group["lr"] *= factor


def _weights(model: nn.Module) -> list[torch.Tensor]:
    return [one for one in model.parameters() if one.dim() >= 2 and one.requires_grad]


def _layers(model: nn.Module, fewest: int) -> list[nn.Module]:
    """The modules that have parameters themselves, in order."""
    layers = [module for module in model.modules() if next(module.parameters(recurse=False), None) is not None]
    if len(layers) < fewest:
        raise UnsuitedError
    return layers


def _change_inputs(model: nn.Module, change: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """Calls the model with others, as a loop would: hooks before the call would come after those of a session."""
    kind = type(model)

    def call(self: nn.Module, *inputs: Any, **options: Any) -> Any:
        first = inputs[0] if inputs else None
        if not torch.is_tensor(first) or not first.is_floating_point():
            raise UnsuitedError
        return kind.__call__(self, change(first), *inputs[1:], **options)

    model.__class__ = type(kind.__name__, (kind,), {"__call__": call})


def _change_losses(
    undo: ExitStack,
    names: tuple[str, ...],
    change: Callable[[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]],
) -> None:
    """Changes outputs and targets of each loss that trains."""
    for name in names:
        loss = getattr(functional, name)

        def changed(outputs: Any, targets: Any, *rest: Any, loss: Any = loss, **options: Any) -> Any:
            if torch.is_grad_enabled() and outputs.requires_grad:
                outputs, targets = change(outputs, targets)
            return loss(outputs, targets, *rest, **options)

        _replace(undo, functional, name, changed)


def _replace(undo: ExitStack, owner: Any, name: str, value: Any) -> None:
    undo.callback(setattr, owner, name, getattr(owner, name))
    setattr(owner, name, value)
