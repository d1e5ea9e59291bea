"""The learning rate of a training, also of one whose optimizer has several groups."""

import math

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.series import Series

COLLAPSED = 1e-2
"""Share of the largest learning rate below which nothing is learnt any more."""
USUAL_EPSILON = 1e-8
"""torch's default of what Adam and RMSprop add to the root of the second moment; others are chosen."""
FEWEST_RATES, SEARCHED = 20, 1e4
"""Steps of a search for a rate, and how many times its first rate the last one is."""
OUTWEIGHS = 10.0
"""Times the gradients' size from which an epsilon leaves less than a tenth of the learning rate."""
OF_NEARLY_ALL = 0.9
"""Share of the trained elements for which it does."""
_WITH_EPSILON = frozenset({"Adam", "AdamW", "NAdam", "RMSprop"})
RAISED, SETTLED = 5.0, 20
"""Times the highest rate so far that a raised one is, and steps from the first one until a training has its rate."""


def learning_rates(evidence: Evidence) -> Series:
    """Returns the learning rate at each step; with several groups, the largest of those that are known at a step."""
    alone = evidence["learning_rate"].finite
    groups = [series.finite for name, series in evidence.series.items() if name.startswith("learning_rate/")]
    groups = [series for series in groups if len(series)]
    if len(alone) or not groups:
        return alone
    steps = np.concatenate([series.steps for series in groups])
    values = np.concatenate([series.values for series in groups])
    known = np.unique(steps)
    largest = np.full(len(known), -np.inf)
    np.maximum.at(largest, np.searchsorted(known, steps), values)
    return Series(known, largest)


def is_searched(evidence: Evidence) -> bool:
    """Whether the rate rises to the end, by ten thousand times and more, as a finder of rates has it (Smith 2017).

    What becomes of the model then says nothing of a training.
    """
    rates = learning_rates(evidence).finite.values
    return len(rates) >= FEWEST_RATES and bool((np.diff(rates) >= 0).all()) and rates[-1] >= SEARCHED * rates[0] > 0


FEWEST_RATES = 5
"""Rates by which a schedule is known."""
STEADY, FALLEN = 0.01, 0.1
"""Shares by which a rate times the root of its step may vary if it falls with that, and by which it has to fall."""


def has_collapsed(rates: Series) -> bool:
    """Whether the learning rate was nearly nothing for half of the training; one that ends at zero need not be."""
    late = rates.values[len(rates) // 2 :]
    return len(rates) > 1 and float(np.median(late)) < COLLAPSED * float(rates.values.max())


def outweighing_epsilon(evidence: Evidence) -> tuple[float, float] | None:
    """The optimizer's epsilon and the gradients' size, if it is ten times that for nearly all weights; None if not.

    A step is m / (√v + ε): where √v is small against ε, it is m / ε, and the learning rate is lr / ε of plain descent.
    """
    facts = evidence.facts
    known = [value for group in facts.groups if isinstance(value := group.settings.get("eps"), float)]
    if facts.optimizer not in _WITH_EPSILON or len(known) < len(facts.groups) or not known:
        return None
    gradients = evidence.of_tensors("gradient_rms")
    sizes = {
        one.name: (float(np.prod(one.shape)), float(np.sqrt(np.mean(np.square(gradients[one.name].finite.values)))))
        for one in facts.parameters
        if one.role == "trained" and one.name in gradients and len(gradients[one.name].finite)
    }
    whole = sum(elements for elements, _ in sizes.values())
    epsilon = min(known)
    far_below = sum(elements for elements, size in sizes.values() if 0 < OUTWEIGHS * size < epsilon)
    if epsilon <= USUAL_EPSILON or not whole or far_below < OF_NEARLY_ALL * whole:
        return None
    return epsilon, float(np.sqrt(sum(elements * size**2 for elements, size in sizes.values()) / whole))


def highest_rate(evidence: Evidence) -> float | None:
    """Returns the highest learning rate that is known, of any step, or as the optimizer was made; None if none is."""
    rates = learning_rates(evidence)
    if len(rates):
        return float(rates.values.max())
    settings = [group.settings.get("lr") for group in evidence.facts.groups]
    return next((float(rate) for rate in settings if isinstance(rate, (int, float))), None)


def one_digit(value: float) -> float:
    """1, 3 or 10 times a power of ten, the nearest on a logarithmic scale."""
    if not 0 < value < math.inf:
        return value
    power = 10.0 ** math.floor(math.log10(value))
    return min((power, 3 * power, 10 * power), key=lambda choice: abs(math.log(choice / value)))


def falls_by_inverse_root(rates: Series) -> bool:
    """Whether rates begin at their largest and come to fall with the inverse root of the step, as without their rise.

    The schedule of the first transformer is one formula of a rise and such a fall (Vaswani et al. 2017, section 5.3).
    """
    late = rates.since(int(rates.steps[len(rates) // 2])) if len(rates) else rates
    if len(late) < FEWEST_RATES or float(rates.values[0]) < float(rates.values.max()):
        return False
    constant = late.values * np.sqrt(late.steps + 1.0)
    return bool(np.ptp(constant) < STEADY * constant[-1] and late.last < (1 - FALLEN) * late.values[0])


def raised_rate(evidence: Evidence) -> tuple[int, float, float] | None:
    """The step at which a rate was raised far above all before it, and the highest before and after; None if none was.

    A warm-up rises earlier, and in smaller steps; a warm restart comes back to what was there before.
    """
    rates = learning_rates(evidence)
    if len(rates) < 2:
        return None
    highest = np.maximum.accumulate(rates.values)
    jumps = np.flatnonzero((rates.values[1:] > RAISED * highest[:-1]) & (highest[:-1] > 0)) + 1
    late = [int(place) for place in jumps if rates.steps[place] - rates.steps[0] >= SETTLED]
    if not late:
        return None
    return int(rates.steps[late[0]]), float(highest[late[0] - 1]), float(rates.values[late[0] :].max())
