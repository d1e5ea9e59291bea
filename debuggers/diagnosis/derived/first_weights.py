"""What is wrong with first weights: their scale, sign, zeros and biases, and units that were lost on the way."""

import math
from collections.abc import Mapping

from debuggers.diagnosis.derived.initial_weights import RECURRENT, USUAL_GAINS, fan_in, gains, is_set
from debuggers.diagnosis.derived.updates import only_vectors_move
from debuggers.diagnosis.derived.zero_outputs import always_zero
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts

RESTORED = 0.3
"""Standard deviation of a normalisation's outputs from which what entered it was more than its epsilon."""
DROWNS = 10.0
"""Times by which biases spread further than what a layer puts out varies from row to row."""
FEWEST_LOOKS = 10
"""Sampled steps after which an output that has always been zero is not just about to begin."""
ONE_SIGN = 1.0
"""Times their standard deviation by which the mean of weights is off zero that are nearly all of one sign."""
LARGEST_RECURRENCE = 2.5
"""Gain of weights from state to state from which they are too large: reservoirs, which are not trained, have 1.5."""
MOSTLY = 0.9
"""Share of a layer's units that are dead, or of its outputs that are zero, from which next to nothing passes it."""


def large_recurrences(facts: Facts, first: Mapping[str, float]) -> dict[str, float]:
    """First weights from state to state of a large gain, which is the largest factor of a step.

    The eigenvalues of random weights lie in a circle of this radius (Girko 1985). Above 1 a net without inputs is
    chaotic (Sompolinsky et al. 1988); PyTorch's have 0.58, orthogonal ones 1.
    """
    kinds = {layer.name: layer.kind for layer in facts.layers}
    return {
        name: gain
        for name, gain in first.items()
        if ".weight_hh" in f".{name}" and kinds.get(name.rpartition(".")[0], "") in RECURRENT
        if LARGEST_RECURRENCE < gain < USUAL_GAINS[1]
    }


def drowning_biases(evidence: Evidence) -> dict[str, float]:
    """First deviations of the biases of layers, but for the last, that hardly put out anything else.

    The last layer's may be what each output is on average.
    """
    varies = evidence.of_tensors("output_batch_std")
    biases = [one for one in evidence.facts.parameters if one.name.endswith(".bias") and one.role != "frozen"]
    known = {one.name: (one.std, varies.get(one.name.removesuffix(".bias"))) for one in biases[:-1]}
    return {
        name: std
        for name, (std, series) in known.items()
        if std > USUAL_GAINS[1] and series is not None and len(series.finite) and std > DROWNS * series.finite.first
    }


def off_centre(facts: Facts) -> dict[str, float]:
    """The mean of weights times fan_in, where they are nearly all of one sign and add up what enters to far more.

    Inputs behind a rectifier are all of one sign, too: then a sum of n of them grows with n, and not with its root.
    """
    kinds = {layer.name: layer.kind for layer in facts.layers}
    weights = gains(facts)
    sums = {
        one.name: abs(one.mean) * fan_in(one.shape, kinds.get(one.name.rpartition(".")[0], ""))
        for one in facts.parameters
        if one.name in weights and abs(one.mean) > ONE_SIGN * one.std
    }
    return {name: value for name, value in sums.items() if value > USUAL_GAINS[1]}


def at_bounds_at_first(evidence: Evidence) -> tuple[str, float] | None:
    """The layer of a tanh or sigmoid whose outputs nearly all lie at its bounds before the first step, and the share.

    None if there is none; the last layer's may be as sure as they like.
    """
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    first = {
        name: series.first
        for name, series in evidence.of_tensors("saturated").items()
        if len(series) and kinds.get(name) != "Softmax" and name not in list(kinds)[-1:]
    }
    name = max(first, key=lambda one: first[one], default="")
    return (name, first[name]) if name and first[name] >= MOSTLY else None


