"""Causes in how weights start: at a wrong scale."""

from collections.abc import Mapping

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, Argument
from debuggers.diagnosis.derived.initial_weights import (
    RECURRENT,
    USUAL_GAINS,
    entering_first_layer,
    fan_in,
    gains,
    is_set,
)
from debuggers.diagnosis.derived.labels import summed_targets, targets_of_a_row
from debuggers.diagnosis.derived.updates import EARLY, LARGE_RATIO, SMALL_RATIO, only_vectors_move
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES, Facts
from debuggers.diagnosis.progress import known_baseline, progress_of
from debuggers.diagnosis.series import Series

LARGEST_GAIN = 5 / 3
"""The largest that torch recommends for one of its activations, that of tanh."""
RESTORED = 0.3
"""Standard deviation of a normalisation's outputs from which what entered it was more than its epsilon."""
DROWNS = 10.0
"""Times by which biases spread further than what a layer puts out varies from row to row."""
MOSTLY = 0.9
"""Share of a layer's units that are dead, or of its outputs that are zero, from which next to nothing passes it."""
NEARLY_ALL = 0.9
"""Share of a model's elements in weights that are too large, from which one setting has made them so."""
FEWEST_LOOKS = 10
"""Sampled steps after which an output that has always been zero is not just about to begin."""
ONE_SIGN = 1.0
"""Times their standard deviation by which the mean of weights is off zero that are nearly all of one sign."""
FAR_OFF = 10.0
"""Times the size of targets from which first outputs are far off them."""
OFF = 5.0
"""The same where the loss has never come down to that of a constant output."""
STAYED_ABOVE = 0.5
"""Share of the loss of a constant output by which the lowest of one that never came down to it is above it."""
OFF_WAY = 20.0
"""Times the loss of a constant output from which a first loss says how wrong the first weights are."""
LARGEST_RECURRENCE = 2.5
"""Gain of weights from state to state from which they are too large: reservoirs, which are not trained, have 1.5."""
OTHER_SCALE = 10.0
"""Standard deviation of the inputs from which they, not the weights, decide how large the first outputs are."""


