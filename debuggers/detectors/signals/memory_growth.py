"""Memory that grows step by step."""

import math

from debuggers.detectors.signal_detector import SignalDetector

BLOCK = 10
IGNORED = 20
RISES = 4
LEAST_RISE = 0.01
GROWTH = 0.05


class MemoryGrowth(SignalDetector):
    """The mean of ten samples has risen by 1 % four times in a row, and by 5 % from the lowest mean so far.

    The first 20 samples, which a session takes in the first hundred steps, are ignored: caches and optimizer state are
    made there. SageMaker Debugger's limit, 5 points of the machine's memory, is taken as 5 % of what the process has,
    because a leak is one on a large machine too. Only told: a replay buffer grows as well, and rightly.
    """

    kind = "memory_growth"
    level = "info"
    signals = frozenset({"process_mb", "device_mb"})
    rule = (
        "mean of 10 samples 1 % above the one before, 4 times in a row, and 5 % above the lowest, after 20 samples "
        "(after GPUMemoryIncrease of SageMaker Debugger: a moving average rises by 5 points)"
    )
    evidence = "{value:.0f} MiB, above {threshold:.0f} MiB and rising"

    def __init__(self) -> None:
        super().__init__()
        self._of: dict[str, _Blocks] = {}

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if not math.isfinite(value):
            return None
        blocks = self._of.get(signal)
        if blocks is None:
            blocks = self._of[signal] = _Blocks()
        return blocks.add(value)


class _Blocks:
    def __init__(self) -> None:
        self._ignored = self._count = self._rises = 0
        self._sum = 0.0
        self._last = self._lowest = math.inf

    def add(self, value: float) -> tuple[float, float] | None:
        """Adds a sample; returns the block's mean and the limit if it ends a block that breaks the rule."""
        if self._ignored < IGNORED:
            self._ignored += 1
            return None
        self._sum += value
        self._count += 1
        if self._count < BLOCK:
            return None
        mean = self._sum / BLOCK
        self._sum, self._count = 0.0, 0
        self._rises = self._rises + 1 if mean > self._last * (1 + LEAST_RISE) else 0
        self._last, self._lowest = mean, min(self._lowest, mean)
        limit = self._lowest * (1 + GROWTH)
        return (mean, limit) if self._rises >= RISES and mean > limit else None
