"""Causes in the targets."""

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.batch_kinds import always_the_same_class, of_one_class
from debuggers.diagnosis.derived.input_kinds import are_codes
from debuggers.diagnosis.derived.pairs import add_unordered, order_of_pairs, stays_at, uncertainty_of_contrast
from debuggers.diagnosis.derived.rates import has_collapsed, learning_rates
from debuggers.diagnosis.derived.relation import (
    CHANCE,
    FEWEST,
    explains,
    hits,
    is_by_chance,
    late_correlation,
    learnt_of_new_rows,
    reconstructs,
)
from debuggers.diagnosis.derived.updates import AGREE, ENOUGH, STAYED, TRIAL, collapse, late_agreement, travelled
from debuggers.diagnosis.derived.visits import FEW_ROWS, FEW_VISITS, MANY_VISITS, Visits, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES
from debuggers.diagnosis.progress import Progress, progress_of

IMBALANCE = 10.0
"""Ratio of the most frequent to the rarest class (ClassImbalance of SageMaker Debugger)."""
FAR_RARER = 30.0
"""The same from which a class is far too rare for a loss that weighs all rows alike."""
STILL = 0.01
"""Share of its first spread over a batch below which an output does not vary any more."""
SETTLED = 0.55
"""Weight of a loss that has come to that of equal scores to within a hundredth, and stays there."""
OF_A_CLASS = 10.0
"""Rows of each class, on average, up to which they are few."""
MANY = 16
"""Outputs of a row from which their means are worth learning by themselves."""
HALF = 0.5
"""Share of what there is to learn, below which it may be the means alone."""


def class_imbalance(evidence: Evidence) -> Argument:
    """One class is more than 10 times as frequent as another, and the model predicts it nearly always.

    Where each row has several labels, the classes are whether one applies. Most do not, by nature: then it takes 30
    times, and a model that predicts none at all. A weight below 1 of positive targets makes them rarer by that factor.
    """
    argument = Argument("class_imbalance")
    top, rare = evidence["targets/top_share_so_far"], evidence["targets/rarest_share_so_far"]
    if not len(top) or not len(rare) or 1.0 in evidence["targets/classes_so_far"].values[-1:]:
        return argument
    most, least = top.last, rare.last
    weight = _weight_of_rare(evidence)
    if weight < 1:  # of two classes, so that their shares are 1 together
        most, least = (share / (most + least * weight) for share in (most, least * weight))
    if most < IMBALANCE * least or most < 0.5:
        return argument
    always = float(evidence["top_predicted_share"].late(3).values.min(initial=1.0)) == 1
    if _has_several_labels(evidence) and (most < FAR_RARER * least or not always):
        return argument
    argument.add(
        MODERATE,
        f"the most frequent class has {top.last:.1%} of the targets, the rarest {rare.last:.2%}"
        + (f", each of which counts {weight:g} times (pos_weight)" if weight < 1 else ""),
        since=int(top.steps[0]),
    )
    predicted, minority = evidence["top_predicted_share"], evidence["minority_accuracy"].finite
    late = predicted.late().median(0.0)
    few = minority.late(3).values
    if late > 0.97:
        argument.add(STRONG, f"the model predicts one class for {late:.0%} of a batch")
    elif len(few) >= 3 and float(np.mean(few)) < 0.5:
        argument.add(0.5, f"of the targets of the other classes it finds {np.mean(few):.0%}")
    elif _comes_again(evidence):
        if most > FAR_RARER * least and _has_a_class_for_each_row(evidence):
            argument.add(WEAK, f"no class has a weight, and the rarest one is {most / least:.0f} times rarer")
    elif (len(few) >= 3 and float(np.mean(few)) > 0.7) or late < most + 0.02:
        argument.against(MODERATE, "the model predicts the other classes, too")
    if of_one_class(evidence) is not None and always_the_same_class(evidence):
        argument.against(STRONG, "batches of one class and of several are no draws from the same rows")
    argument.advice = (
        "Weigh classes by their frequency (CrossEntropyLoss(weight=...), BCEWithLogitsLoss(pos_weight=...)), or draw "
        "them equally often (WeightedRandomSampler); judge by recall of each class, not by accuracy."
    )
    if weight < 1:
        argument.advice = (
            f"pos_weight: {weight:g} → {top.last / rare.last:.2g}, negatives over positives; or leave it out."
        )
    return argument


