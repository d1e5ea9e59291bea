"""Causes in what enters the model."""

from math import prod

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of
from debuggers.diagnosis.rules.initialization import entering_first_layer
from debuggers.diagnosis.rules.visits import MANY_VISITS, visits

LARGE_INPUT = 10.0
"""Standard deviation or mean of inputs from which the first layer works far from where it was initialised for."""
UNEVEN = 100.0
"""Ratio of the features' scales from which the largest ones drown the others."""
IN_FEW = 0.2
"""A feature's typical standard deviation over the batch, as a share of that of all values, below which the spread lies
in a few features or between them. Of values in one unit, such as pixels, it is more than half."""
MOSTLY_EQUAL = 0.8
"""Share of a batch's rows from which one row is what the model is given, whatever the others are."""
OFTEN_EQUAL = 0.5
"""The same where nearly all rows that repeat are that one."""
FULL_BATCH_FROM = 64
"""A batch of at least so many rows that comes again and again may be the whole data set."""
FEW_BATCHES = 2.5
"""Batches that a data set fills at least, if it is one and not what a sampler or a slice has left of it."""
FAR_ABOVE = 10.0
"""Times the training loss from which a validation loss shows that rows were learnt by heart."""
NORMALISING = ("BatchNorm", "LayerNorm", "InstanceNorm", "GroupNorm", "RMSNorm")


def non_finite_inputs(evidence: Evidence) -> Argument:
    """Any NaN or infinity enters the model. Models that mask them train on: then it counts for half."""
    argument = Argument("non_finite_inputs")
    bad = evidence["inputs/non_finite"]
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


def inputs_constant(evidence: Evidence) -> Argument:
    """The rows of every sampled batch are equal, or nearly all of them: no feature varies over the batch."""
    argument = Argument("inputs_constant")
    varies, size = evidence["inputs/batch_std"], evidence["inputs/batch_size"]
    several = size.median() >= 2
    if several and len(varies) and float(varies.values.max()) <= 1e-6 * _scale(evidence):
        argument.add(
            CERTAIN, f"no input feature varies within any of {len(varies)} sampled batches", since=_first(varies)
        )
    elif several and not len(varies):
        same = evidence["inputs/duplicates"]
        rows = size.median()
        if len(same) and float(same.values.min()) >= 1 - 1 / rows - 1e-9:
            argument.add(CERTAIN, f"all rows are equal in each of {len(same)} sampled batches", since=_first(same))
    if several and argument.cause is None:
        _add_top_row(argument, evidence)
    argument.advice = (
        "Look at a batch as the model gets it: a wrong column, index, mask or a division by 255 of integers."
    )
    return argument


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
        argument.add(0.8, f"{share:.0%} of the rows of a batch are one and the same", since=_first(top))


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
    since = _first(std)
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
        elif progress.learnt > 0.9:
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
    argument.advice = (
        "Standardise each feature with its own mean and standard deviation in the training set, as by mean(0), std(0)."
        if uneven > UNEVEN
        else "Standardise inputs with the training set's mean and standard deviation: "
        f"(x - {centre:.3g}) / {spread:.3g}."
    )
    if argument.cause is None:
        _add_scaled_inside(argument, evidence, size)
    return argument


def _add_uneven(argument: Argument, evidence: Evidence, uneven: float, size: float) -> None:
    """Features of different scales, of inputs that are no smaller than usual, or that are standardised as a whole."""
    if uneven <= UNEVEN:
        return
    std = evidence["inputs/std"].finite
    text, spread = f"the standard deviations of input features differ by a factor of {uneven:,.0f}", std.median()
    within = evidence["inputs/batch_std"].finite.median(spread)
    if within < IN_FEW * spread and size <= LARGE_INPUT:
        text += f": that of all values is {spread:.2g}, that of a typical feature {within:.2g}"
        argument.add(0.6, text, since=_first(std))
    elif size > 1:
        argument.add(MODERATE, text, since=_first(std))


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


def duplicated_data(evidence: Evidence) -> Argument:
    """Rows repeat within batches, or small batches come again and again."""
    argument = Argument("duplicated_data")
    if not _belong_to_outputs(evidence):
        return argument
    same, again, size = (evidence[f"inputs/{name}"] for name in ("duplicates", "repeated", "batch_size"))
    rows, top = size.median(0.0), evidence["inputs/top_row_share"]
    share = same.median(0.0)
    if rows >= 4 and share >= 0.3 + _unavoidable(evidence, rows):
        argument.add(STRONG, f"{share:.0%} of the rows of a batch equal another row of it", since=_first(same))
        if top.median(0.0) - 1 / rows > MOSTLY_EQUAL * share:
            argument.against(STRONG, "nearly all are one and the same row: see inputs_constant")
        elif share >= 1 - 1.5 / rows:
            argument.against(STRONG, "all rows are equal: see inputs_constant")
    if len(again) >= 8:
        repeated = float(np.mean(again.values[1:]))
        if repeated > 0.9 and rows < FULL_BATCH_FROM and not _is_one_picture(evidence, rows):
            argument.add(
                STRONG, f"{repeated:.0%} of the sampled batches had come before, value by value", since=_first(again)
            )
            weights, wanted = _trained_weights(evidence), rows * _of_a_row(evidence)
            if 0 < weights < wanted:
                argument.against(
                    MODERATE,
                    f"{weights:,} weights cannot learn the {wanted:,.0f} targets of a batch by heart: it may be the "
                    "whole data set",
                )
        elif repeated > 0.9 and len(evidence.validation) == 0:
            argument.add(0.1, f"every batch is the same {rows:.0f} rows")
    if argument.cause is None and (drawn := _few_rows(evidence, rows)) is not None:
        argument.add(0.55, drawn)
        validation, progress = evidence.validation.finite.values, progress_of(evidence)
        if len(validation) >= 3 and progress and float(np.median(validation[-2:])) > FAR_ABOVE * progress.last:
            argument.against(WEAK, "what comes of it is a validation loss far above the training loss: see overfitting")
    for found in evidence.found("same_batch_on_ranks"):
        argument.add(STRONG, f"{found.evidence}: a DistributedSampler is missing", since=found.step, where=[found.name])
    argument.advice = (
        "Check the sampler, the worker's random seed (worker_init_fn) and joins that repeat rows; compare batches with "
        "torch.unique(inputs, dim=0)."
    )
    return argument


