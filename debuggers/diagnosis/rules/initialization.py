"""Causes in how weights start: at a wrong scale."""

from collections.abc import Mapping

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, Argument
from debuggers.diagnosis.derived.first_gradients import multiplied_on_the_way
from debuggers.diagnosis.derived.first_loss import OFF_WAY, add_first_loss
from debuggers.diagnosis.derived.first_weights import (
    DROWNS,
    all_zero,
    drowning_biases,
    first_phases,
    has_died,
    is_rescaled,
    large_recurrences,
    moves_alone,
    off_centre,
    zero_for_good,
)
from debuggers.diagnosis.derived.initial_weights import USUAL_GAINS, entering_first_layer, gains
from debuggers.diagnosis.derived.updates import EARLY, LARGE_RATIO, SMALL_RATIO
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES, Facts
from debuggers.diagnosis.progress import known_baseline, progress_of
from debuggers.diagnosis.series import Series

LARGEST_GAIN = 5 / 3
"""The largest that torch recommends for one of its activations, that of tanh."""
NEARLY_ALL = 0.9
"""Share of a model's elements in weights that are too large, from which one setting has made them so."""
SMALL_GAIN = 0.4
"""Standard deviation of weights times √fan_in below which a layer makes less of its inputs than with a usual start:
PyTorch's have 0.58."""
FADES = 0.01
"""Ratio of what rows differ by behind the last layer to that behind the first, below which hardly any of it is left."""
FAR_OFF = 10.0
"""Times the size of targets from which first outputs are far off them."""
OFF = 5.0
"""The same where the loss has never come down to that of a constant output."""
STAYED_ABOVE = 0.5
"""Share of the loss of a constant output by which the lowest of one that never came down to it is above it."""
NOTHING = 0.97
"""Share of the loss of a constant output that a validation stays above which says that nothing was learnt."""
OTHER_SCALE = 10.0
"""Standard deviation of the inputs from which they, not the weights, decide how large the first outputs are."""


