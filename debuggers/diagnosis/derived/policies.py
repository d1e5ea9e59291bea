"""Which way the gradient of a policy pushes what it draws."""

import numpy as np

from debuggers.diagnosis.argument import STRONG, Argument
from debuggers.diagnosis.derived.relation import FEWEST
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import LossFacts

ALL = 0.99
"""Share of gains at the ends of their range from which they have two values."""
RARE = 0.4
"""Share of the choices below which what they brought is the exception."""


def add_descended_gains(argument: Argument, evidence: Evidence, loss: LossFacts) -> bool:
    """Adds a policy's gradient without its minus sign, by what is rare at first; returns whether it did.

    A policy that knows nothing draws at random, and what succeeds is rare. Where each choice is paid or not, whatever
    is usual was taken away, the rare of two gains is that of a success. To make it less likely wants a minus sign.
    ``(-gain * log_prob).mean()`` and ``(cost * log_prob).mean()``, which are sound, have the same graph, and the rare
    one is their smaller one. Of gains of more values, and of two that are as frequent, nothing is said.
    """
    two, high = evidence["gains/of_two_values"].finite, evidence["gains/high"].finite
    if not loss.lowers_drawn or min(len(two), len(high)) < FEWEST:
        return False
    first, last = float(np.median(high.values[:FEWEST])), high.late(FEWEST).median()
    if float(np.median(two.values[:FEWEST])) < ALL or not 0 < first < RARE or last > first:
        return False
    argument.add(
        STRONG,
        f"log-probabilities of what was drawn are multiplied with one of two numbers and made small: the higher one, "
        f"which {first:.0%} of the draws brought at first, is made rarer, as a reward would be without the minus sign",
        since=int(high.steps[0]),
    )
    return True