def _weight_of_rare(evidence: Evidence) -> float:
    """What positive targets that are rare count, where the loss makes them count for less; 1 otherwise."""
    loss, mean = evidence.facts.loss, evidence["targets/mean"].finite
    if loss is None or loss.kind != "bce_with_logits" or not mean.median(1.0) < 0.5:
        return 1.0
    return min(1.0, max(loss.positive_weight, 0.0))


def _has_several_labels(evidence: Evidence) -> bool:
    """Whether each row has several labels, each of which applies or not; not one label for each of its positions."""
    targets, loss, inputs = evidence.facts.targets, evidence.facts.loss, evidence.facts.inputs
    is_binary = loss is not None and loss.kind in ("bce", "bce_with_logits")
    if not is_binary or targets is None or len(targets.shape) != 2 or targets.shape[1] < 2:
        return False
    has_positions = inputs is not None and (inputs.integer or len(inputs.shape) > 2)
    return not (has_positions and inputs is not None and inputs.shape[:2] == targets.shape)


def _comes_again(evidence: Evidence) -> bool:
    """Whether rows have come so often that what the model predicts of them may be learnt by heart."""
    seen = visits(evidence)
    return seen is not None and seen.each > FEW_VISITS


def _has_a_class_for_each_row(evidence: Evidence) -> bool:
    """Whether each row has one target, as pixels and words have not, in a loss that weighs all classes alike."""
    targets, inputs, loss = evidence.facts.targets, evidence.facts.inputs, evidence.facts.loss
    if targets is None or inputs is None or loss is None or not targets.shape or not inputs.shape:
        return False
    alike = loss.kind in ("cross_entropy", "nll", "bce", "bce_with_logits") and not loss.weighted and loss.terms == 1
    return alike and int(np.prod(targets.shape)) == targets.shape[0] == inputs.shape[0]


