"""New batch norms that do not normalise: in eval mode from the start, or by statistics that hardly follow."""

from itertools import pairwise

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of

ENOUGH = 0.9
"""Share of what there is to learn, above which what is not as it should be is not missed."""
IDLE = 0.3
"""Standard deviation of a new batch norm's first outputs, below which it has not normalised them."""
FEWEST_STEPS = 100
"""Steps after which running statistics should be those of the data: with torch's momentum, 0.1, they are after 50."""
MOSTLY_FIRST = 0.8
"""Share of a new layer's statistics from which they are hardly those of the data."""
FAR_ABOVE = 1.5
"""Times the training loss from which that of a validation is far above it."""


def put_out_little(evidence: Evidence) -> bool:
    """Whether most batch norms put out far less at first than with the statistics of what enters them.

    As where these come from a few batches of a training that had hardly begun.
    """
    outputs = evidence.of_tensors("output_std")
    scales = {one.name.removesuffix(".weight"): abs(one.mean) for one in evidence.facts.parameters}
    first = [
        outputs[layer.name].first / scales[layer.name]
        for layer in evidence.facts.layers
        if layer.kind.startswith("BatchNorm") and len(outputs.get(layer.name, ())) and scales.get(layer.name)
    ]
    return len(first) > 1 and float(np.median(first)) < IDLE


def idle_norms(evidence: Evidence) -> dict[str, float]:
    """Batch norms that scale by 1 and shift by 0 at first, and put out what the layer before them does, far below 1.

    In training mode they make that larger, even where it is smaller than their epsilon. Empty where they are not most
    of those, or nearly all was learnt with them as they are.
    """
    progress, outputs = progress_of(evidence), evidence.of_tensors("output_std")
    if progress is None or progress.learnt > ENOUGH:
        return {}
    scales = _new_scales(evidence)
    first = {name: series.first for name, series in outputs.items() if len(series)}
    new = [
        (layer.name, first[layer.name], first.get(before.name, 0.0))
        for before, layer in pairwise(evidence.facts.layers)
        if layer.kind.startswith("BatchNorm") and layer.name in scales and layer.name in first
    ]
    idle = {name: spread for name, spread, entering in new if 0 < spread < IDLE and 0.5 < entering / spread < 2}
    return idle if len(idle) > 1 and len(idle) > len(new) / 2 else {}


def late_norm(evidence: Evidence) -> str | None:
    """What is wrong with a new batch norm whose running statistics hardly follow, and with the validation; else None.

    After n steps with the momentum m, (1 - m)ⁿ of them is still the mean 0 and the variance 1 of a new layer.
    """
    facts, validation = evidence.facts, evidence.validation.finite
    progress = progress_of(evidence)
    if facts.steps < FEWEST_STEPS or len(validation) < 2 or progress is None or progress.failed:
        return None
    new = _new_scales(evidence)
    kept = {
        layer.name: (1 - layer.value) ** facts.steps
        for layer in facts.layers
        if layer.kind.startswith("BatchNorm") and layer.name in new and layer.value is not None
    }
    name = max(kept, key=lambda one: kept[one], default="")
    if not name or kept[name] < MOSTLY_FIRST or validation.last < FAR_ABOVE * progress.last:
        return None
    return (
        f"after {facts.steps:,} steps {kept[name]:.0%} of the running statistics of {name} are still those of a new "
        f"layer, by its small momentum, and in eval mode the loss is {validation.last:.3g}, {progress.last:.3g} in "
        "training"
    )


def _new_scales(evidence: Evidence) -> set[str]:
    """The layers that scale by 1 at first, as a new normalisation does."""
    return {
        one.name.rpartition(".")[0]
        for one in evidence.facts.parameters
        if one.name.endswith(".weight") and one.is_sampled and (one.mean, one.std) == (1.0, 0.0)
    }