def first_phases(evidence: Evidence) -> dict[str, float]:
    """The layers behind the first that a sine reads over more than a period at first, and the deviation in radians.

    Of a normal phase with the deviation s, exp(-s²/2) is left of the mean sine: at π, 0.7 %. What comes out then has
    next to nothing of how near two inputs are. SIREN's first weights keep phases near 1 (Sitzmann et al. 2020,
    https://arxiv.org/abs/2006.09661). The first sine may read inputs at many frequencies.
    """
    phases = evidence.of_tensors("phase_std")
    order = {name: place for place, name in enumerate(evidence.facts.called)}
    known = sorted((name for name in phases if len(phases[name])), key=lambda name: order.get(name, 0))
    return {name: phases[name].first for name in known[1:] if phases[name].first > math.pi}


def all_zero(facts: Facts) -> list[str]:
    """The weights of a model of several layers, if all of them are zero at first; a single layer may begin so."""
    matrices = [one for one in facts.parameters if len(one.shape) > 1 and one.role != "frozen"]
    is_zero = all(one.is_sampled and not is_set(one) for one in matrices)
    return [one.name for one in matrices] if len(matrices) > 1 and is_zero else []


def is_rescaled(evidence: Evidence, name: str) -> bool:
    """Whether a normalisation behind a weight brings what it makes small to the usual scale, at first already.

    How small a weight is has no effect on what such a layer puts out, and a branch that is added to another one begins
    as nearly nothing on purpose.
    """
    outputs, layers = evidence.of_tensors("output_std"), evidence.facts.layers
    places = [place for place, layer in enumerate(layers) if name.startswith(f"{layer.name}.")]
    behind = layers[places[0] + 1 :] if places else ()
    return any(
        "Norm" in layer.kind and layer.name in outputs and outputs[layer.name].first > RESTORED for layer in behind
    )


def zero_for_good(evidence: Evidence) -> list[str]:
    """Layers that are meant to be trained, start with a weight of zeros, and never put out anything else.

    Weights that are to begin as zero, as the last of a residual branch, have a gradient and leave it with the first
    step.
    """
    outputs = evidence.of_tensors("output_std")
    zero = [
        one.name.rpartition(".")[0]
        for one in evidence.facts.parameters
        if one.name.endswith(".weight") and one.mean == 0 == one.std and one.role in ("trained", "unchanged")
    ]
    known = {name: outputs[name] for name in zero if name in outputs and len(outputs[name]) >= FEWEST_LOOKS}
    means = evidence.of_tensors("output_mean")
    return [
        name
        for name, series in known.items()
        if not series.values.any() and name in means and not means[name].values.any()
    ]


def moves_alone(evidence: Evidence) -> str:
    """The bias that has a gradient though no weight ever had one; "" if there is none.

    The gradient of a layer's weights is the product of what enters it and of its bias's gradient. None where a
    layer puts out the zeros, see ``dead_units``, where float16 may make them, and of inputs that are zero themselves.
    """
    facts, gradients = evidence.facts, evidence.of_tensors("gradient_rms")
    trained = [one for one in facts.parameters if one.role in ("trained", "unchanged")]
    is_still = only_vectors_move(evidence, FEWEST_LOOKS)
    zeros = (series.finite for kind in ("dead_units", "output_zeros") for series in evidence.of_tensors(kind).values())
    are_dead = any(len(one) and one.first > MOSTLY for one in zeros) or bool(always_zero(evidence))
    if not is_still or are_dead or facts.mixed_precision == "float16" or not evidence["inputs/std"].finite.median(0.0):
        return ""
    biases = [one.name for one in trained if len(one.shape) == 1 and one.name in gradients]
    return next((name for name in biases if gradients[name].finite.median(0.0) > 0), "")


def has_died(evidence: Evidence) -> bool:
    """Whether nearly all units of a layer that answered at first are dead at the end."""
    return any(
        series.first < 0.5 and series.finite.late().median() >= MOSTLY
        for series in evidence.of_tensors("dead_units").values()
        if len(series)
    )
