"""Causes that show against data that was not trained on, and in the size of the weights."""

import math

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import LayerFacts
from debuggers.diagnosis.progress import Progress, adds_up_features, progress_of
from debuggers.diagnosis.rules.inputs import FAR_ABOVE, are_codes
from debuggers.diagnosis.rules.rates import learning_rates
from debuggers.diagnosis.rules.relation import reconstructs
from debuggers.diagnosis.rules.updates import TRIAL, UNDER_WAY, travelled
from debuggers.diagnosis.rules.visits import FEW_ROWS, MANY_VISITS, visits
from debuggers.diagnosis.series import Series

GAP = 0.1
"""Share of what a validation gained, or of the loss of a constant output, from which a loss or a gap counts."""
SWINGS = 2.0
"""Times its swings from one validation to the next by which a validation loss rises and not only swings."""
NOTHING_GAINED = 0.95
"""Share of a constant output's loss above which nothing was gained over it."""
WEAK_RELATION = 0.5
"""Correlation below which outputs explain less than a quarter of what they are to give back."""
DROPOUT = 0.75
"""Share that a layer drops from which it is suspect by itself."""
HIGH_DROPOUT = 0.6
"""The same from which it is where nothing else explains that little is learnt: 0.5 is the highest of usual ones."""
SHRINKS = 1.0
"""Learning rate times weight decay, over all steps, from which weights of no use shrink to exp(-1) of their size."""
LEARNT = 0.2
"""Share of a constant output's loss below which a model has learnt nearly all there is."""
UNSURE = 0.2
"""Share of a constant output's loss from which an entropy is far above that of a training that is nearly sure."""
RECUR = 0.05
"""Share of a batch's rows that equal another one from which rows are few kinds, each many times in the data."""
CAPACITY = 100.0
"""Weights for each row from which a model can keep its rows one by one."""
CAPACITY_OF_A_TARGET = 10.0
"""Weights for each number that a row has as targets, if that is less: one each is enough to learn any labels of random
rows (Baum 1988), and gradients find such weights where there are several times as many."""