def _stays_near(evidence: Evidence, floor: float) -> bool:
    """Whether the loss is near that of a constant output in both quarters of its second half, and was never far below.

    A loss that has only arrived there is on its way: what is learnt first are the classes' shares. One that came from
    above has to have stood there for half as long again as it took. Single losses of small batches may be far below by
    chance, those of a whole eighth of the training are not; what is near it is the mean of losses that are skewed, and
    the median of those with outliers.
    """
    losses = evidence["loss"].finite.values
    above = [float(np.median(part)) > 1.1 * floor for part in np.array_split(losses, 10) if len(part)]
    if all(above[:4]):
        return False
    quarters = np.array_split(losses[len(losses) // 2 :], 2)
    is_near = all(
        len(part) and min(abs(float(np.mean(part)) - floor), abs(float(np.median(part)) - floor)) < 0.1 * floor
        for part in quarters
    )
    return is_near and min(float(np.median(part)) for part in np.array_split(losses, 8) if len(part)) > 0.8 * floor


def _learns_by_heart(evidence: Evidence, progress: Progress, floor: float) -> bool:
    """Whether little was gained over a constant output on a long way, of batches that have come again for long.

    Then it is neither small steps nor a short training, and what related targets have in common would have been learnt.
    """
    seen, steps = visits(evidence), progress.points
    if seen is None or seen.each <= MANY_VISITS or are_codes(evidence):  # equal codes may have different targets
        return False
    drops = any("Dropout" in layer.kind and (layer.value or 0) > 0.5 for layer in evidence.facts.layers)
    gained = 0 < progress.learnt < 0.25 and abs(progress.first - floor) < 0.5 * floor
    slowly = not explains(evidence) and not _learnt_early(evidence, seen, progress, floor)
    return bool(gained and slowly and steps >= TRIAL and travelled(evidence) > 1 and not drops)


def _learnt_early(evidence: Evidence, seen: Visits, progress: Progress, floor: float) -> bool:
    """Whether more than half of what was gained over a constant output was there when rows came for the second time.

    What is learnt by heart comes with each visit of a row; what rows have in common comes first, and then little more.
    """
    epoch = max(1, round(seen.rows / evidence["inputs/batch_size"].median()))
    second = evidence["loss"].finite.values[epoch : 2 * epoch]
    return len(second) > 0 and floor - float(second.mean()) > 0.5 * (floor - progress.last)


def _add_relation(argument: Argument, evidence: Evidence, *, near: bool) -> None:
    """What shows that the targets do have to do with the inputs."""
    new = learnt_of_new_rows(evidence)
    if new is not None:
        argument.against(STRONG, f"the loss of rows that were new came to {new:.3g}, below that of a constant output")
    if reconstructs(evidence):
        argument.against(CERTAIN, "the targets are the inputs themselves")
    if near and explains(evidence):
        argument.against(STRONG, "outputs and targets go together: a line through them explains a quarter and more")


def _add_steps(argument: Argument, evidence: Evidence, *, near: bool) -> None:
    """Whether the steps are what keeps the loss where it is: they have led nowhere yet, too far, or have ended."""
    if near and travelled(evidence) < 1 and (agree := late_agreement(evidence)) > AGREE:
        argument.against(MODERATE, f"the gradients of neighbouring steps agree (cosine {agree:.2f}): it has only begun")
    spread = evidence["outputs/batch_std"].finite  # what gradients of chance push about still varies
    if near and collapse(evidence) is not None and spread.late(3).median() < STILL * spread.first:
        argument.against(MODERATE, "large updates have made outputs constant: see learning_rate_too_high")
    if has_collapsed(learning_rates(evidence)):
        argument.against(STRONG, "the learning rate had fallen to nearly nothing by then: see schedule_collapsed")


def _add_hits(argument: Argument, evidence: Evidence) -> None:
    """Whether outputs hit their targets more often than chance, or vary with them."""
    accuracy, top = evidence["accuracy"].finite, evidence["targets/top_share_so_far"]
    related, pairs = late_correlation(evidence), order_of_pairs(evidence)
    if pairs is not None:
        first, late, deviation = pairs
        if max(abs(first - 0.5), abs(late - 0.5)) > CHANCE * deviation:
            argument.against(
                STRONG,
                f"{first:.0%} of the pairs are in the order that the loss asks for at first, {late:.0%} at the end: "
                "not by chance",
            )
        else:
            argument.add(
                MODERATE, f"{late:.0%} of the pairs are in the order that the loss asks for, no more than by chance"
            )
    elif len(accuracy) >= FEWEST and len(top):
        if (hit := hits(evidence)) is not None:
            argument.against(STRONG, f"the accuracy is {hit[0]:.0%}, above the {hit[1]:.0%} of the most frequent class")
        elif (late := float(np.mean(accuracy.late().values))) < 1.3 * top.last:
            argument.add(MODERATE, f"the accuracy is {late:.0%}; the most frequent class has {top.last:.0%}")
    elif argument.cause is not None and related is not None and is_by_chance(evidence):
        argument.add(
            MODERATE, f"the correlation of outputs and targets is {related[0]:.2f} at the end, no more than chance"
        )


def _add_standing(argument: Argument, evidence: Evidence, progress: Progress, floor: float) -> None:
    """A loss that stays at that of a constant output while weights move."""
    argument.add(
        MODERATE if len(evidence["baseline_loss"].finite) else SETTLED,
        f"the loss stays at {progress.last:.3g}, that of a constant output is "
        f"{floor:.3g}, although weights change by "
        f"{evidence['update_ratio'].finite.median():.1g} of their size a step and outputs vary",
        since=int(evidence["loss"].steps[0]),
    )
    cosine = evidence["gradient_cosine"].finite
    if len(cosine) > 5 and abs(cosine.median()) < 0.3:
        argument.add(WEAK, "the gradients of one step and the next have nothing in common")


def _has_the_mean_of_each(evidence: Evidence, progress: Progress) -> bool:
    """Whether rows of many outputs, as pictures, are answered by what they have in common, and no better any more.

    The mean of each output has a lower loss than the mean of all, which is known.
    """
    loss = evidence.facts.loss
    if loss is None or loss.kind not in OF_VALUES or loss.terms > 1 or loss.penalized or loss.negated:
        return False
    settled = progress.learnt < HALF and not progress.falls_late and travelled(evidence) > 1
    return settled and int(np.prod(loss.outputs_shape[1:])) >= MANY and bool(is_by_chance(evidence))


def labels_unrelated(evidence: Evidence) -> Argument:
    """The loss stays at that of the best constant output, although weights move and outputs vary.

    What the loop does wrong would show in the mechanics: a rule for it has more confidence then. Fewer than 60 steps
    are a trial of the loop: a language model first learns how frequent its tokens are, and rests there for a while.
    """
    argument = Argument("labels_unrelated")
    progress, baseline = progress_of(evidence), evidence["baseline_loss"].finite
    contrast = uncertainty_of_contrast(evidence)
    if progress is None or progress.failed or not (len(baseline) or len(evidence["order"]) or contrast):
        return argument
    floor = baseline.median(contrast)
    near = floor > 0 and progress.points >= ENOUGH and _stays_near(evidence, floor)
    if near and not len(baseline):
        near = progress.points >= TRIAL and stays_at(evidence, contrast)
    ratio = evidence["update_ratio"].finite
    moves = ratio.median() > 1e-4 and travelled(evidence) > STAYED
    spread = evidence["outputs/batch_std"].finite
    varies = len(spread) > 0 and float(np.median(spread.values[-max(1, len(spread) // 2) :])) > 1e-3
    of_each = False
    if near and moves and varies:
        _add_standing(argument, evidence, progress, floor)
    elif moves and varies and _learns_by_heart(evidence, progress, floor):
        argument.add(
            0.55,
            f"the loss fell to {progress.last:.3g} only, that of a constant output is {floor:.3g}, although all "
            f"updates together come to {travelled(evidence):.1f} times the weights' size: rows are "
            "learnt by heart, slowly",
            since=int(evidence["loss"].steps[0]),
        )
    elif moves and progress.points >= ENOUGH and (of_each := _has_the_mean_of_each(evidence, progress)):
        argument.add(
            0.6,
            f"the loss came to {progress.last:.3g} and stands there, and the outputs of a row are no more like its own "
            "targets than by chance: what was learnt is the mean of each output",
            since=int(evidence["loss"].steps[0]),
        )
    elif moves and varies and progress.points >= ENOUGH and not len(baseline):
        add_unordered(argument, evidence)
    if argument.cause is not None and not of_each:  # the mean of all says nothing then
        _add_relation(argument, evidence, near=near)
    if argument.cause is not None:
        _add_steps(argument, evidence, near=near)
    if near:
        _add_hits(argument, evidence)
    validation = evidence.validation.finite
    seen = visits(evidence)
    # What is learnt of few rows, or of few of each class, need not hold for others: see overfitting.
    classes = evidence["targets/classes_so_far"].late().median(0.0)
    few = seen is not None and seen.rows < max(FEW_ROWS, OF_A_CLASS * classes)
    if (
        not few
        and len(validation) >= 3
        and floor > 0
        and float(validation.values.min()) > 0.97 * floor
        and progress.fell > 0.2
    ):
        argument.add(
            0.55,
            f"the training loss fell by {progress.fell:.0%}, the validation loss "
            f"never below {validation.values.min():.3g}, "
            f"that of a constant output ({floor:.3g})",
            since=int(validation.steps[0]),
        )
    parameters = evidence.facts.parameters
    trained = sum(float(np.prod(one.shape)) for one in parameters if one.role == "trained")
    whole = sum(float(np.prod(one.shape)) for one in parameters)
    if argument.cause is not None and trained < 0.8 * whole:
        argument.against(STRONG, f"only {trained / whole:.0%} of the model's weights are trained")
    rare = evidence["targets/rarest_share_so_far"].values[-1:]
    top = evidence["targets/top_share_so_far"]
    is_one_class = top.last > 0.8
    if argument.cause is not None and is_one_class and len(rare) and top.last >= IMBALANCE * rare[-1]:
        argument.against(MODERATE, "one class has nearly all targets: see class_imbalance")
    argument.advice = (
        "Check that inputs and targets belong together (same permutation for both), and try session.probe(batch): one "
        "batch can be learnt by heart if the loop is sound."
    )
    return argument