def poor_initialization(evidence: Evidence) -> Argument:
    """At the first step weights, outputs or the loss are at a scale far from what initialisations aim at."""
    argument = Argument("poor_initialization")
    facts = evidence.facts
    normalised = any("Norm" in layer.kind for layer in facts.layers)
    wrong = _add_first_values(argument, evidence)
    _add_first_outputs(argument, evidence.of_tensors("output_std"), normalised=normalised)
    _add_fading(argument, evidence, normalised=normalised)
    _add_reach(argument, evidence)
    is_far_off = add_first_loss(argument, evidence)
    baseline = evidence["baseline_loss"].finite
    if argument.cause is not None and not wrong:
        _weigh_the_rest(argument, evidence)
    ratio = evidence["update_ratio"].finite
    early = ratio.until(int(ratio.steps[0]) + EARLY).values if len(ratio) else ratio.values
    if argument.cause is not None and not wrong and float(early.max(initial=0.0)) > LARGE_RATIO:
        argument.against(MODERATE, "the weights are at a usual scale, and their first updates are large")
    wrong |= _add_zeros(argument, evidence)
    # What begins as next to nothing adds nothing to a first loss that it could fall from.
    are_small = 0 < max(wrong.values(), default=0.0) < USUAL_GAINS[0]
    progress, is_tiny = progress_of(evidence), ratio.median() < SMALL_RATIO
    if argument.cause is not None and progress is not None:
        if not wrong and is_tiny:
            pass  # nothing was tried: see learning_rate_too_low
        elif not wrong and _broke_backwards(evidence):
            pass  # what made a gradient infinite needs no large loss
        elif progress.failed or progress.learnt < 0.2:
            argument.add(MODERATE, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
        elif is_far_off or (
            wrong
            and ((not are_small and progress.first > OFF_WAY * baseline.median(progress.first)) or has_died(evidence))
        ):
            pass  # nearly all of the fall is the way to where a usual start begins, or units were lost on it
        elif (
            len(wrong) > 1 and set(gains(facts)) <= set(wrong) and progress.first > 2 * baseline.median(progress.first)
        ):
            pass  # nobody means that of each weight, unless its layer scales it, as under equalized learning rates
        elif first_phases(evidence) and _learns_by_heart_alone(evidence):
            argument.add(MODERATE, f"the loss fell by {progress.fell:.0%}, and that of the validation did not")
        elif progress.learnt > 0.9 or (
            progress.fell > 0.7 and (progress.last < 0.3 * max(baseline.median(progress.last), 1e-12) or are_small)
        ):
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    argument.advice = (
        "Initialise with torch.nn.init.kaiming_normal_ before ReLU, xavier_normal_ before tanh and sigmoid, biases "
        "with 0, and widths of functions that fall to zero at the size of what enters them."
    )
    return argument


def _learns_by_heart_alone(evidence: Evidence) -> bool:
    """Whether no validation has come clearly below the loss of a constant output."""
    validation, floor = evidence.validation.finite, known_baseline(evidence)
    return len(validation) > 0 and floor is not None and float(validation.values.min()) > NOTHING * floor


def _broke_backwards(evidence: Evidence) -> bool:
    """Whether a gradient was NaN or infinite while each loss until then was finite."""
    found = evidence.found("non_finite_gradient")
    return bool(found) and bool(np.isfinite(evidence["loss"].until(found[0].step).values).all())


def _add_first_values(argument: Argument, evidence: Evidence) -> dict[str, float]:
    """Adds parameters whose first values are at a wrong scale; returns their names with the number that says so."""
    facts = evidence.facts
    first = gains(facts)
    wrong = {name: gain for name, gain in first.items() if not USUAL_GAINS[0] < gain < USUAL_GAINS[1]}
    last = next(reversed(first), "")  # behind it nothing vanishes: outputs may begin as constant ones
    wrong = {
        name: gain for name, gain in wrong.items() if gain > 1 or not (name == last or is_rescaled(evidence, name))
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
    if large := large_recurrences(facts, first):
        name = max(large, key=lambda key: large[key])
        wrong |= large
        argument.add(
            0.6,
            f"the standard deviation of {name} times the root of its width is {large[name]:.2g} at first: a step "
            "multiplies a state by about that, which holds tanh and gates at their bounds",
            since=0,
            where=list(large)[:5],
        )
    if drowning := drowning_biases(evidence):
        name = max(drowning, key=lambda key: drowning[key])
        wrong |= drowning
        argument.add(
            0.85,
            f"{name} has a standard deviation of {drowning[name]:.3g} at first, more than {DROWNS:g} times what its "
            "layer's outputs vary by from row to row: inputs hardly count",
            since=0,
            where=list(drowning)[:5],
        )
    if phases := first_phases(evidence):
        name = max(phases, key=lambda key: phases[key])
        wrong |= phases
        argument.add(
            STRONG,
            f"what a sine reads of {name} has a standard deviation of {phases[name]:.3g} radians at first, more than "
            "half a period: its outputs are as good as random",
            since=0,
            where=list(phases)[:5],
        )
    if off := off_centre(facts):
        name = max(off, key=lambda key: off[key])
        wrong |= off
        argument.add(
            STRONG,
            f"the weights of {name} are nearly all of one sign: their mean times fan_in is {off[name]:.3g} at first, "
            "initialisations have a mean of 0",
            since=0,
            where=list(off)[:5],
        )
    if empty := all_zero(facts):
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
    if still := zero_for_good(evidence):
        wrong |= dict.fromkeys(still, 0.0)
        argument.add(
            CERTAIN,
            f"the weight of {', '.join(still[:3])} is zero at first, and all that it puts out is zero at each sampled "
            "step: what reads zeros passes no gradient back to move it",
            since=0,
            where=still[:5],
        )
    if bias := moves_alone(evidence):
        wrong[bias] = 0.0
        argument.add(
            STRONG,
            f"from the first step on the gradients of all weights are exactly zero, and that of {bias} is not: what "
            "the last weights are multiplied with is zero for every input",
            since=0,
            where=[bias],
        )
    return wrong


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


def _add_fading(argument: Argument, evidence: Evidence, *, normalised: bool) -> None:
    """Weights that are nearly all too small, each by not enough to be told alone: what rows differ by fades.

    Biases keep outputs at their size, and gradients need not fall as far: the loss stays at that of a constant output.
    """
    sizes = {one.name: float(np.prod(one.shape)) for one in evidence.facts.parameters}
    known = gains(evidence.facts)
    small = {name: gain for name, gain in known.items() if gain < SMALL_GAIN}
    spread = [series.finite.first for series in evidence.of_tensors("output_batch_std").values() if len(series.finite)]
    if (
        normalised
        or len(small) < 3
        or sum(map(sizes.__getitem__, small)) < NEARLY_ALL * sum(map(sizes.__getitem__, known))
    ):
        return
    if len(spread) > 2 and 0 <= spread[-1] < FADES * spread[0]:
        argument.add(
            MODERATE,
            f"the standard deviations of {len(small)} of {len(known)} weights times √fan_in are "
            f"{max(small.values()):.2g} and less at first, and what rows differ by shrinks from {spread[0]:.2g} to "
            f"{spread[-1]:.2g} on the way through the layers",
            since=0,
            where=list(small)[:5],
        )


def _weigh_the_rest(argument: Argument, evidence: Evidence) -> None:
    """What else may decide how large the first outputs are: inputs, as given or as the model makes them, and depth."""
    spread, enters = evidence["inputs/std"].finite.values, entering_first_layer(evidence)
    if len(spread) and not 0.1 < float(spread[0]) < OTHER_SCALE:
        argument.against(STRONG, f"the inputs have a standard deviation of {spread[0]:.2g}")
    elif enters is not None and enters[1] > OTHER_SCALE:
        argument.against(STRONG, f"about {enters[1]:.2g} enters {enters[0]}: that, not its weights, is large")
    if (grown := multiplied_on_the_way(evidence)) is not None:
        argument.against(
            STRONG, f"the weights are at a usual scale, and gradients grow {grown[1]:,.0f} times on the way back"
        )


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
