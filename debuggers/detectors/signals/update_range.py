"""Updates of all weights together that are unusually small or large."""

import math

from debuggers.detectors.signal_detector import SignalDetector

LOWEST = 1e-4
HIGHEST = 1e-1
LASTING = 10


class UnusualUpdate(SignalDetector):
    """|Δw| / |w| of all parameters together is outside of 1e-4 to 0.1 at 10 sampled steps in a row.

    Only told: fine-tuning and the end of a schedule go below, training from small weights above. ``SmallUpdate`` and
    ``LargeUpdate`` have the limits of a fault, 1e-8 and 10. The other number in use, lr |g| / |w| outside of 1e-5 to
    0.1 (DeepDiagnosis), only holds without momentum and adaptive scaling.
    """

    kind = "unusual_update"
    level = "info"
    signals = frozenset({"update_ratio"})
    rule = "log10 of |Δw| / |w| outside of -4 to -1 (TheDeepChecker), at 10 sampled steps in a row"
    evidence = "update ratio {value:.2g} of all parameters is beyond {threshold:.2g}"
    consecutive = LASTING

    def check(self, step: int, signal: str, value: float) -> tuple[float, float] | None:
        """See the class."""
        if value < LOWEST:
            return value, LOWEST
        return (value, HIGHEST) if HIGHEST < value < math.inf else None
