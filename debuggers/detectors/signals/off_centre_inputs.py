"""Inputs whose mean is far from zero."""

import math

from debuggers.detectors.signal_detector import SignalDetector

SAMPLES = 500
LARGEST_MEAN = 0.2


class OffCentreInputs(SignalDetector):
    """The mean of the inputs is off zero by more than 0.2, over the samples so far, after 500.

    Only told: pixels between 0 and 1 train well in many models, and a model may standardise its inputs itself.
    """

    kind = "off_centre_inputs"
    level = "info"
    signals = frozenset({"inputs/mean"})
    context = frozenset({"inputs/batch_size"})
    rule = "|mean of the inputs| > 0.2, after 500 samples (CheckInputImages of SageMaker Debugger)"
    evidence = "the mean {value:.3g} of the inputs is off zero by more than {threshold:.1f}"

    def __init__(self) -> None:
        super().__init__()
        self._batch = 1.0
        self._samples = self._sum = 0.0

    def inform(self, step: int, signal: str, value: float) -> None:
        """Takes the length of a batch."""
        self._batch = value

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if not math.isfinite(value):
            return None
        self._samples += self._batch
        self._sum += value * self._batch
        if self._samples < SAMPLES:
            return None
        mean = self._sum / self._samples
        return (mean, math.copysign(LARGEST_MEAN, mean)) if abs(mean) > LARGEST_MEAN else None
