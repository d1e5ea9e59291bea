"""The scores of a classifier: found in what it returns, and chosen by class."""

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from debuggers.errors import DebuggerConfigError
from debuggers.torch_import import torch

Logits = Callable[[Any], torch.Tensor]
TargetClass = int | Sequence[int] | torch.Tensor | None
_PASS_LOGITS = "pass logits=callable, which takes what the model returns and gives a tensor (batch, classes)"


def class_scores(output: Any, logits: Logits | None = None) -> torch.Tensor:
    """Returns a model's scores (batch, classes), in float32 or wider, with their graph.

    They are the output itself, its ``logits`` if it is a mapping or an object with such, or the first tensor of a
    tuple or list. Dense scores (batch, classes, height, width), or in three dimensions, are summed over the positions.

    Args:
        output: What the model returned.
        logits: Finds the scores in it instead.

    Raises:
        DebuggerConfigError: When there are none, or they have another shape, dtype or device.
    """
    scores = _found(output) if logits is None else logits(output)
    if not isinstance(scores, torch.Tensor):
        where = "the model" if logits is None else "logits"
        raise DebuggerConfigError(f"no scores: {where} returned {_shown(output, scores)}; {_PASS_LOGITS}")
    if scores.is_meta or not scores.is_floating_point():
        raise DebuggerConfigError(
            f"the scores are {scores.dtype} on {scores.device}; expected floating point with values: {_PASS_LOGITS}"
        )
    if scores.ndim in (0, 1, 3) or not scores.shape[1]:
        raise DebuggerConfigError(
            f"the scores have the shape {tuple(scores.shape)}; expected (batch, classes) or "
            f"(batch, classes, height, width): {_PASS_LOGITS}"
        )
    if scores.dtype != torch.float64:
        scores = scores.float()
    return scores.flatten(2).sum(2) if scores.ndim > 2 else scores


def chosen_classes(scores: torch.Tensor, target_class: int | list[int] | None) -> torch.Tensor:
    """Returns the class of each sample, (batch,) int64: by default the one with the highest score.

    Args:
        scores: (batch, classes).
        target_class: One for all, or one for each sample.

    Raises:
        DebuggerConfigError: For another number of classes than there are samples, or a class that does not exist.
    """
    samples, count = scores.shape
    if target_class is None:
        return scores.detach().argmax(1)
    wanted = [target_class] * samples if isinstance(target_class, int) else target_class
    if len(wanted) != samples:
        raise DebuggerConfigError(f"target_class has {len(wanted)} entries; expected one for each of {samples} samples")
    for number in (target_class,) if isinstance(target_class, int) else wanted:
        if not 0 <= number < count:
            raise DebuggerConfigError(f"target_class is {number}; expected a class from 0 to {count - 1}")
    return torch.tensor(wanted, dtype=torch.int64, device="cpu").to(scores.device, non_blocking=True)


def checked_target_class(target_class: TargetClass) -> int | list[int] | None:
    """Returns a target class as plain int: one, a list of them, or None.

    Raises:
        DebuggerConfigError: For anything but whole numbers.
    """
    if target_class is None:
        return None
    plain: Any = target_class.tolist() if hasattr(target_class, "tolist") else target_class
    try:
        return [_whole(number) for number in plain] if isinstance(plain, (list, tuple)) else _whole(plain)
    except TypeError as error:
        raise DebuggerConfigError(
            f"target_class is {target_class!r}; expected an int, a list or tensor with one for each sample, or None"
        ) from error


def _whole(number: Any) -> int:
    if isinstance(number, bool):
        raise TypeError("a bool is no class")
    return operator.index(number)


def _found(output: Any) -> Any:
    if isinstance(output, Mapping) and "logits" in output:
        return output["logits"]
    if hasattr(output, "logits"):
        return output.logits
    if isinstance(output, (tuple, list)):
        return next((item for item in output if isinstance(item, torch.Tensor)), None)
    return output


def _shown(output: Any, scores: Any) -> str:
    name = type(scores if scores is not None else output).__name__
    keys = f" with the keys {', '.join(map(str, scores))}" if isinstance(scores, Mapping) else ""
    return f"a {name}{keys}"