def overfitting(evidence: Evidence) -> Argument:
    """The validation loss gives back a good part of what it had gained, or stays far above the training loss.

    Both are measured on the way from the loss of a constant output: of a small loss, half as much again is little.
    """
    argument = Argument("overfitting")
    validation, progress = evidence.validation.finite, progress_of(evidence)
    if progress is None or progress.failed:
        return argument
    if len(validation) < 3:
        return _by_heart(argument, evidence, progress)
    best = int(validation.values.argmin())
    low, last = float(validation.values[best]), float(np.median(validation.values[-2:]))
    step, later = int(validation.steps[best]), len(validation) - 1 - best
    comparable = _is_comparable(evidence, validation)
    level = _level(evidence, progress) if comparable else float(validation.values.max())
    lost = (last - low) / max(level - low, 0.3 * abs(level), 1e-12)
    train = evidence["loss"].finite
    width = max(3, len(train) // 10)
    at_best = np.searchsorted(train.steps, step)
    before = float(np.median(train.values[max(0, at_best - width) : at_best + 1]))
    falls = float(np.median(train.values[-width:])) < min(progress.first, before)
    if lost > GAP and falls and later >= 2 and last - low > SWINGS * _swing(validation):
        argument.add(
            STRONG if lost > 2 * GAP else 0.55,
            f"the validation loss rose from {low:.3g} at step {step} to {last:.3g}, the "
            f"training loss fell to {progress.last:.3g}",
            since=step,
        )
    gap = (last - progress.last) / max(level, 1e-12)
    if comparable and gap > GAP and last > 2 * progress.last and progress.fell > 0.5:
        argument.add(
            MODERATE if later >= 1 else WEAK,
            f"at the end it is {last / max(progress.last, 1e-12):.1f} times the training loss",
            since=step,
        )
    # A distance alone is that of any set that is learnt well: it has to grow, or nothing is left of the training loss.
    has_turned = (later >= 1 and last - low > _swing(validation)) or last > FAR_ABOVE * progress.last
    is_far = comparable and progress.last < 0.3 * level and gap > 3 * GAP
    if is_far and has_turned and len(evidence["baseline_loss"]):
        argument.add(
            0.6,
            f"the training loss is {progress.last / level:.0%} of that of a constant output, the validation loss "
            f"{last / level:.0%}",
        )
    argument.advice = (
        f"Stop at step {step}, where the validation loss was lowest; more data or augmentation, weight decay, dropout, "
        "or a smaller model."
    )
    return argument


def _by_heart(argument: Argument, evidence: Evidence, progress: Progress) -> Argument:
    """Without a validation loss: a handful of rows, learnt to the last by a model that is large enough to keep them.

    Or outputs that are far less sure in a call without gradients than in training: the loss of a model that is no surer
    than it is right is its entropy, and one that overfits is surer.
    """
    seen, again = visits(evidence), evidence["inputs/repeated"]
    known = len(evidence["baseline_loss"]) > 0 and progress.learnt > 0.95
    if seen is None or not known or seen.each < MANY_VISITS:
        return argument
    entropy, level = evidence["evaluation/entropy"].finite, _level(evidence, progress)
    sure = (
        seen.each > 2 * MANY_VISITS
        and progress.last < 0.1 * level
        and not any("Dropout" in layer.kind for layer in evidence.facts.layers)
    )
    if sure and len(entropy) and entropy.last > max(UNSURE * level, 8 * progress.last):
        argument.add(
            0.6,
            f"in a call without gradients after step {entropy.steps[-1]} the outputs have an entropy of "
            f"{entropy.last:.2g}, which the loss is hardly below there; the training loss is {progress.last:.2g}",
            since=int(entropy.steps[-1]),
        )
    argument.advice = "Train on more rows, and pass session.validation(loss) of others: what is learnt is these rows."
    if seen.rows > FEW_ROWS:
        return argument
    same = evidence["inputs/duplicates"].values
    if len(same) and float(np.median(same)) > RECUR:  # the data have a row several times: those not seen have it, too
        return argument
    if are_codes(evidence):  # there may be no others
        return argument
    if not len(again) or float(np.mean(again.values[1:])) > 0.5:  # one batch over and over is a trial of the loop
        return argument
    size = sum(float(np.prod(one.shape)) for one in evidence.facts.parameters if one.role == "trained")
    if size > min(CAPACITY, CAPACITY_OF_A_TARGET * _targets_of_a_row(evidence)) * seen.rows:
        argument.add(
            0.6,
            f"about {seen.rows:.0f} rows have come {seen.each:.0f} times each, and {size:,.0f} weights have learnt "
            f"them by heart: the training loss is at {progress.last:.2g}",
        )
    return argument


def _targets_of_a_row(evidence: Evidence) -> float:
    """How many targets a row has; infinity where that is not known."""
    targets, inputs = evidence.facts.targets, evidence.facts.inputs
    if targets is None or inputs is None or not targets.shape or targets.shape[0] != (*inputs.shape, 0)[0]:
        return math.inf
    return float(np.prod(targets.shape[1:]))


def _swing(validation: Series) -> float:
    """How far a validation loss moves from one time to the next beside its trend.

    The median distance of its changes from their median. The lowest of values that swing is below the others by about
    as much, though nothing got worse.
    """
    changes = np.diff(validation.values)
    return float(np.median(np.abs(changes - np.median(changes))))


def _level(evidence: Evidence, progress: Progress) -> float:
    """The loss of a constant output; the first loss where that is not known."""
    level = evidence["baseline_loss"].finite.median(0.0)
    return level if level > 0 else progress.first


def _is_comparable(evidence: Evidence, validation: Series) -> bool:
    """Whether the validation loss is what the training loss is: not, say, a share of errors, which is smaller."""
    before = evidence["loss"].until(int(validation.steps[0])).finite.values[-3:]
    return not len(before) or validation.first > 0.3 * float(np.median(before))


def over_regularized(evidence: Evidence) -> Argument:
    """Weights shrink steadily while the loss stands, or dropout takes away nearly everything."""
    argument = Argument("over_regularized")
    progress, norm = progress_of(evidence), evidence["weight_norm"].finite
    decay = [group.settings.get("weight_decay") for group in evidence.facts.groups]
    strength = max((float(value) for value in decay if isinstance(value, (int, float))), default=0.0)
    if progress is None:  # a loss that pulls outputs to zero shrinks weights, too
        return argument
    gets_nowhere = not progress.failed and progress.fell < 0.35
    if len(norm) >= 5:
        lowest = int(norm.values.argmin())
        shrunk = float(norm.values[lowest]) / max(norm.first, 1e-30)
        down = float(np.mean(np.diff(norm.values[: lowest + 1]) < 0)) if lowest else 0.0
        if shrunk < 0.7 and down > 0.7:
            argument.add(
                0.5,
                f"the weights shrank to {shrunk:.0%} of their size"
                + (f" under weight decay {strength:g}" if strength else ""),
                since=int(norm.steps[0]),
            )
            pull = evidence["decay_cosine"].until(int(norm.steps[lowest])).finite
            if len(pull) >= 3 and pull.median() > 0.5:
                argument.add(MODERATE, f"updates point at zero (cosine {pull.median():.2f})")
            spread = evidence["outputs/batch_std"].finite.values
            if len(spread) >= 5 and float(np.median(spread[-3:])) < 0.02 * float(spread[0]):
                argument.add(MODERATE, "the outputs hardly vary over a batch any more")
            elif gets_nowhere:
                argument.add(MODERATE, f"the loss fell by {progress.fell:.0%} only")
            elif progress.last - progress.lowest > max(GAP * _level(evidence, progress), 3 * progress.noise):
                argument.add(MODERATE, f"the loss rises from {progress.lowest:.3g} to {progress.last:.3g} as they do")
            elif progress.learnt > 0.6 or (not gets_nowhere and not strength and _is_alone(evidence)):
                argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
    decays = _decay(evidence)
    if decays > SHRINKS and not progress.failed and progress.learnt < 0.6:
        argument.add(
            MODERATE,
            f"weight decay {strength:g} takes {1 - np.exp(-decays):.0%} of the weights' size by itself over the "
            "training, and much was left to learn",
            since=0,
        )
    drops = _add_dropout(argument, evidence, progress, gets_nowhere=gets_nowhere)
    _add_other_term(argument, evidence)
    if strength >= 0.1 and argument.cause is None and gets_nowhere:
        argument.add(WEAK, f"weight decay is {strength:g}")
    lower = (
        f"weight_decay: {strength:g} → {min(strength / 100, 0.01):g}"
        if strength
        else "Lower the penalty on the weights"
    )
    argument.advice = f"{lower}." if not drops else f"Lower dropout: p = {drops[0].value:g} → 0.2."
    return argument


def _is_alone(evidence: Evidence) -> bool:
    """Whether the loss is known to be one term, without a penalty on weights: what lets it fall may shrink them."""
    loss = evidence.facts.loss
    return loss is not None and bool(loss.kind) and loss.terms == 1 and not loss.penalized


def _decay(evidence: Evidence) -> float:
    """The sum over all steps of learning rate times weight decay: the logarithm of what decay alone makes smaller.

    Of optimizers whose decay is a part of the gradient that they divide by its size, it is no such rate: 0.
    """
    rates, loss, facts = learning_rates(evidence), evidence["loss"], evidence.facts
    if not len(rates) or not len(loss) or facts.optimizer not in ("SGD", "AdamW"):
        return 0.0
    steps = np.arange(int(loss.steps[0]), int(loss.steps[-1]) + 1)
    most = max(facts.groups, key=lambda group: group.parameters, default=None)
    decay = most.settings.get("weight_decay") if most is not None else None
    strength = float(decay) if isinstance(decay, (int, float)) else 0.0
    return float(np.interp(steps, rates.steps, rates.values).sum()) * strength


def _add_dropout(argument: Argument, evidence: Evidence, progress: Progress, *, gets_nowhere: bool) -> list[LayerFacts]:
    """The layers that drop nearly everything, and what speaks for their being too much."""
    drops = [layer for layer in evidence.facts.layers if "Dropout" in layer.kind and (layer.value or 0) >= HIGH_DROPOUT]
    if drops:
        drops.sort(key=lambda layer: -(layer.value or 0.0))
        argument.add(
            0.5 if (drops[0].value or 0.0) >= DROPOUT else 0.3,
            f"{drops[0].name} drops {drops[0].value:.0%} of its inputs",
            since=0,
            where=[one.name for one in drops[:3]],
        )
        if gets_nowhere:
            argument.add(MODERATE, "and the loss hardly falls")
        elif progress.learnt < 0.6:
            argument.add(WEAK, f"the loss fell by {progress.fell:.0%}")
        validation = evidence.validation.finite
        if len(validation) and float(np.median(validation.values[-2:])) < 0.8 * progress.last:
            argument.add(
                MODERATE,
                f"the validation loss ({validation.last:.3g}), without dropout, is "
                f"below the training loss ({progress.last:.3g})",
            )
        baseline = evidence["baseline_loss"].finite
        if len(validation) and len(baseline) and float(np.median(validation.values[-2:])) < LEARNT * baseline.last:
            argument.against(STRONG, "the validation loss is below a fifth of a constant output's: little was taken")
    return drops


def _add_other_term(argument: Argument, evidence: Evidence) -> None:
    """Outputs that say nothing of their targets, in a loss of several terms: another one outweighs the comparison.

    Weights move, and the whole falls all the same, as with a divergence that leaves no code in an autoencoder. What is
    to give back its inputs has gained nothing while its whole loss is not below the error of a constant output, with
    which a penalty on codes or on their spread would be zero; unless it pays for codes that do say what they stand for.
    """
    loss, progress = evidence.facts.loss, progress_of(evidence)
    if loss is None or max(loss.terms, len(loss.parts)) < 2 or progress is None or progress.points < TRIAL:
        return
    correlation = evidence["correlation"].finite
    late = correlation.late(5).values
    if len(late) < 5 or progress.failed or progress.fell < 0.1 or travelled(evidence) < UNDER_WAY:
        return
    floor, terms = _level(evidence, progress), max(loss.terms, len(loss.parts))
    comparable = len(evidence["baseline_loss"]) > 0 and loss.reduction == "mean" and loss.factor == 1
    comparable = comparable and not adds_up_features(loss)
    weak = float(np.median(late)) < WEAK_RELATION
    if comparable and weak and reconstructs(evidence) and progress.last > NOTHING_GAINED * floor:
        argument.add(
            0.6,
            f"the targets are the inputs, and the loss of {terms} terms is {progress.last:.3g} at the end, where a "
            f"constant output alone has {floor:.3g}: another term outweighs the comparison",
        )
    elif float(np.max(np.abs(late))) < 0.1:
        argument.add(
            0.6,
            f"the correlation of outputs and targets is {np.median(late):.2f} at the end, though the loss, which has "
            f"{terms} terms, fell by {progress.fell:.0%}: another term outweighs them",
        )
