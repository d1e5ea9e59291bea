"""Layers without weights that have put out nothing but zeros."""

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.series import Series

EMPTY_ON_PURPOSE = ("Dropout", "Identity", "Zero", "Pad")
"""Parts of names of classes whose outputs may be zero for other reasons."""
FEWEST = 5
"""Sampled steps from which a layer has never let anything pass."""


def always_zero(evidence: Evidence) -> dict[str, str]:
    """Returns the layers without weights whose outputs were zero at each sampled step, with their classes.

    Of a layer that is called several times in a pass, its outputs' mean and deviation alone are known.
    """
    means, deviations = evidence.of_tensors("output_mean"), evidence.of_tensors("output_std")
    return {
        name: kind
        for name, kind in without_weights(evidence).items()
        if all(_is_zero(found.get(name)) for found in (means, deviations))
    }


def without_weights(evidence: Evidence) -> dict[str, str]:
    """Returns the layers without weights of which zeros alone are a mistake, with their classes."""
    with_weights = {one.name.rpartition(".")[0] for one in evidence.facts.parameters}
    return {
        layer.name: layer.kind
        for layer in evidence.facts.layers
        if layer.kind and layer.name not in with_weights and not any(part in layer.kind for part in EMPTY_ON_PURPOSE)
    }


def _is_zero(series: Series | None) -> bool:
    return series is not None and len(series) >= FEWEST and not series.values.any()
