"""Causes in batches: they are no random ones, or their samples influence each other."""

import numpy as np
import numpy.typing as npt

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, Argument
from debuggers.diagnosis.derived.batch_kinds import always_the_same_class, extended_at, of_one_class
from debuggers.diagnosis.derived.relation import FEWEST
from debuggers.diagnosis.derived.zero_gradients import USUAL
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES
from debuggers.diagnosis.series import Series

FEWEST_OF_A_TASK = 3
GROUPED = 5.0
"""Variance of the batches' means over that of random batches from which batches are not drawn at random."""
LITTLE = 0.1
"""Share of the targets' variance up to which a difference between batches does no harm."""
CHANGES = 0.1
"""Share of the steps at which a loss changes its sign, from which it has no sign of its own."""
_CHOOSE = ("GatherBackward", "IndexBackward")
SIZES = 2
"""Lengths of batches: that of all, and that of the last one of an epoch."""
ROUND, HALF = 9, 0.5
"""Last of the first sampled steps, all of which are sampled, and the share of steps that are most."""
NEARLY_ALL = 0.9
"""Share of features that are all but those of rounding."""
OFTEN = 0.2
"""Share of rows that come again, from which they are samples."""
SAME_ROWS = 1e-6
"""Spread over a batch beside the deviation of all elements up to which rows differ by rounding alone."""
_SPREADS = ("outputs/batch_std", "outputs/std", "inputs/batch_std")


def unshuffled_data(evidence: Evidence) -> Argument:
    """Batches differ in their targets by more than random batches do, or more of them than chance have one class.

    A batch of n random targets is of the most frequent class alone with the n-th power of its share.
    """
    argument = Argument("unshuffled_data")
    between, classes = evidence["targets/between_batches"], evidence["targets/classes"]
    size = evidence["inputs/batch_size"]
    if size.median() < 4 or _of_the_same_rows(evidence) or _are_values_of_actions(evidence):
        return argument
    # The mean of one sample left over at an epoch's end says nothing.
    several, jumping = _between_several(evidence)
    whole_batches = not len(size) or size.values.min() >= 4
    enough = len(between) >= FEWEST and _share_between(evidence) > LITTLE
    several, jumping = several / _copies(evidence), jumping / _copies(evidence)
    if whole_batches and enough and several > GROUPED and not _are_choices(evidence, jumping):
        ratio = between.last
        weight = STRONG if ratio < 2 * GROUPED else CERTAIN
        drifts = jumping <= GROUPED and (not len(classes) or _are_compared_as_values(evidence))
        argument.add(
            MODERATE if drifts or _of_positions(evidence) else weight,
            f"the mean target of a batch varies {ratio:.0f} times as much as in random batches",
            since=int(between.steps[0]),
        )
    alone = of_one_class(evidence)
    if alone is not None:
        argument.add(
            MODERATE if always_the_same_class(evidence) else STRONG,
            f"{alone:.0%} of the sampled batches have one class only",
            since=int(classes.steps[0]),
        )
    if argument.cause is not None and (step := extended_at(evidence)) is not None:
        argument.against(
            STRONG, f"from step {step} on new rows come among those that were known: the data grows, as in a curriculum"
        )
    elif argument.cause is not None and _is_of_rounds(evidence):
        argument.against(
            STRONG,
            "each batch comes for several steps in a row, and others take its place for good, as rollouts of a policy",
        )
    argument.advice = (
        "Shuffle: DataLoader(..., shuffle=True), or permute the rows once before they are cut into batches."
    )
    return argument


def _copies(evidence: Evidence) -> float:
    """How often each row of a batch comes in it: its mean varies as that of so many times fewer rows does."""
    same, size = evidence["inputs/duplicates"].finite.median(0.0), evidence["inputs/batch_size"].median()
    return 1 / max(1 - same, 1 / size)


def _are_compared_as_values(evidence: Evidence) -> bool:
    """Whether targets that are whole numbers are values all the same, as the rewards 0 and 1 that a critic learns."""
    loss = evidence.facts.loss
    return loss is not None and loss.kind in OF_VALUES


