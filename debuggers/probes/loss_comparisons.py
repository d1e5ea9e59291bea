"""Probes that only compute losses: zeroed inputs, train against eval mode, the loss against its expectation."""

import math
from typing import Any

from debuggers.probes.batch import LABELS, Arguments, ProbedBatch
from debuggers.probes.losses import expected_at_start, main_output
from debuggers.signals.modes import acts_in_training
from debuggers.torch_import import torch
from debuggers.utils import apply_tensor_op, tensors_in

UNCHANGED = 1e-6
"""Outputs that change by less than this share of the largest are the same (stepscope's own choice)."""
DIFFERENT = 0.1
"""Share by which losses differ that are told as different (stepscope's own choice)."""


def zeroed_inputs(batch: ProbedBatch, model: torch.nn.Module) -> dict[str, Any]:
    """The loss with all floating inputs zero; integers where there are none. Masks and labels stay."""
    model.eval()
    with torch.no_grad():
        call, zeroed = batch.call(model), batch.call(model, _zeroed)
    main_output(call.outputs)  # there must be one
    pairs = list(zip(tensors_in(call.outputs), tensors_in(zeroed.outputs), strict=True))
    change = max(float((one - other).abs().max()) for one, other in pairs)
    largest = max(float(one.abs().max()) for one, _ in pairs)
    ignores = change <= UNCHANGED * largest
    loss, without = float(call.loss), float(zeroed.loss)
    said = "the outputs stay the same" if ignores else f"the outputs change by up to {change:.3g}"
    text = f"with inputs of zero the loss is {without:.4g} instead of {loss:.4g}, and {said}"
    return {"loss": loss, "zeroed": without, "ignores_inputs": ignores, "change": change, "evidence": text}


def _zeroed(args: tuple[Any, ...], kwargs: dict[str, Any]) -> Arguments:
    inputs = {name: value for name, value in kwargs.items() if name not in LABELS and "mask" not in name}
    floating = any(one.is_floating_point() for one in tensors_in((args, inputs)))

    def zero(tensor: torch.Tensor) -> torch.Tensor:
        return torch.zeros_like(tensor) if tensor.is_floating_point() or not floating else tensor

    return apply_tensor_op(zero, args), {**kwargs, **apply_tensor_op(zero, inputs)}


def modes(batch: ProbedBatch, model: torch.nn.Module) -> dict[str, Any]:
    """The loss in training mode and in eval mode."""
    with torch.no_grad():
        model.eval()
        held = float(batch.call(model).loss)
        model.train()
        acting = [name or "the model" for name, module in model.named_modules() if acts_in_training(module)]
        training = float(batch.call(model).loss)
    differs = abs(training - held) > DIFFERENT * max(abs(training), abs(held))
    layers = f"; layers that act otherwise in training: {', '.join(acting[:5])}" if acting else ""
    text = f"the loss is {training:.4g} in training mode and {held:.4g} in eval mode{layers}"
    return {"train": training, "eval": held, "differs": differs, "layers": acting[:5], "evidence": text}


def initial_loss(batch: ProbedBatch, model: torch.nn.Module, kind: str, steps: int) -> dict[str, Any]:
    """The loss against that of a model that knows nothing yet; comparable before the first step."""
    with torch.no_grad():
        call = batch.call(model)
    loss, targets = float(call.loss), tensors_in(batch.targets)
    expected = expected_at_start(kind, main_output(call.outputs), targets[0]) if targets else None
    if expected is None:
        raise ValueError(f"the expectation of this loss ({kind or 'of unknown kind'}) is not known")
    value, formula = expected
    when = "before the first step" if not steps else f"after {steps:,} steps"
    ratio = loss / value if value else math.inf
    text = f"{when} the loss is {loss:.4g}; a model that knows nothing has about {value:.4g} ({formula})"
    return {"loss": loss, "expected": value, "ratio": ratio, "at_start": not steps, "evidence": text}
