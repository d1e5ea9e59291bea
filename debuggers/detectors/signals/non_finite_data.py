"""NaN and infinity in what enters and leaves the model."""

from debuggers.detectors.signal_detector import SignalDetector


class NonFiniteData(SignalDetector):
    """Inputs, outputs or targets of the model hold NaN or infinity.

    Only told: attention masks and masked logits consist of -inf, and NaN marks missing values that a sound loss leaves
    out. Where it does harm, the loss or a gradient is not finite either, which is an error.
    """

    kind = "non_finite_data"
    level = "info"
    signals = frozenset({"inputs/non_finite", "outputs/non_finite", "targets/non_finite"})
    rule = "any NaN or infinity (ExplodingTensor of SageMaker Debugger)"
    evidence = "NaN or infinite elements: {value:.0f}"

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        return (value, 0.0) if value > 0 else None
