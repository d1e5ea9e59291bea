"""A cause in what holds for new rows: some are learnt by heart."""

import math

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.input_kinds import are_codes
from debuggers.diagnosis.derived.roles import trained_weights
from debuggers.diagnosis.derived.visits import FAR_ABOVE, FEW_ROWS, MANY_VISITS, visits
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import Progress, constant_level, progress_of
from debuggers.diagnosis.series import Series

GAP = 0.1
"""Share of what a validation gained, or of the loss of a constant output, from which a loss or a gap counts."""
KNOWN = 1e-3
"""Share of a constant output's loss below which rows that have come often are known to the last."""
SWINGS = 2.0
"""Times its swings from one validation to the next by which a validation loss rises and not only swings."""
_FEWEST_CHANGES = 15
"""Changes of a validation loss of which a third tells how far it swings."""
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
    level = constant_level(evidence, progress) if comparable else float(validation.values.max())
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
        if last > FAR_ABOVE * progress.last and (known := _few_known_rows(evidence)) is not None:
            argument.add(MODERATE, known)
    # A distance alone is that of any set that is learnt well: it has to grow, or nothing is left of the training loss.
    has_turned = (later >= 1 and last - low > _swing(validation)) or last > FAR_ABOVE * progress.last
    far = 2 if progress.last < KNOWN * level and _came_often(evidence) else 3
    is_far = comparable and progress.last < 0.3 * level and gap > far * GAP
    if is_far and has_turned and len(evidence["baseline_loss"]):
        argument.add(
            0.6,
            f"the training loss is {progress.last / level:.0%} of that of a constant output, the validation loss "
            f"{last / level:.0%}",
        )
    if evidence.facts.weights_replaced and later >= 1:
        argument.against(STRONG, "weights were changed after the last step, as where the best ones are restored")
    argument.advice = (
        f"Stop at step {step}, where the validation loss was lowest; more data or augmentation, weight decay, dropout, "
        "or a smaller model."
    )
    return argument


def _came_often(evidence: Evidence) -> bool:
    """Whether each row has come so often that what is left of the loss says nothing of new ones."""
    seen = visits(evidence)
    return seen is not None and seen.each > MANY_VISITS


def _by_heart(argument: Argument, evidence: Evidence, progress: Progress) -> Argument:
    """Without a validation loss: a handful of rows, learnt to the last by a model that is large enough to keep them.

    Or outputs that are far less sure in a call without gradients than in training: the loss of a model that is no surer
    than it is right is its entropy, and one that overfits is surer.
    """
    seen = visits(evidence)
    known = len(evidence["baseline_loss"]) > 0 and progress.learnt > 0.95
    if seen is None or not known or seen.each < MANY_VISITS:
        return argument
    entropy, level = evidence["evaluation/entropy"].finite, constant_level(evidence, progress)
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
    if (few := _few_known_rows(evidence)) is not None:
        argument.add(0.6, f"{few}: the training loss is at {progress.last:.2g}")
    return argument


def _few_known_rows(evidence: Evidence) -> str | None:
    """What to say of a handful of rows, where a model has weights enough to keep each of them; None of others."""
    seen, again = visits(evidence), evidence["inputs/repeated"]
    if seen is None or seen.each < MANY_VISITS or seen.rows > FEW_ROWS:
        return None
    same = evidence["inputs/duplicates"].values
    if len(same) and float(np.median(same)) > RECUR:  # the data have a row several times: those not seen have it, too
        return None
    if are_codes(evidence):  # there may be no others
        return None
    if not len(again) or float(np.mean(again.values[1:])) > 0.5:  # one batch over and over is a trial of the loop
        return None
    size = trained_weights(evidence)
    if size <= min(CAPACITY, CAPACITY_OF_A_TARGET * _targets_of_a_row(evidence)) * seen.rows:
        return None
    return (
        f"about {seen.rows:.0f} rows have come {seen.each:.0f} times each, and {size:,.0f} weights know them by heart"
    )


def _targets_of_a_row(evidence: Evidence) -> float:
    """How many targets a row has; infinity where that is not known."""
    targets, inputs = evidence.facts.targets, evidence.facts.inputs
    if targets is None or inputs is None or not targets.shape or targets.shape[0] != (*inputs.shape, 0)[0]:
        return math.inf
    return float(np.prod(targets.shape[1:]))


def _swing(validation: Series) -> float:
    """How far a validation loss moves from one time to the next beside its trend.

    The median distance of its changes from their median, of all or of the last third if that is larger: what is nearly
    learnt may swing more. The lowest of values that swing is below the others by about as much, though nothing got
    worse.
    """
    changes = np.diff(validation.values)
    parts = [changes, changes[-(len(changes) // 3) :]] if len(changes) >= _FEWEST_CHANGES else [changes]
    return max(float(np.median(np.abs(part - np.median(part)))) for part in parts)


def _is_comparable(evidence: Evidence, validation: Series) -> bool:
    """Whether the validation loss is what the training loss is: not, say, a share of errors, which is smaller."""
    before = evidence["loss"].until(int(validation.steps[0])).finite.values[-3:]
    return not len(before) or validation.first > 0.3 * float(np.median(before))
