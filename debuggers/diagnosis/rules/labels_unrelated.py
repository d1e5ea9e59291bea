"""A cause in the targets: they have nothing to do with the inputs."""

import numpy as np

from debuggers.diagnosis.argument import CERTAIN, MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.input_kinds import are_codes
from debuggers.diagnosis.derived.pairs import (
    add_unordered,
    order_of_pairs,
    stays_at,
    uncertainty_of_classes,
    uncertainty_of_contrast,
)
from debuggers.diagnosis.derived.rates import has_collapsed, learning_rates
from debuggers.diagnosis.derived.relation import (
    CHANCE,
    FEWEST,
    answers_others,
    explains,
    hits,
    is_by_chance,
    late_correlation,
    learnt_of_new_rows,
    ordered_classes,
    reconstructs,
)
from debuggers.diagnosis.derived.roles import trained_weights
from debuggers.diagnosis.derived.updates import (
    AGREE,
    ENOUGH,
    STAYED,
    TRIAL,
    collapse,
    hardly_moved,
    late_agreement,
    travelled,
)
from debuggers.diagnosis.derived.visits import FEW_ROWS, FEW_VISITS, MANY_VISITS, Visits, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES
from debuggers.diagnosis.progress import Progress, is_of_whole_loss, progress_of
from debuggers.diagnosis.rules.classes import IMBALANCE

STILL = 0.01
"""Share of its first spread over a batch below which an output does not vary any more."""
SETTLED = 0.55
"""Weight of a loss that has come to that of equal scores to within a hundredth, and stays there."""
OF_A_CLASS = 10.0
"""Rows of each class, on average, up to which they are few."""
MANY = 16
"""Outputs of a row from which their means are worth learning by themselves."""
OF_MANY = 0.5
"""Share of what chance makes of a correlation of one output, up to which it may be chance of many: they add up."""
HOLDS = 0.995
"""Share of a constant output's loss below which a validation that stays there says that something was learnt."""
HALF = 0.5
"""Share of what there is to learn, below which it may be the means alone; and of twice the most frequent class, below
which there are many."""


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


