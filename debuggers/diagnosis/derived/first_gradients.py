"""How gradients grow on their way back through the layers, before any update."""

import numpy as np

from debuggers.diagnosis.derived.initial_weights import USUAL_GAINS, gains
from debuggers.diagnosis.evidence import Evidence

MULTIPLIED = 70.0
"""Ratio of a gradient to one of a later layer above which gradients explode (AutoTrainer)."""
LARGE = 1e3
"""A norm of all gradients that no usual network begins with."""


def multiplied_on_the_way(evidence: Evidence) -> tuple[str, float, str] | None:
    """The bias whose first gradient is the most times that of the last bias, how many times, and the last bias.

    The gradient of a bias is what arrives at its layer, added up over rows and positions, whatever enters the layer.
    None where weights, which may multiply it as well, start at an unusual scale or are not known, where there are
    norms, or where all gradients together are of a usual size: under a loss that no shift of the outputs changes, as
    of distances, the last bias has none.
    """
    facts = evidence.facts
    known = gains(facts)
    norms = evidence["total_norm/gradients"].finite
    if (
        not known
        or not all(USUAL_GAINS[0] < gain < USUAL_GAINS[1] for gain in known.values())
        or any("Norm" in layer.kind for layer in facts.layers)
        or not len(norms)
        or norms.first < LARGE
    ):
        return None
    places = {layer: place for place, layer in enumerate(facts.called or [layer.name for layer in facts.layers])}
    found = {
        name: series.first
        for name, series in evidence.of_tensors("gradient_rms").items()
        if name.endswith(".bias") and name.rpartition(".")[0] in places and len(series)
    }
    found = {name: value for name, value in found.items() if np.isfinite(value) and value > 0}
    if len(found) < 2:
        return None
    last = max(found, key=lambda name: places[name.rpartition(".")[0]])
    largest = max(found, key=lambda name: found[name])
    times = found[largest] / found[last]
    return (largest, times, last) if times > MULTIPLIED else None
