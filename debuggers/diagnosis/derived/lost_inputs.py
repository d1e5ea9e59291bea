"""One of several inputs that is the same number in every row and step, so that the model learns without it."""

from dataclasses import dataclass

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.series import Series

FEWEST = 10
"""Sampled steps from which it is said of all: one that is dropped in half of the steps is so by chance in 1 of 1,000.
"""


@dataclass(frozen=True, slots=True, kw_only=True)
class LostInput:
    """What such an input is.

    Attributes:
        position: Which of the inputs, from 0.
        value: What all its values are.
        steps: How many sampled steps show it.
        since: The first of them.
        reader: The layer whose weights say so, too, of zeros; "" of other numbers.
    """

    position: int
    value: float
    steps: int
    since: int
    reader: str = ""


def lost_input(evidence: Evidence) -> LostInput | None:
    """Returns the input that is one number throughout; None where that may be meant.

    Zeros may be a state that a recurrence begins with, or marks of what is missing: they count where a layer of their
    own reads them, whose weights never get a gradient that its bias does get. Ones may be weights of rows, or marks of
    what counts. Models that are trained beside others may have no use for it in their own loss.
    """
    facts = evidence.facts
    value, at, width, apart = (evidence[f"inputs/one_value{name}"] for name in ("", "_at", "_width", "_apart"))
    if len(value) < FEWEST or facts.joins_calls or facts.trained_with_others:
        return None
    if not all(len(series) == len(value) and _is_one(series) for series in (value, at, width, apart)):
        return None
    if value.first == 1:  # as weights of rows, or marks of what counts, where all do
        return None
    reader = _reader_of_zeros(evidence, int(width.first)) if value.first == 0 else ""
    if not (reader if value.first == 0 else apart.first):
        return None
    return LostInput(position=int(at.first), value=value.first, steps=len(value), since=value.first_step, reader=reader)


def _is_one(series: Series) -> bool:
    """Whether all values are the same; NaN is not."""
    return bool((series.values == series.values[0]).all())


def _reader_of_zeros(evidence: Evidence, width: int) -> str:
    """The linear layer of so many inputs whose weights get a gradient of zeros in all steps, while its bias gets one.

    The gradient of weights is that of the outputs times the inputs: only zeros that enter take it away alone.
    """
    linear = {layer.name for layer in evidence.facts.layers if layer.kind == "Linear"}
    gradients = evidence.of_tensors("gradient_rms")
    for one in evidence.facts.parameters:
        layer, _, kind = one.name.rpartition(".")
        if layer not in linear or kind != "weight" or one.shape[-1] != width:
            continue
        own, bias = gradients.get(one.name), gradients.get(f"{layer}.bias")
        if own is None or bias is None or len(own) < FEWEST or not len(bias):
            continue
        if not own.values.any() and bias.values.all():
            return layer
    return ""
