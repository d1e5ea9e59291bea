"""Causes in what enters the model."""

import math

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, Argument
from debuggers.diagnosis.derived.initial_weights import entering_first_layer, scaling_layer
from debuggers.diagnosis.derived.input_kinds import are_codes
from debuggers.diagnosis.derived.labels import are_drawn
from debuggers.diagnosis.derived.lost_inputs import lost_input
from debuggers.diagnosis.derived.updates import threw_weights
from debuggers.diagnosis.derived.visits import MOSTLY_EQUAL
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import known_baseline, progress_of

FEWEST = 5
"""Sampled batches from which it is said what all of them are."""
LARGE_INPUT = 10.0
"""Standard deviation or mean of inputs from which the first layer works far from where it was initialised for."""
UNEVEN = 100.0
"""Ratio of the features' scales from which the largest ones drown the others."""
IN_FEW = 0.2
"""A feature's typical standard deviation over the batch, as a share of that of all values, below which the spread lies
in a few features or between them."""
IN_SEVERAL = 0.5
"""The same from which values are in one unit, such as pixels, of which those at the border hardly vary."""
OFTEN_EQUAL = 0.5
"""The same where nearly all rows that repeat are that one."""
NORMALISING = ("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "RMSNorm")


def non_finite_inputs(evidence: Evidence) -> Argument:
    """Any NaN or infinity enters the model. Models that mask them train on: then it counts for half.

    What parts of a model hand to each other comes of weights, which are NaN once the loss was.
    """
    argument = Argument("non_finite_inputs")
    bad = evidence["inputs/non_finite"]
    if (broken := _broken_by_weights(evidence)) is not None:
        bad = bad.until(broken)
    hit = np.flatnonzero(bad.values > 0)
    if len(hit):
        step, count = int(bad.steps[hit[0]]), float(bad.values[hit[0]])
        argument.add(CERTAIN, f"{count:,.0f} NaN or infinite input values at step {step}", since=step)
        outputs = evidence["outputs/non_finite"]
        loss = evidence["loss"]
        if len(outputs) and not (outputs.values > 0).any() and np.isfinite(loss.values).all():
            argument.against(MODERATE, "outputs and loss stayed finite: the model may mask them")
    argument.advice = (
        "Check the data before the model: torch.isfinite(inputs).all(); drop or "
        "fill what is missing, and scale columns "
        "with a standard deviation of 0 separately."
    )
    return argument


def _broken_by_weights(evidence: Evidence) -> int | None:
    """The step at which the loss became NaN or infinite, where what is seen of inputs is what another part puts out."""
    inputs, progress = evidence.facts.inputs, progress_of(evidence)
    is_made = inputs is not None and inputs.requires_grad
    return progress.became_non_finite if is_made and progress is not None else None


def inputs_constant(evidence: Evidence) -> Argument:
    """The rows of every sampled batch are equal, or nearly all of them: no feature varies over the batch.

    Or one of several inputs is the same number throughout.
    """
    argument = Argument("inputs_constant")
    finite = evidence["inputs/std"]  # NaN is no number that all are
    if are_drawn(evidence):
        return argument
    if _broken_by_weights(evidence) is not None or (len(finite) and not len(finite.finite)):
        return argument
    varies, size = evidence["inputs/batch_std"], evidence["inputs/batch_size"]
    several = size.median() >= 2 and not evidence.facts.joins_calls  # sentences may all begin with the same token
    # Beside one that is far larger, features that vary do so by little of the largest value.
    is_even = evidence["inputs/scale_ratio"].finite.median(1.0) <= UNEVEN
    rows, same = size.median(), evidence["inputs/duplicates"]
    are_equal = len(same) > 0 and float(same.values.min()) >= 1 - 1 / rows - 1e-9
    # What is known to vary are numbers: beside codes that tell rows apart, they may be a mask of ones, or a state.
    has_codes = len(varies) > 0 and not varies.values.any() and len(same) > 0 and not are_equal
    if several and is_even and not has_codes and len(varies) and float(varies.values.max()) <= 1e-6 * _scale(evidence):
        argument.add(
            CERTAIN, f"no input feature varies within any of {len(varies)} sampled batches", since=varies.first_step
        )
    elif several and not len(varies) and are_equal:
        argument.add(CERTAIN, f"all rows are equal in each of {len(same)} sampled batches", since=same.first_step)
    if argument.cause is None:
        _add_one_value(argument, evidence)
    if several and argument.cause is None:
        _add_top_row(argument, evidence)
    if argument.cause is None:
        _add_lost_input(argument, evidence)
    argument.advice = (
        "Look at a batch as the model gets it: a wrong column, index, mask or a division by 255 of integers."
    )
    return argument


def _add_one_value(argument: Argument, evidence: Evidence) -> None:
    """One number that all inputs are, in each batch, of one row or more; codes may well be of one kind."""
    least, most = evidence["inputs/min"].finite, evidence["inputs/max"].finite
    inputs = evidence.facts.inputs
    if len(least) < FEWEST or inputs is None or inputs.integer or math.prod(inputs.shape[1:]) < 2:
        return
    value = float(least.values.min())
    if value == float(most.values.max()):
        argument.add(
            CERTAIN, f"all inputs are {value:g}, in each of {len(least)} sampled batches", since=int(least.steps[0])
        )


def _add_lost_input(argument: Argument, evidence: Evidence) -> None:
    """One input beside others that tells rows apart in no step: what nearly all is learnt without is not missed."""
    lost, progress = lost_input(evidence), progress_of(evidence)
    if lost is None:
        return
    text = f"input {lost.position + 1} of the model is {lost.value:g} throughout, in each of {lost.steps} sampled steps"
    if lost.reader:
        text += f": the weights of {lost.reader} get no gradient, though its bias does"
    argument.add(STRONG, text, since=lost.since, where=[lost.reader] if lost.reader else [])
    if progress is not None and not progress.failed and progress.learnt > 0.9:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%} without it")


