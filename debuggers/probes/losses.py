"""Losses that a probe can compute by itself, from the kind that the training's graph showed."""

import math
from collections.abc import Callable
from typing import Any, Final

from torch.nn import functional

from debuggers.diagnosis.facts import LossFacts
from debuggers.torch_import import torch
from debuggers.utils import tensors_in

Loss = Callable[[Any, Any], torch.Tensor]
KNOWN: Final[dict[str, Callable[..., torch.Tensor]]] = {
    "cross_entropy": functional.cross_entropy,
    "nll": functional.nll_loss,
    "mse": functional.mse_loss,
    "l1": functional.l1_loss,
    "smooth_l1": functional.smooth_l1_loss,
    "bce": functional.binary_cross_entropy,
    "bce_with_logits": functional.binary_cross_entropy_with_logits,
}
_OF_CLASSES = ("cross_entropy", "nll")


def loss_of_kind(facts: LossFacts | None) -> Loss | None:
    """Returns the loss of the kind and sign that facts say, as the mean; None for a kind that is not known."""
    if facts is None or facts.kind not in KNOWN:
        return None
    function, of_classes = KNOWN[facts.kind], facts.kind in _OF_CLASSES
    sign, broadcast = -1.0 if facts.negated else 1.0, facts.broadcast

    def loss(outputs: Any, targets: Any) -> torch.Tensor:
        output, target = main_output(outputs), tensors_in(targets)[0]
        if of_classes:
            if not target.is_floating_point() and output.ndim > 2 and output.shape[:-1] == target.shape:
                output, target = output.flatten(0, -2), target.flatten()
        else:
            target = target.to(output.dtype)
            if output.numel() == target.numel() and not broadcast:
                output = output.reshape(target.shape)
        return sign * function(output, target)

    return loss


def main_output(outputs: Any) -> torch.Tensor:
    """Returns the first tensor of a model's outputs that has a dimension, else the first: some begin with their loss.

    Raises:
        ValueError: Without a tensor.
    """
    found = tensors_in(outputs)
    if not found:
        raise ValueError(f"the model returned {type(outputs).__name__}, which holds no tensor; expected outputs")
    return next((one for one in found if one.ndim), found[0])


def expected_at_start(kind: str, outputs: torch.Tensor, targets: torch.Tensor) -> tuple[float, str] | None:
    """Returns the loss of a model that knows nothing but the targets' mean, and its formula; None if not known.

    That is log K for K classes, log 2 for two, and the variance of the targets for the squared error.
    """
    if kind in _OF_CLASSES and not targets.is_floating_point():
        classes = outputs.shape[-1 if outputs.shape[:-1] == targets.shape else 1]
        return math.log(classes), f"log {classes}"
    if kind in ("bce", "bce_with_logits"):
        return math.log(2), "log 2"
    if kind == "mse":
        return float(targets.double().var(unbiased=False)), "the variance of the targets"
    return None
