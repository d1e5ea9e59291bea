"""A rule of another package: every session runs it once the package is installed."""

from debuggers.detectors import SignalDetector


class AccuracyDrop(SignalDetector):
    """The accuracy of a validation is more than 0.1 below the best one so far.

    It sees what the loop passes to ``session.validation(metrics={"accuracy": ...})``.
    """

    kind = "accuracy_drop"
    level = "warning"
    signals = frozenset({"validation/accuracy"})
    rule = "accuracy < best accuracy - 0.1"
    evidence = "the accuracy {value:.3g} is below {threshold:.3g}, 0.1 under the best"

    def __init__(self):
        super().__init__()
        self._best = 0.0

    def check(self, step, signal, value):
        limit = self._best - 0.1
        self._best = max(self._best, value)
        return (value, limit) if value < limit else None