def _are_values_of_actions(evidence: Evidence) -> bool:
    """Whether each row's loss compares one of its outputs as a value, chosen by an index, as in Q-learning.

    The model makes the targets for itself then, of what it thinks of the next states (Mnih et al. 2015).
    """
    loss, outputs = evidence.facts.loss, evidence.facts.outputs
    if loss is None or outputs is None or loss.kind not in OF_VALUES or len(outputs.shape) != 2:
        return False
    is_one_of_each = tuple(loss.outputs_shape) in {outputs.shape[:1], (outputs.shape[0], 1)} and outputs.shape[1] > 1
    return is_one_of_each and any(node.startswith(_CHOOSE) for node in loss.nodes)


def _of_the_same_rows(evidence: Evidence) -> bool:
    """Whether each batch has rows of the first one alone: their order says nothing, whatever becomes of the targets."""
    again = evidence["inputs/repeated_rows"].values[1:]
    return len(again) >= FEWEST and bool(again.min() > 0.9)


def _is_of_rounds(evidence: Evidence) -> bool:
    """Whether one whole batch comes at most of the first sampled steps, which follow one another, and new ones later.

    Each is what there is in its round, so that no order of rows could be another.
    """
    whole, again = evidence["inputs/repeated"].finite, evidence["inputs/repeated_rows"].finite
    first = whole.until(ROUND)
    if len(first) < ROUND or not len(again):
        return False
    late = again.values[len(again) // 2 :]
    return float(np.mean(first.values[1:])) > HALF and float(np.mean(late == 0)) > HALF


def _between_several(evidence: Evidence) -> tuple[float, float]:
    """The variance of the batches' means over that of random batches: without the farthest batch, and by jumps alone.

    Half the mean square of the jumps from one sampled batch to the next is the variance without a trend (von Neumann
    1941). A sorted file jumps back to its beginning with each epoch; targets that a model makes for itself, such as
    the values of states, only drift. Both are the ratio itself where the means are unknown.
    """
    between, means = evidence["targets/between_batches"], evidence["targets/mean"].finite
    ratio = between.last if len(between) else 0.0
    whole = float(np.var(means.values, ddof=1)) if len(means) > 2 else 0.0
    if not whole > 0:
        return ratio, ratio
    mean = _within_lengths(evidence, means, _within_tasks(evidence, means))
    rest = np.delete(mean, np.abs(mean - mean.mean()).argmax())
    return ratio * float(np.var(rest, ddof=1)) / whole, ratio * float(np.mean(np.diff(mean) ** 2)) / 2 / whole


def _within_tasks(evidence: Evidence, means: Series) -> npt.NDArray[np.float64]:
    """The batches' means without the difference of tasks that take turns: each has parameters of its own.

    Which of them have a gradient at a step tells what its targets are of.
    """
    has_gradient = [
        np.isin(means.steps, series.steps) for series in evidence.of_tensors("gradient_rms").values() if len(series)
    ]
    values = means.values.copy()
    if has_gradient:
        _, tasks = np.unique(np.stack(has_gradient), axis=1, return_inverse=True)
        for task in range(int(tasks.max()) + 1):
            own = tasks.reshape(-1) == task
            if FEWEST_OF_A_TASK <= own.sum() < len(own):
                values[own] += values.mean() - values[own].mean()
    return values


def _within_lengths(evidence: Evidence, means: Series, values: npt.NDArray[np.float64]) -> npt.NDArray[np.float64]:
    """The batches' means without the difference of batches of one length from those of another.

    What has one length is put together to save padding, and its targets may differ. Each length takes a degree of
    freedom.
    """
    known = evidence["inputs/length"]
    if not np.isin(means.steps, known.steps).all():
        return values
    _, groups = np.unique(known.values[np.searchsorted(known.steps, means.steps)], return_inverse=True)
    count = int(groups.max()) + 1
    if count == 1 or len(values) - count < FEWEST:
        return values
    of_length = np.bincount(groups, values) / np.bincount(groups)
    spread: npt.NDArray[np.float64] = (values - of_length[groups]) * np.sqrt((len(values) - 1) / (len(values) - count))
    return spread + float(values.mean())


def _share_between(evidence: Evidence) -> float:
    """The share of the targets' variance that lies between batches, beyond that of random ones; 1 if not known.

    However sure it is that batches differ, they do no harm where each has nearly all that there is: so do those of a
    recurrence whose state goes on from one to the next, with a piece of each series in each.
    """
    means, within, ratio = (evidence[f"targets/{name}"].finite.values for name in ("mean", "std", "between_batches"))
    if len(means) < FEWEST or not len(within) or not len(ratio) or ratio[-1] <= 1:
        return 1.0
    between = float(np.var(means, ddof=1))
    whole = between + float(np.mean(np.square(within)))
    return between * (1 - 1 / float(ratio[-1])) / whole if whole > 0 else 1.0


def _are_choices(evidence: Evidence, jumping: float) -> bool:
    """Whether targets are choices of the model itself, such as actions, which come to be all of one kind.

    Their loss is none that is known, and weighs them by what they have brought: it has both signs, or choices only
    drift. The negative logarithm of a probability alone is never negative. Choices of real numbers, such as forces, are
    compared as values, and the squares have weights of both signs: the loss changes its sign over and over.
    """
    targets, loss, losses = evidence.facts.targets, evidence.facts.loss, evidence["loss"].finite.values
    if loss is not None and loss.kind in OF_VALUES and loss.weighted:
        return int(np.count_nonzero(np.diff(np.signbit(losses)))) >= CHANGES * len(losses)
    if targets is None or not targets.integer or loss is None or loss.kind or loss.parts:
        return False
    return jumping <= GROUPED or (len(losses) > 0 and float(losses.min()) < 0)


def _of_positions(evidence: Evidence) -> bool:
    """Whether there is a class for each position of each input: with time first, rows of one batch go together."""
    inputs, targets = evidence.facts.inputs, evidence.facts.targets
    if inputs is None or targets is None or not targets.integer or len(inputs.shape) < 2 or inputs.shape[1] < 2:
        return False
    return int(np.prod(targets.shape)) == inputs.shape[0] * inputs.shape[1]


def batch_mixing(evidence: Evidence) -> Argument:
    """What a sample puts out depends on the others of its batch: a probe sees it, or an operator's dimensions tell.

    Sizes may be equal by chance in single batches, but seldom in the smaller one at an epoch's end, too.
    """
    argument = Argument("batch_mixing")
    probe = evidence.facts.probes.get("batch_mixing", {})
    if probe.get("mixed"):
        argument.add(0.9, str(probe.get("evidence", "an output depends on another sample of its batch")))
    for invariant in evidence.facts.invariants:
        if invariant.name == "samples_are_apart" and invariant.broken >= max(3, 0.8 * invariant.checked):
            argument.add(0.85, invariant.where, since=invariant.first_step)
        elif invariant.name == "first_is_batch" and invariant.broken >= max(3, 0.8 * invariant.checked):
            again = _rows_that_come_again(evidence)
            if again > OFTEN:
                argument.add(
                    0.85,
                    f"{invariant.where}; it is the batch: {again:.0%} of what stands along it comes again in later "
                    "batches as it was",
                    since=invariant.first_step,
                )
                argument.advice = "Pass batch_first=True to the layer, or transpose its inputs."
        elif invariant.name == "batch_statistics_are_kept" and invariant.broken >= max(3, 0.8 * invariant.checked):
            if not _rows_are_samples(evidence):
                continue
            argument.add(0.85, invariant.where, since=invariant.first_step)
            argument.advice = (
                "Take the statistics of a layer norm over the last dimension, keepdim=True; those of a batch norm need "
                "running ones for evaluation."
            )
    if (share := _of_unit_columns(evidence)) is not None:
        argument.add(
            0.85,
            f"{share:.0%} of the inputs' features have length 1 over each batch: what a sample's values are depends on "
            "the others, and on how many there are",
        )
        argument.advice = argument.advice or "Normalise the inputs along their features: normalize(inputs, dim=1)."
    if argument.cause is None and (pooled := _pooled(evidence)):
        argument.add(0.75, pooled, since=0)
    argument.advice = argument.advice or (
        "Look for view, reshape, transpose, roll, softmax or mean over the first dimension."
    )
    return argument


def _pooled(evidence: Evidence) -> str:
    """What to say of a model that gives each row of a batch the same, from the first step on; "" of others.

    Rows differ in what enters it and behind its first layer, whose weights get gradients: nothing cuts them off, as
    dead units or a function without slope would, so something on the way goes over the batch.
    """
    spread, deviation, entering = (evidence[name].finite for name in _SPREADS)
    steps, ours, theirs = np.intersect1d(spread.steps, deviation.steps, return_indices=True)
    if len(steps) < FEWEST or not entering.median() > 0 or evidence["inputs/batch_size"].finite.median() < 2:
        return ""
    if (spread.values[ours] > SAME_ROWS * deviation.values[theirs]).any() or not deviation.values[theirs].all():
        return ""
    layers = evidence.facts.called or tuple(layer.name for layer in evidence.facts.layers)
    behind, gradients = evidence.of_tensors("output_batch_std"), evidence.of_tensors("gradient_rms")
    first = next((name for name in layers if f"{name}.weight" in gradients and name in behind), "")
    if not first or not behind[first].finite.median() > 0 or not gradients[f"{first}.weight"].finite.median() > USUAL:
        return ""
    return (
        f"the model puts out the same for each row of a batch, at each of {len(steps)} sampled steps, though rows "
        f"differ in what {first} puts out, and its weights get gradients: what stands behind it goes over the batch"
    )


def _rows_are_samples(evidence: Evidence) -> bool:
    """Whether the rows of the inputs are drawn one by one, and are no nodes of one graph or places of one series.

    Rows of several dimensions hold nodes or places of their own.
    """
    inputs = evidence.facts.inputs
    own = 2 if inputs is not None and inputs.integer else 3
    return (inputs is not None and len(inputs.shape) >= own) or _rows_that_come_again(evidence) > OFTEN


def _of_unit_columns(evidence: Evidence) -> float | None:
    """The least share of features of length 1 over a batch, if it is nearly all in each; None for others.

    Data may have such columns as a whole, and are one batch then, or come in batches of which the same rows come again.
    So may the nodes of one graph: its edges are given beside them, or its length is another one than that of the next.
    """
    share, size, again = (evidence[f"inputs/{name}"].finite for name in ("unit_columns", "batch_size", "repeated_rows"))
    is_alone = any(one.name == "batch_statistics_are_kept" for one in evidence.facts.invariants)
    if not is_alone or len(share) < FEWEST or len(np.unique(size.values)) > SIZES:
        return None
    least = float(share.values.min())
    return least if least >= NEARLY_ALL and again.median(1.0) <= OFTEN else None


def _rows_that_come_again(evidence: Evidence) -> float:
    """The share of a late batch's rows that earlier batches had, without those that are equal within one, as padding.

    Along time, other samples stand side by side in each batch that is drawn. Not where a whole batch comes again, as
    pieces of long series do in each epoch, nor where their length changes from piece to piece.
    """
    again, equal, whole, size = (
        evidence[f"inputs/{name}"].finite for name in ("repeated_rows", "duplicates", "repeated", "batch_size")
    )
    of_new = ~np.isin(again.steps, whole.steps[whole.values > 0])
    late = again.values[of_new][-max(3, int(of_new.sum()) // 3) :]
    if len(late) < 3 or len(np.unique(size.values)) > SIZES:
        return 0.0
    return float(np.median(late)) - equal.late(3).median(0.0)
