"""What a momentum near 1 makes of steps: it carries weights past the lowest loss."""

import numpy as np

from debuggers.diagnosis.derived.rates import highest_rate, one_digit
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of

LONG_MEMORY = 0.99
"""Momentum of SGD from which a hundred gradients and more add up."""
WINDOWS = 10
"""Parts of a training whose median losses are compared with each other."""
CALM = 0.9
"""Share of its first value below which a loss was falling."""
GOT_ON = 0.25
"""Share of its first value by which a loss has fallen that gets on."""


def carried_past(evidence: Evidence) -> tuple[int, str, str] | None:
    """A step, a text and an advice if a momentum near 1 has carried weights past the lowest loss; None if it has not.

    SGD with the momentum m and without dampening adds up 1/(1 - m) gradients: after so many steps in one direction, it
    steps as at a rate so many times as large. What is in motion then rolls on up the other side, with updates that no
    gradient is large enough to turn: the loss, which had fallen, comes back to where it began.
    """
    groups, progress, loss = evidence.facts.groups, progress_of(evidence), evidence["loss"].finite
    settings = groups[0].settings if groups else {}
    momentum, rate = settings.get("momentum"), highest_rate(evidence)
    if evidence.facts.optimizer != "SGD" or not isinstance(momentum, float) or not LONG_MEMORY <= momentum < 1:
        return None
    if progress is None or rate is None or progress.failed or settings.get("dampening") or len(loss) < 5 * WINDOWS:
        return None
    parts = [float(np.median(part)) for part in np.array_split(loss.values, WINDOWS)]
    lowest = int(np.argmin(parts))
    if not 0 < parts[lowest] < (1 - GOT_ON) * progress.first or parts[-1] < CALM * progress.first:
        return None
    step = int(loss.steps[lowest * len(loss) // WINDOWS])
    text = (
        f"a momentum of {momentum:g} adds up {1 / (1 - momentum):.0f} gradients, as a rate of "
        f"{rate / (1 - momentum):.2g} would: the loss fell to {parts[lowest]:.2g} and rose to {parts[-1]:.2g} again"
    )
    return step, text, f"momentum: {momentum:g} → 0.9, or a learning rate of {one_digit(10 * rate * (1 - momentum)):g}."