def _add_top_row(argument: Argument, evidence: Evidence) -> None:
    """One row that is most of each batch: what is read again and again has several that repeat.

    Rows of few kinds, such as the places of a small world, may be equal by chance.
    """
    top, same = evidence["inputs/top_row_share"], evidence["inputs/duplicates"]
    rows = evidence["inputs/batch_size"].median()
    if len(top) < 3 or rows < 8:
        return
    share = top.median()
    is_alone = len(same) > 0 and share - 1 / rows > MOSTLY_EQUAL * same.median()
    if share > MOSTLY_EQUAL or (share > OFTEN_EQUAL and is_alone and not are_codes(evidence)):
        argument.add(0.8, f"{share:.0%} of the rows of a batch are one and the same", since=top.first_step)


def inputs_not_normalized(evidence: Evidence) -> Argument:
    """Inputs are far from mean 0 and standard deviation 1, or their features differ in scale by more than 100.

    LeCun et al. (Efficient BackProp, 1998) give the reasons; default initialisations assume inputs of unit variance.
    What the model normalises itself is none: its first layer with parameters is a normalisation, or what its first
    layer puts out is what inputs of a usual size become there. Inputs that it makes large itself are not either.
    """
    argument = Argument("inputs_not_normalized")
    mean, std, ratio = (evidence[f"inputs/{name}"].finite for name in ("mean", "std", "scale_ratio"))
    if not len(std) or not len(mean):
        if evidence.facts.inputs is not None and evidence.facts.inputs.integer:
            _add_scaled_inside(argument, evidence, 0.0)
        return argument
    centre, spread = float(np.median(np.abs(mean.values))), std.median()
    since = std.first_step
    size = max(centre, spread)
    if size > LARGE_INPUT:
        weight = STRONG if size > 3 * LARGE_INPUT else MODERATE
        argument.add(weight, f"inputs have mean {centre:.3g} and standard deviation {spread:.3g}", since=since)
    elif spread < 1 / (10 * LARGE_INPUT) and spread > 0:
        argument.add(MODERATE, f"inputs have a standard deviation of only {spread:.2g}", since=since)
    elif centre > LARGE_INPUT / 2 * spread and centre > 1:
        argument.add(
            MODERATE, f"inputs have mean {centre:.3g}, far from 0 for a standard deviation of {spread:.3g}", since=since
        )
    uneven = ratio.median(1.0)
    _add_uneven(argument, evidence, uneven, size)
    progress = progress_of(evidence)
    if argument.cause is not None and progress is not None:
        if progress.failed or progress.learnt < 0.3:
            argument.add(MODERATE, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
        elif progress.learnt > 0.9 and not (threw_weights(evidence) or _set_the_first_loss(evidence, size)):
            # What jumped first falls by much, as does what began far too high.
            argument.against(MODERATE, f"the loss fell by {progress.fell:.0%} all the same")
    first = next(
        (layer for layer in evidence.facts.layers if layer.kind not in ("Flatten", "Identity", "Unflatten")), None
    )
    if first is not None and first.kind.startswith(NORMALISING):
        argument.against(CERTAIN, f"{first.name} normalises them ({first.kind})")
    entering = entering_first_layer(evidence)
    if entering is not None and size > LARGE_INPUT and entering[1] < size / LARGE_INPUT:
        argument.against(
            CERTAIN, f"{entering[0]} puts out what inputs of about {entering[1]:.2g} become: the model scales them"
        )
    scaled = scaling_layer(evidence)
    if scaled is not None and size > LARGE_INPUT and scaled[1] < size / LARGE_INPUT:
        argument.against(CERTAIN, f"{scaled[0]}, which is frozen, makes them {scaled[1]:.2g}: the model scales them")
    argument.advice = (
        "Standardise each feature with its own mean and standard deviation in the training set, as by mean(0), std(0)."
        if uneven > UNEVEN
        else "Standardise inputs with the training set's mean and standard deviation: "
        f"(x - {centre:.3g}) / {spread:.3g}."
    )
    if argument.cause is None:
        _add_scaled_inside(argument, evidence, size)
    return argument


def _set_the_first_loss(evidence: Evidence, size: float) -> bool:
    """Whether very large inputs made the first loss, which is larger than they are: it falls without much being learnt.

    Of losses that are compared with a constant output's, what is learnt is known.
    """
    progress = progress_of(evidence)
    return known_baseline(evidence) is None and progress is not None and progress.first > size > 3 * LARGE_INPUT


def _add_uneven(argument: Argument, evidence: Evidence, uneven: float, size: float) -> None:
    """Features of different scales, of inputs that are no smaller than usual, or that are standardised as a whole."""
    if uneven <= UNEVEN:
        return
    std = evidence["inputs/std"].finite
    text, spread = f"the standard deviations of input features differ by a factor of {uneven:,.0f}", std.median()
    within = evidence["inputs/batch_std"].finite.median(spread)
    if within < IN_FEW * spread and size <= LARGE_INPUT:
        text += f": that of all values is {spread:.2g}, that of a typical feature {within:.2g}"
        argument.add(0.6, text, since=std.first_step)
    elif size > 1 and within < IN_SEVERAL * spread:
        argument.add(MODERATE, text, since=std.first_step)


def _add_scaled_inside(argument: Argument, evidence: Evidence, size: float) -> None:
    """What the model itself makes of inputs of that size before its first layer, by what that puts out of them.

    A model that makes whole numbers floating-point may forget to scale them, and one may scale them once too often.
    """
    progress, entering = progress_of(evidence), entering_first_layer(evidence)
    if entering is None or entering[1] < LARGE_INPUT * max(size, 3.0):
        return
    first, enters = entering
    series = evidence.of_tensors("output_std")[first].finite
    if progress is not None and (progress.failed or progress.learnt < 0.9):
        argument.add(
            STRONG,
            f"{first} puts out {series.first:.3g} at first with weights of a usual scale: about {enters:.3g} enters it",
            since=int(series.steps[0]),
            where=[first],
        )
        if progress.failed or progress.learnt < 0.3:
            argument.add(MODERATE, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
    argument.advice = "Divide by the largest value, such as 255, or standardise, in the model or before it, but once."


def _scale(evidence: Evidence) -> float:
    """The magnitude of the inputs, for what counts as zero."""
    values = [float(np.abs(evidence[f"inputs/{name}"].finite.values).max(initial=0.0)) for name in ("min", "max")]
    return max(*values, 1e-30)