def _arrives_without_relation(evidence: Evidence, progress: Progress, floor: float) -> bool:
    """Whether the loss has come near that of a constant output, and outputs have nothing to do with the two classes.

    Then it need not have stood there for long: what outputs have to do with their targets shows before it counts. The
    constant output of many is the share of each, as in masks, which takes longer to learn.
    """
    related, many = late_correlation(evidence, "binary_correlation"), _are_many(evidence)
    close = 0.25 if many else 0.1
    is_near = progress.points >= TRIAL and abs(progress.last - floor) < close * floor and travelled(evidence) > 1
    return is_near and related is not None and abs(related[0]) < (OF_MANY if many else 1) * related[1]


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
    validation, floor = evidence.validation.finite, evidence["baseline_loss"].finite
    late = validation.values[len(validation) // 2 :]
    is_known = len(validation) >= 4 and len(floor) > 0 and is_of_whole_loss(evidence) and _is_of_one_output(evidence)
    if is_known and late.max() < HOLDS * floor.last:
        argument.against(
            STRONG, f"the validation loss stays below that of a constant output, at {late[-1]:.3g} or less"
        )
    if reconstructs(evidence):
        argument.against(CERTAIN, "the targets are the inputs themselves")
    if near and explains(evidence):
        argument.against(STRONG, "outputs and targets go together: a line through them explains a quarter and more")


def _is_of_one_output(evidence: Evidence) -> bool:
    """Whether the best constant output is one number, or shares of classes; of several it is the mean of each."""
    loss = evidence.facts.loss
    return loss is not None and (loss.kind not in OF_VALUES or int(np.prod(loss.outputs_shape[1:])) == 1)


def _add_steps(argument: Argument, evidence: Evidence, *, near: bool) -> None:
    """Whether the steps are what keeps the loss where it is: they have led nowhere yet, too far, or have ended."""
    if near and travelled(evidence) < 1 and (agree := late_agreement(evidence)) > AGREE:
        argument.against(MODERATE, f"the gradients of neighbouring steps agree (cosine {agree:.2f}): it has only begun")
    elif near and hardly_moved(evidence):
        argument.against(STRONG, f"all updates together come to {travelled(evidence):.0%} of the weights' size")
    spread = evidence["outputs/batch_std"].finite  # what gradients of chance push about still varies
    if near and collapse(evidence) is not None and spread.late(3).median() < STILL * spread.first:
        argument.against(MODERATE, "large updates have made outputs constant: see learning_rate_too_high")
    if has_collapsed(learning_rates(evidence)):
        argument.against(STRONG, "the learning rate had fallen to nearly nothing by then: see schedule_collapsed")


def _add_hits(argument: Argument, evidence: Evidence) -> None:
    """Whether outputs hit their targets more often than chance, or vary with them."""
    accuracy, top = evidence["accuracy"].finite, evidence["targets/top_share_so_far"]
    related, pairs, seen = late_correlation(evidence), order_of_pairs(evidence), visits(evidence)
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
    elif (each := late_correlation(evidence, "binary_correlation")) is not None and _are_many(evidence):
        strong = abs(each[0]) > OF_MANY * each[1]
        (argument.against if strong else argument.add)(
            STRONG if strong else MODERATE,
            f"the correlation of outputs and targets, each without its mean over the batch, is {each[0]:.2f}, "
            f"{'no' if strong else 'no more than'} chance",
        )
    elif len(accuracy) >= FEWEST and len(top):
        # Some of many classes are known by heart long before the loss shows it.
        by_heart = seen is not None and seen.each > FEW_VISITS
        if (hit := hits(evidence)) is not None and not (by_heart and hit[0] < 2 * hit[1] < HALF):
            argument.against(STRONG, f"the accuracy is {hit[0]:.0%}, above the {hit[1]:.0%} of the most frequent class")
        elif (ordered := ordered_classes(evidence)) is not None and (seen is None or seen.each <= FEW_VISITS):
            argument.against(STRONG, f"outputs go with the two classes: their correlation is {ordered:.2f}, no chance")
        elif (late := float(np.mean(accuracy.late().values))) < 1.3 * top.last:
            argument.add(MODERATE, f"the accuracy is {late:.0%}; the most frequent class has {top.last:.0%}")
    elif argument.cause is not None and related is not None and is_by_chance(evidence):
        argument.add(
            MODERATE, f"the correlation of outputs and targets is {related[0]:.2f} at the end, no more than chance"
        )


def _add_standing(argument: Argument, evidence: Evidence, progress: Progress, floor: float, verb: str) -> None:
    """A loss that stays at that of a constant output, or comes to it, while weights move."""
    argument.add(
        MODERATE if len(evidence["baseline_loss"].finite) else SETTLED,
        f"the loss {verb} {progress.last:.3g}, that of a constant output is "
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
    return settled and _are_many(evidence) and bool(is_by_chance(evidence))


def _are_many(evidence: Evidence) -> bool:
    """Whether a row has many outputs."""
    loss = evidence.facts.loss
    return loss is not None and int(np.prod(loss.outputs_shape[1:])) >= MANY


def _add_validation(argument: Argument, evidence: Evidence, progress: Progress, floor: float) -> None:
    """What is learnt of some rows, and of no others."""
    validation = evidence.validation.finite
    seen = visits(evidence)
    # What is learnt of few rows, or of few of each class, need not hold for others: see overfitting.
    classes = evidence["targets/classes_so_far"].late().median(0.0)
    few = seen is not None and seen.rows < max(FEW_ROWS, OF_A_CLASS * classes)
    if (
        not few
        and len(validation) >= 3
        and is_of_whole_loss(evidence)
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


def labels_unrelated(evidence: Evidence) -> Argument:
    """The loss stays at that of the best constant output, although weights move and outputs vary.

    What the loop does wrong would show in the mechanics: a rule for it has more confidence then. Fewer than 60 steps
    are a trial of the loop: a language model first learns how frequent its tokens are, and rests there for a while.
    """
    argument = Argument("labels_unrelated")
    argument.advice = (
        "Check that inputs and targets belong together (same permutation for both), and try session.probe(batch): one "
        "batch can be learnt by heart if the loop is sound."
    )
    progress, baseline = progress_of(evidence), evidence["baseline_loss"].finite
    contrast = uncertainty_of_contrast(evidence) or uncertainty_of_classes(evidence)
    if progress is not None and (told := answers_others(evidence, progress)):
        return argument.add(0.6, told, since=int(evidence["loss"].steps[0]))
    if progress is None or progress.failed or not (len(baseline) or len(evidence["order"]) or contrast):
        return argument
    floor = baseline.median(contrast)
    stays = floor > 0 and progress.points >= ENOUGH and _stays_near(evidence, floor)
    near = stays or _arrives_without_relation(evidence, progress, floor)
    if near and not len(baseline):
        near = progress.points >= TRIAL and stays_at(evidence, contrast)
    ratio = evidence["update_ratio"].finite
    moves = ratio.median() > 1e-4 and travelled(evidence) > STAYED
    spread = evidence["outputs/batch_std"].finite
    varies = len(spread) > 0 and float(np.median(spread.values[-max(1, len(spread) // 2) :])) > 1e-3
    of_each = False
    if near and moves and varies:
        _add_standing(argument, evidence, progress, floor, "stays at" if stays else "comes to")
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
    _add_validation(argument, evidence, progress, floor)
    parameters = evidence.facts.parameters
    trained = trained_weights(evidence)
    whole = sum(float(np.prod(one.shape)) for one in parameters)
    if argument.cause is not None and trained < 0.8 * whole:
        argument.against(STRONG, f"only {trained / whole:.0%} of the model's weights are trained")
    rare = evidence["targets/rarest_share_so_far"].values[-1:]
    top = evidence["targets/top_share_so_far"]
    is_one_class = top.last > 0.8
    if argument.cause is not None and is_one_class and len(rare) and top.last >= IMBALANCE * rare[-1]:
        argument.against(MODERATE, "one class has nearly all targets: see class_imbalance")
    return argument
