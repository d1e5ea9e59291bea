"""Classes that outweigh others, in the targets and in what a model predicts."""

from debuggers.detectors.signal_detector import SignalDetector

LARGEST_RATIO = 10.0
LABELS = 500
EXCESS = 0.5
LASTING = 10


class ClassImbalance(SignalDetector):
    """The most frequent class has more than 10 times the labels of the rarest, after 500 labels.

    Only told: many sound data sets are imbalanced. The other part of SageMaker Debugger's rule, more than 70 % wrong
    predictions after 500 labels, says nothing about balance: so begins every training with many classes.
    """

    kind = "class_imbalance"
    level = "info"
    signals = frozenset({"targets/rarest_share_so_far"})
    context = frozenset({"inputs/batch_size", "targets/top_share_so_far"})
    rule = "labels of the most frequent class / of the rarest > 10, after 500 labels (ClassImbalance of SageMaker)"
    evidence = "the most frequent class has {value:.3g} times the labels of the rarest, more than {threshold:.0f}"

    def __init__(self) -> None:
        super().__init__()
        self._labels, self._top_share = 0.0, 0.0

    def inform(self, step: int, signal: str, value: float) -> None:
        """Takes the length of a batch, and the share of the most frequent class."""
        if signal == "inputs/batch_size":
            self._labels += value
        else:
            self._top_share = value

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if self._labels < LABELS or not value > 0:
            return None
        ratio = self._top_share / value
        return (ratio, LARGEST_RATIO) if ratio > LARGEST_RATIO else None


class OneClassPredicted(SignalDetector):
    """The class that is predicted most has a share that exceeds that of the most frequent target by half of the batch.

    At 10 sampled steps in a row after the first hundred steps. The limits are stepscope's own. It needs no confusion
    matrix. Only told: a training with many classes begins like this.
    """

    kind = "one_class_predicted"
    level = "info"
    signals = frozenset({"top_predicted_share"})
    context = frozenset({"targets/top_share"})
    rule = "share of the most predicted class - share of the most frequent target > 0.5, 10 times (stepscope's choice)"
    evidence = "one class is {value:.0%} of the predictions, more than {threshold:.0%}"
    consecutive = LASTING

    def __init__(self) -> None:
        super().__init__()
        self._top_share = 1.0
        self._first_step: int | None = None

    def inform(self, step: int, signal: str, value: float) -> None:
        """Takes the share of the most frequent target."""
        self._top_share = value

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if self._first_step is None:
            self._first_step = step
        if step < self._first_step + 100:
            return None
        limit = self._top_share + EXCESS
        return (value, limit) if value > limit else None