def _trained_weights(evidence: Evidence) -> int:
    return sum(prod(one.shape) for one in evidence.facts.parameters if one.role == "trained")


def _of_a_row(evidence: Evidence) -> int:
    """How many targets a row has; a class is one."""
    targets = evidence.facts.targets or evidence.facts.outputs
    return prod(targets.shape[1:]) if targets is not None else 1


def _is_one_picture(evidence: Evidence, rows: float) -> bool:
    """Whether a batch is one row with a field of targets: a picture whose places are the data.

    A deep image prior is fitted to it (Ulyanov et al. 2018), and so is a single volume or film.
    """
    targets = evidence.facts.targets or evidence.facts.outputs
    return rows == 1 and targets is not None and len(targets.shape) > 2 and prod(targets.shape) >= FULL_BATCH_FROM


def _few_rows(evidence: Evidence, rows: float) -> str | None:
    """What to say of batches that are drawn again and again from hardly more rows than one has; None if they are not.

    Such a data set is what a slice or a sampler has left of one. Codes may be all that there are.
    """
    seen = visits(evidence)
    if seen is None or seen.each < 2 * MANY_VISITS or are_codes(evidence):
        return None
    is_little = rows < seen.rows < min(FEW_BATCHES * rows, FULL_BATCH_FROM)
    text = f"batches of {rows:.0f} rows are drawn from about {seen.rows:.0f}, each of which came {seen.each:.0f} times"
    return text if is_little else None


def _unavoidable(evidence: Evidence, rows: float) -> float:
    """The share of a batch's rows that equal another one by chance, where inputs are of few kinds.

    Of m possible rows, n that are drawn at random have m (1 - (1 - 1/m)^n) different ones: numbers of users, words, the
    places of a small world. Measurements are equal only if they are one and the same.
    """
    kinds = _kinds(evidence) if rows >= 1 and are_codes(evidence) else 0.0
    return 1 - kinds * (1 - (1 - 1 / kinds) ** rows) / rows if kinds >= 1 else 0.0


def _kinds(evidence: Evidence) -> float:
    """How many different rows there are: as many as columns if they are one-hot and none came again; 0 if unknown."""
    seen, mean, inputs = visits(evidence), evidence["inputs/mean"].finite.values, evidence.facts.inputs
    if seen is not None:
        return seen.rows
    if inputs is None or inputs.integer or len(inputs.shape) != 2 or not len(mean):
        return 0.0
    return float(inputs.shape[1]) if np.allclose(mean, 1 / inputs.shape[1], rtol=1e-3) else 0.0


def are_codes(evidence: Evidence) -> bool:
    """Whether inputs are whole numbers, or two values alone: their variance is the largest that their mean allows.

    Those between a and b with the mean m have at most the variance (b - m)(m - a), if all are one or the other.
    Those of a loss that is not known, such as a policy's, may be the places of a world, however they are written.
    """
    facts = evidence.facts
    if (facts.inputs is not None and facts.inputs.integer) or (facts.loss is not None and not facts.loss.kind):
        return True
    least, most, mean, deviation = (evidence[f"inputs/{name}"].finite.values for name in ("min", "max", "mean", "std"))
    if not min(map(len, (least, most, mean, deviation))) or len(mean) != len(deviation):
        return False
    low, high = float(least.min()), float(most.max())
    ends = low == least.max() and high == most.min() and low < high
    return bool(ends and np.allclose(deviation**2, (high - mean) * (mean - low), rtol=1e-3))


def _belong_to_outputs(evidence: Evidence) -> bool:
    """Whether inputs may be the rows that the loss compares: not, say, all items that each query is compared with."""
    inputs, loss = evidence.facts.inputs, evidence.facts.loss
    if inputs is None or loss is None or not inputs.shape or not loss.outputs_shape:
        return True
    ours, theirs = inputs.shape[0], loss.outputs_shape[0]
    return ours == 0 or theirs == 0 or ours % theirs == 0 or theirs % ours == 0


def _scale(evidence: Evidence) -> float:
    """The magnitude of the inputs, for what counts as zero."""
    values = [float(np.abs(evidence[f"inputs/{name}"].finite.values).max(initial=0.0)) for name in ("min", "max")]
    return max(*values, 1e-30)


def _first(series: object) -> int:
    steps = series.steps  # type: ignore[attr-defined]
    return int(steps[0])