def poor_initialization(evidence: Evidence) -> Argument:
    """At the first step weights, outputs or the loss are at a scale far from what initialisations aim at."""
    argument = Argument("poor_initialization")
    facts = evidence.facts
    normalised = any("Norm" in layer.kind for layer in facts.layers)
    wrong = _add_first_values(argument, evidence)
    _add_first_outputs(argument, evidence.of_tensors("output_std"), normalised=normalised)
    _add_reach(argument, evidence)
    loss, baseline = evidence["loss"].finite, evidence["baseline_loss"].finite
    if len(loss) and len(baseline) and facts.loss is not None and facts.loss.kind == "cross_entropy":
        classes = evidence["targets/classes_so_far"].values
        shape = facts.loss.outputs_shape
        columns = shape[1] if len(shape) > 1 else 2
        guess = float(np.log(max(columns, float(classes[-1]) if len(classes) else 2.0)))
        first, floor = loss.first, guess * max(targets_of_a_row(evidence, facts.loss), summed_targets(facts.loss))
        if floor > 0 and first > 4 * floor and int(loss.steps[0]) == int(baseline.steps[0]):
            argument.add(
                MODERATE,
                f"the first loss is {first:.3g}, that of a uniform guess about {floor:.3g}",
                since=int(loss.steps[0]),
            )
    if argument.cause is not None and not wrong:
        _weigh_inputs(argument, evidence)
    ratio = evidence["update_ratio"].finite
    early = ratio.until(int(ratio.steps[0]) + EARLY).values if len(ratio) else ratio.values
    if argument.cause is not None and not wrong and float(early.max(initial=0.0)) > LARGE_RATIO:
        argument.against(MODERATE, "the weights are at a usual scale, and their first updates are large")
    wrong |= _add_zeros(argument, evidence)
    progress, is_tiny = progress_of(evidence), ratio.median() < SMALL_RATIO
    if argument.cause is not None and progress is not None:
        if not wrong and is_tiny:
            pass  # nothing was tried: see learning_rate_too_low
        elif not wrong and _broke_backwards(evidence):
            pass  # what made a gradient infinite needs no large loss
        elif progress.failed or progress.learnt < 0.2:
            argument.add(MODERATE, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
        elif wrong and (progress.first > OFF_WAY * baseline.median(progress.first) or _has_died(evidence)):
            pass  # nearly all of the fall is the way to where a usual start begins, or units were lost on it
        elif (
            len(wrong) > 1 and set(gains(facts)) <= set(wrong) and progress.first > 2 * baseline.median(progress.first)
        ):
            pass  # nobody means that of each weight, unless its layer scales it, as under equalized learning rates
        elif progress.fell > 0.7 and progress.last < 0.3 * max(baseline.median(progress.last), 1e-12):
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    argument.advice = (
        "Initialise with torch.nn.init.kaiming_normal_ before ReLU, xavier_normal_ before tanh and sigmoid, biases "
        "with 0, and widths of functions that fall to zero at the size of what enters them."
    )
    return argument


def _broke_backwards(evidence: Evidence) -> bool:
    """Whether a gradient was NaN or infinite while each loss until then was finite."""
    found = evidence.found("non_finite_gradient")
    return bool(found) and bool(np.isfinite(evidence["loss"].until(found[0].step).values).all())


def _has_died(evidence: Evidence) -> bool:
    """Whether nearly all units of a layer that answered at first are dead at the end."""
    return any(
        series.first < 0.5 and series.finite.late().median() >= MOSTLY
        for series in evidence.of_tensors("dead_units").values()
        if len(series)
    )


def _add_first_values(argument: Argument, evidence: Evidence) -> dict[str, float]:
    """Adds parameters whose first values are at a wrong scale; returns their names with the number that says so."""
    facts = evidence.facts
    first = gains(facts)
    wrong = {name: gain for name, gain in first.items() if not USUAL_GAINS[0] < gain < USUAL_GAINS[1]}
    last = next(reversed(first), "")  # behind it nothing vanishes: outputs may begin as constant ones
    wrong = {
        name: gain for name, gain in wrong.items() if gain > 1 or not (name == last or _is_rescaled(evidence, name))
    }
    if wrong:
        name = max(wrong, key=lambda key: abs(np.log(wrong[key])))
        size = "large" if wrong[name] > 1 else "small"
        decades = abs(np.log10(wrong[name]))
        strength = 0.85 if decades > 2 else STRONG if decades > 1 else 0.5
        argument.add(
            strength,
            f"the standard deviation of {name} times √fan_in is {wrong[name]:.2g} "
            f"at first, too {size}: 0.6 to 1.4 is usual",
            since=0,
            where=list(wrong)[:5],
        )
    _add_gain_of_all(argument, facts)
    if large := _large_recurrences(facts, first):
        name = max(large, key=lambda key: large[key])
        wrong |= large
        argument.add(
            0.6,
            f"the standard deviation of {name} times the root of its width is {large[name]:.2g} at first: a step "
            "multiplies a state by about that, which holds tanh and gates at their bounds",
            since=0,
            where=list(large)[:5],
        )
    if drowning := _drowning_biases(evidence):
        name = max(drowning, key=lambda key: drowning[key])
        wrong |= drowning
        argument.add(
            0.85,
            f"{name} has a standard deviation of {drowning[name]:.3g} at first, more than {DROWNS:g} times what its "
            "layer's outputs vary by from row to row: inputs hardly count",
            since=0,
            where=list(drowning)[:5],
        )
    if off := _off_centre(facts):
        name = max(off, key=lambda key: off[key])
        wrong |= off
        argument.add(
            STRONG,
            f"the weights of {name} are nearly all of one sign: their mean times fan_in is {off[name]:.3g} at first, "
            "initialisations have a mean of 0",
            since=0,
            where=list(off)[:5],
        )
    if empty := _all_zero(facts):
        wrong |= dict.fromkeys(empty, 0.0)
        argument.add(
            0.85,
            f"all {len(empty)} weights of the model are zero at first: each takes the gradient from the others",
            since=0,
            where=empty[:5],
        )
    return wrong


def _add_zeros(argument: Argument, evidence: Evidence) -> dict[str, float]:
    """Adds weights that can never move, since zeros enter or leave them from the first step on; returns their names."""
    wrong: dict[str, float] = {}
    if still := _zero_for_good(evidence):
        wrong |= dict.fromkeys(still, 0.0)
        argument.add(
            CERTAIN,
            f"the weight of {', '.join(still[:3])} is zero at first, and all that it puts out is zero at each sampled "
            "step: what reads zeros passes no gradient back to move it",
            since=0,
            where=still[:5],
        )
    if bias := _moves_alone(evidence):
        wrong[bias] = 0.0
        argument.add(
            STRONG,
            f"from the first step on the gradients of all weights are exactly zero, and that of {bias} is not: what "
            "the last weights are multiplied with is zero for every input",
            since=0,
            where=[bias],
        )
    return wrong


def _moves_alone(evidence: Evidence) -> str:
    """The bias that has a gradient though no weight ever had one; "" if there is none.

    The gradient of a layer's weights is the product of what enters it and of its bias's gradient. None where a
    layer puts out the zeros, see ``dead_units``, where float16 may make them, and of inputs that are zero themselves.
    """
    facts, gradients = evidence.facts, evidence.of_tensors("gradient_rms")
    trained = [one for one in facts.parameters if one.role in ("trained", "unchanged")]
    is_still = only_vectors_move(evidence, FEWEST_LOOKS)
    zeros = (series.finite for kind in ("dead_units", "output_zeros") for series in evidence.of_tensors(kind).values())
    are_dead = any(len(one) and one.first > MOSTLY for one in zeros)
    if not is_still or are_dead or facts.mixed_precision == "float16" or not evidence["inputs/std"].finite.median(0.0):
        return ""
    biases = [one.name for one in trained if len(one.shape) == 1 and one.name in gradients]
    return next((name for name in biases if gradients[name].finite.median(0.0) > 0), "")


def _add_gain_of_all(argument: Argument, facts: Facts) -> None:
    """Weights that are nearly all too large, each by not enough to be told alone, as of a constant for every layer."""
    sizes = {one.name: float(np.prod(one.shape)) for one in facts.parameters}
    known = gains(facts)
    large = {name: gain for name, gain in known.items() if gain > 2 * LARGEST_GAIN}
    if len(large) > 2 and sum(map(sizes.__getitem__, large)) > NEARLY_ALL * sum(map(sizes.__getitem__, known)):
        argument.add(
            MODERATE,
            f"the standard deviations of {len(large)} of {len(known)} weights times √fan_in are "
            f"{min(large.values()):.2g} and more at first",
        )


def _large_recurrences(facts: Facts, first: Mapping[str, float]) -> dict[str, float]:
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


def _drowning_biases(evidence: Evidence) -> dict[str, float]:
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


def _weigh_inputs(argument: Argument, evidence: Evidence) -> None:
    """Whether inputs decide how large the first outputs are: as they are given, or as the model makes them."""
    spread, enters = evidence["inputs/std"].finite.values, entering_first_layer(evidence)
    if len(spread) and not 0.1 < float(spread[0]) < OTHER_SCALE:
        argument.against(STRONG, f"the inputs have a standard deviation of {spread[0]:.2g}")
    elif enters is not None and enters[1] > OTHER_SCALE:
        argument.against(STRONG, f"about {enters[1]:.2g} enters {enters[0]}: that, not its weights, is large")


def _is_rescaled(evidence: Evidence, name: str) -> bool:
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


def _off_centre(facts: Facts) -> dict[str, float]:
    """The mean of weights times fan_in, where they are nearly all of one sign and add up what enters to far more.

    Inputs behind a rectifier are all of one sign, too: then a sum of n of them grows with n, and not with its root.
    """
    kinds = {layer.name: layer.kind for layer in facts.layers}
    sums = {
        one.name: abs(one.mean) * fan_in(one.shape, kinds.get(one.name.rpartition(".")[0], ""))
        for one in facts.parameters
        if one.name in gains(facts) and abs(one.mean) > ONE_SIGN * one.std
    }
    return {name: value for name, value in sums.items() if value > USUAL_GAINS[1]}


def _all_zero(facts: Facts) -> list[str]:
    """The weights of a model of several layers, if all of them are zero at first; a single layer may begin so."""
    matrices = [one for one in facts.parameters if len(one.shape) > 1 and one.role != "frozen"]
    is_zero = all(one.is_sampled and not is_set(one) for one in matrices)
    return [one.name for one in matrices] if len(matrices) > 1 and is_zero else []


def _add_reach(argument: Argument, evidence: Evidence) -> None:
    """Adds first outputs of a regression that are far larger than all targets."""
    loss = evidence.facts.loss
    outputs, mean, std = (evidence[name].finite for name in ("outputs/std", "targets/mean", "targets/std"))
    if loss is None or loss.kind not in OF_VALUES or not min(map(len, (outputs, mean, std))):
        return
    size, progress = float(np.hypot(mean.first, std.first)), progress_of(evidence)
    floor = known_baseline(evidence)
    never_came = False
    if progress is not None and not progress.failed and floor is not None:
        never_came = progress.lowest > (1 + STAYED_ABOVE) * floor
    far = (OFF if never_came else FAR_OFF) * size
    if outputs.first > far > 0 and int(outputs.steps[0]) == int(mean.steps[0]):
        argument.add(
            0.6,
            f"the first outputs have a standard deviation of {outputs.first:.3g}, targets are of {size:.3g} in size",
            since=int(outputs.steps[0]),
        )


def _zero_for_good(evidence: Evidence) -> list[str]:
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


def _add_first_outputs(argument: Argument, outputs: Mapping[str, Series], *, normalised: bool) -> None:
    """Adds outputs that shrink or grow from layer to layer at the first step."""
    known = [(name, series.first) for name, series in outputs.items() if len(series)]
    known = [(name, value) for name, value in known if np.isfinite(value) and value > 0]
    if len(known) < 4 or normalised:
        return
    ratio = known[-1][1] / known[0][1]
    if not 1e-3 < ratio < 1e3:
        grow = "grow" if ratio > 1 else "shrink"
        argument.add(
            MODERATE,
            f"outputs {grow} from {known[0][1]:.2g} ({known[0][0]}) to {known[-1][1]:.2g} ({known[-1][0]}) at first",
            since=0,
        )
