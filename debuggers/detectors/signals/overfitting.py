"""A validation loss that leaves the training loss behind, or that no longer falls."""

import math

from debuggers.detectors.running_window import RunningWindow
from debuggers.detectors.signal_detector import SignalDetector

LIMIT = 0.1
PERIOD = 3
PATIENCE = 10
TRAINING_PATIENCE = 5
DELTA = 0.01


class _OfValidations(SignalDetector):
    """Follows the mean training loss between validations."""

    signals = frozenset({"validation/loss"})
    context = frozenset({"loss"})

    def __init__(self) -> None:
        super().__init__()
        self._sum, self._count = 0.0, 0
        self._first = self._train = math.nan

    def inform(self, step: int, signal: str, value: float) -> None:
        """Takes a training loss."""
        if math.isfinite(value):
            self._first = value if math.isnan(self._first) else self._first
            self._sum += value
            self._count += 1

    def _train_loss(self) -> float:
        """The mean of the training losses since the last validation, or of the period before if there were none."""
        if self._count:
            self._train = self._sum / self._count
            self._sum, self._count = 0.0, 0
        return self._train


class Overfitting(_OfValidations):
    """The validation loss is above the training loss by a tenth of it, and has risen by a tenth of what it had gained.

    It has gained the difference between the first training loss and its lowest; at least as much as its lowest counts.
    Each validation loss counts as the mean of the last three; the training loss as the mean since the last validation,
    and it must be lower than when the validation loss was lowest. The gap by itself (Overfit of SageMaker Debugger)
    is normal: a model that fits its training data has one, and trains soundly as long as the validation loss falls.
    """

    kind = "overfitting"
    level = "warning"
    rule = (
        "(validation - training) / |training| > 0.1 (Overfit of SageMaker Debugger), and the mean of 3 validation "
        "losses > its lowest + 0.1 max(lowest, first training loss - lowest), while the training loss fell"
    )
    evidence = "the validation loss {value:.4g} has risen above {threshold:.4g}, while the training loss fell"

    def __init__(self) -> None:
        super().__init__()
        self._recent = RunningWindow(PERIOD)
        self._lowest = self._train_at_lowest = math.inf

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        train = self._train_loss()
        if not math.isfinite(value) or math.isnan(train):
            return None
        self._recent.push(value)
        if not self._recent.is_full:
            return None
        mean = self._recent.mean
        if mean < self._lowest:
            self._lowest, self._train_at_lowest = mean, train
            return None
        limit = self._lowest + LIMIT * max(abs(self._lowest), self._first - self._lowest)
        is_apart = mean - train > LIMIT * abs(train)
        return (mean, limit) if mean > limit and is_apart and train < self._train_at_lowest else None


class Overtraining(_OfValidations):
    """Neither loss gets better: that of validation for 10 validations, that of training for 5.

    Better means lower by 0.01 of the best so far. Only told: a training that has converged costs time, nothing else.
    """

    kind = "overtraining"
    level = "info"
    rule = (
        "validation loss no better than its best for 10 validations, training loss for 5, by 0.01 of it (Overtraining "
        "of SageMaker Debugger, whose delta is absolute)"
    )
    evidence = "no better for {value:.0f} validations, {threshold:.0f} or more"

    def __init__(self) -> None:
        super().__init__()
        self._best = self._best_train = math.inf
        self._since = self._since_train = 0

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        train = self._train_loss()
        self._best, self._since = _better(value, self._best, self._since)
        self._best_train, self._since_train = _better(train, self._best_train, self._since_train)
        is_over = self._since >= PATIENCE and self._since_train >= TRAINING_PATIENCE
        return (float(self._since), float(PATIENCE)) if is_over else None


def _better(value: float, best: float, since: int) -> tuple[float, int]:
    """The best value so far, and how many values were no better since."""
    if math.isfinite(value) and (math.isinf(best) or value < best - DELTA * abs(best)):
        return value, 0
    return best, since + 1
