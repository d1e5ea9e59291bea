"""Whether a prediction was correct, and by how much it was wrong, from the datapoint that a page keeps."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

IGNORED_LABEL = -100
"""The label that torch's cross entropy leaves out by default."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Verdict:
    """What is known about one datapoint.

    Attributes:
        is_correct: Whether it was right.
        label: Its class; None when there is not exactly one.
        prediction: The class with the largest output; None when there is not exactly one, and with a NaN output.
        loss: ``scores["loss"]``; None when it was not kept, or is no single number.
        margin: The largest output minus that of the label, the mean over all positions; 0 where it was right, NaN
            with a NaN output or a label that is no class; None without outputs and labels of a classifier.
    """

    is_correct: bool
    label: int | None = None
    prediction: int | None = None
    loss: float | None = None
    margin: float | None = None


def judge(kept: Any) -> Verdict | None:
    """Judges a datapoint, or returns None when nothing says whether it was right.

    ``correct``, or else ``scores["correct"]``, decides: right is what is 1 or True, of an array throughout. Without
    it, the largest of the ``outputs`` has to be that of the label, at every position. For that ``outputs`` (or its
    ``logits``, or its only entry) is an array with one axis more than the integer ``labels``, the classes: the last,
    the first or the second. Positions labelled -100 are left out.

    Args:
        kept: What the page holds under the name ``datapoint``; anything but a mapping says nothing.
    """
    if not isinstance(kept, Mapping):
        return None
    scores = kept.get("scores")
    scores = scores if isinstance(scores, Mapping) else {}
    stated = _is_true(kept.get("correct", scores.get("correct")))
    by_class = _compare_classes(_values(kept.get("outputs")), _values(kept.get("labels")))
    if stated is None and by_class is None:
        return None
    found = by_class or Verdict(is_correct=False)
    return Verdict(
        is_correct=found.is_correct if stated is None else stated,
        label=found.label,
        prediction=found.prediction,
        loss=_number(scores.get("loss")),
        margin=found.margin,
    )


def _is_true(value: Any) -> bool | None:
    values = _values(value)
    return None if values is None or not values.size else bool((values == 1).all())


def _number(value: Any) -> float | None:
    values = _values(value)
    return None if values is None or values.size != 1 else float(values.reshape(()))


def _values(value: Any) -> npt.NDArray[Any] | None:
    """Returns an array of real numbers, or None; of a mapping the ``logits`` or the only entry."""
    if isinstance(value, Mapping):
        value = value.get("logits", next(iter(value.values())) if len(value) == 1 else None)
    if isinstance(value, (list, tuple)) and not all(isinstance(item, (bool, int, float)) for item in value):
        return None
    if not isinstance(value, (np.ndarray, bool, int, float, list, tuple)):
        return None
    array = np.asarray(value)
    return None if array.dtype.kind in "cO" else array


def _compare_classes(outputs: npt.NDArray[Any] | None, labels: npt.NDArray[Any] | None) -> Verdict | None:
    if outputs is None or labels is None or labels.dtype.kind not in "biu":
        return None
    if outputs.ndim > labels.ndim + 1 and outputs.shape[0] == 1:
        outputs = outputs[0]  # a batch of one
    axis = _class_axis(outputs.shape, labels.shape)
    if axis is None:
        return None
    rows = np.moveaxis(outputs, axis, -1).reshape(-1, outputs.shape[axis]).astype(np.float64)
    classes = labels.reshape(-1).astype(np.int64)
    rows, classes = rows[classes != IGNORED_LABEL], classes[classes != IGNORED_LABEL]
    if not classes.size:
        return None
    predictions = rows.argmax(1)
    largest = rows.max(1)  # NaN where there is one
    is_class = (classes >= 0) & (classes < rows.shape[1])
    own = np.where(is_class, rows[np.arange(len(rows)), np.where(is_class, classes, 0)], np.nan)
    with np.errstate(invalid="ignore"):
        margin = float(np.where(largest == own, 0.0, largest - own).mean())
    single = len(rows) == 1
    return Verdict(
        is_correct=bool(((predictions == classes) & ~np.isnan(largest)).all()),
        label=int(classes[0]) if single else None,
        prediction=int(predictions[0]) if single and not np.isnan(largest[0]) else None,
        margin=margin,
    )


def _class_axis(outputs: tuple[int, ...], labels: tuple[int, ...]) -> int | None:
    for axis in (-1, 0, 1):
        if -len(outputs) <= axis < len(outputs) and outputs[axis] > 1:
            positions = list(outputs)
            del positions[axis]
            if tuple(positions) == labels:
                return axis
    return None
