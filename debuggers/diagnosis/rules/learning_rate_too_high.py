"""A cause in the size of the steps: they are too large."""

import numpy as np
import numpy.typing as npt

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.attention import trains_attention
from debuggers.diagnosis.derived.batch_kinds import extended_at
from debuggers.diagnosis.derived.first_weights import at_bounds_at_first
from debuggers.diagnosis.derived.labels import targets_of_a_row
from debuggers.diagnosis.derived.lower_rate import lower_rate
from debuggers.diagnosis.derived.momentum import CALM, GOT_ON, carried_past
from debuggers.diagnosis.derived.rates import raised_rate
from debuggers.diagnosis.derived.relation import has_far_to_go
from debuggers.diagnosis.derived.roles import trained_matrices
from debuggers.diagnosis.derived.updates import (
    ADAPTIVE,
    EARLY,
    HEALTHY_RATIO,
    LARGE_RATIO,
    collapse,
    died,
    is_ramped,
    setback,
    thrown_by_first_squares,
)
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES
from debuggers.diagnosis.progress import Progress, is_of_whole_loss, progress_of
from debuggers.diagnosis.series import Series

THROWN = 10.0
"""Times its first value to which a loss jumps when weights have been thrown away."""
RAISED, RAISED_AT_ALL = 2.0, 1.5
"""The same where weights end far larger than they began, and ten times as large or more: nothing of them is left."""
REPLACED, RAISED_A_LITTLE = 1.5, 1.25
"""An update of most matrices, in units of their size, that leaves nothing of them, and the jump that shows it then."""
FAR_GROWN = 10.0
"""Times their first size from which weights are no longer what they began as."""
OF_TARGETS = 2.0
"""Times their first deviation from which targets have grown."""
APART = 5.0
"""Times that one of several optimizers changes its weights more than the others, from which it is named."""
GROWN, WELL_GROWN = 3.0, 1.5
"""Times their first size from which weights that have learnt little have been thrown about; the second, where a single
update was of a fifth of it."""
FEWEST = 5
"""Losses and norms from which a training is said to have been calm."""
FOR_ATTENTION = 0.02
"""Update ratio of a late step that is too large for attention: of the zoo's sound ones, none has more than 0.012."""
RISEN = 0.1
"""Share of its first value by which the loss has risen then, unless updates stay large: the small weights of a fresh
layer may grow while it falls."""


def learning_rate_too_high(evidence: Evidence) -> Argument:
    """Updates are large from the first steps, and the loss blows up, rises, swings or stands far above its best.

    Gradients of neighbouring steps that point against each other say that steps jump over a valley. A training may jump
    over it and get on along it all the same, at the edge of stability (Cohen et al. 2021): where the loss falls to the
    end, they say little.
    """
    argument = Argument("learning_rate_too_high")
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    since = int(ratio.steps[0]) if len(ratio) else 0
    searches = evidence.facts.optimizer == "LBFGS"  # of whose steps each is up to twenty updates
    first = ratio.until(-1 if searches or _has_no_start(evidence) else since + EARLY)
    early = first.values * _warming(evidence, first)
    largest = float(early.max()) if len(early) else 0.0
    typical = 0.0 if searches else ratio.median(0.0)
    gets_on = progress is not None and not progress.failed and progress.fell > GOT_ON and progress.falls_late
    if largest > LARGE_RATIO:
        step, change = int(first.steps[early.argmax()]), float(first.values[early.argmax()])
        strength = MODERATE if largest < 5 * LARGE_RATIO else 0.45
        if gets_on and evidence.facts.clips:  # all steps are as long as the rate times the limit
            strength = WEAK
        argument.add(
            strength, f"the update at step {step} changes the weights by {change:.2g} times their norm", since=step
        )
    elif typical > LARGE_RATIO / 3:
        argument.add(WEAK, f"updates change weights by {typical:.2g} of their size a step")
    if progress is not None:
        _add_course(argument, progress, evidence)
        if largest > LARGE_RATIO and progress.learnt < 0.1 and progress.lowest >= 0 and is_of_whole_loss(evidence):
            argument.add(MODERATE, f"the loss is at {progress.last:.3g} at the end, no better than a constant output's")
    if (found := collapse(evidence)) is not None:
        argument.add(0.55, found[1], since=found[0])
    if progress is not None and progress.learnt < 0.5 and max(largest, typical) > LARGE_RATIO / 3:
        _add_damage(argument, evidence, progress, largest=largest, typical=typical)
    if (carried := carried_past(evidence)) is not None:
        argument.add(0.6, carried[1], since=carried[0])
    cosine = evidence["gradient_cosine"].finite
    if len(cosine) >= 5 and cosine.median() < -0.3 and not searches:
        argument.add(
            WEAK if gets_on else MODERATE,
            f"gradients reverse direction from step to step (cosine {cosine.median():.2f})",
            since=int(cosine.steps[0]),
        )
    fastest = "" if argument.cause is None else _add_fastest(argument, evidence)
    for kind in ("large_update", "exploding_gradient"):
        if findings := evidence.found(kind):
            where = [one.name for one in findings[:3]]
            argument.add(WEAK, findings[0].message, since=findings[0].step, where=where)
    _weigh_start(argument, evidence)
    if 0 < typical < HEALTHY_RATIO / 3 and largest < LARGE_RATIO:
        argument.against(STRONG, f"updates change weights by only {typical:.1g} of their size a step")
    argument.advice = lower_rate(evidence, max(typical, largest / 3), fastest) if carried is None else carried[2]
    _weigh_raise(argument, evidence, largest)
    return argument


def _weigh_raise(argument: Argument, evidence: Evidence, largest: float) -> None:
    """Whether the rate was raised later on, after first updates that were not too large: the cause begins there."""
    raised = raised_rate(evidence) if argument.cause is not None and largest <= LARGE_RATIO else None
    if raised is None:
        return
    step, before, after = raised
    argument.add(WEAK, f"the learning rate was raised from {before:.3g} to {after:.3g} at step {step}")
    argument.begins(step)
    argument.advice = f"lr: {after:.3g} → {before:.3g}, which it was until step {step}."


def _weigh_start(argument: Argument, evidence: Evidence) -> None:
    """What was so before the first step, or is so of the first steps alone: then the rate does not lead there."""
    if thrown_by_first_squares(evidence):
        argument.against(STRONG, f"only first steps of {evidence.facts.optimizer} are so large: see missing_warmup")
    if (held := at_bounds_at_first(evidence)) is not None:
        name, share = held
        argument.against(
            MODERATE, f"{share:.0%} of the outputs of {name} lie at their bounds before any step: see saturated_units"
        )


def _add_fastest(argument: Argument, evidence: Evidence) -> str:
    """Names the parameters of the one of several optimizers that changes its own by far the most, if one does.

    Returns the name of its learning rate, or ``""``. Only matrices count: a bias that starts at zero changes by much.
    """
    ratios = evidence.of_tensors("parameter_update_ratio")
    mine: dict[str, dict[str, float]] = {}
    for one in evidence.facts.parameters:
        series = ratios.get(one.name)
        if one.rate and len(one.shape) > 1 and series is not None and len(series.finite):
            mine.setdefault(one.rate, {})[one.name] = float(np.median(series.finite.values[:EARLY]))
    typical = sorted((float(np.median(list(found.values()))), name) for name, found in mine.items())
    if len(typical) < 2 or typical[-1][0] < APART * typical[-2][0]:
        return ""
    (other, _), (ratio, name) = typical[-2:]
    argument.add(
        WEAK,
        f"the optimizer of {name} changes its weights by {ratio:.2g} of their size a step, others by {other:.2g}",
        where=list(mine[name]),
    )
    return name


def _add_course(argument: Argument, progress: Progress, evidence: Evidence) -> None:
    loss = evidence["loss"]
    if progress.became_non_finite is None and extended_at(evidence) is not None:
        return  # what has come later need not be as easy
    if progress.became_non_finite is None and _grows_with_targets(progress, evidence):
        return
    if progress.blew_up is not None:
        weight = WEAK if _has_other_reasons(evidence) else 0.55
        text = f"the loss rose from {progress.first:.3g} to {progress.highest:.3g}"
        argument.add(weight, text, since=progress.blew_up)
    elif progress.rose:
        weight = WEAK if progress.lowest < 0 or _has_other_reasons(evidence) else 0.5  # that of a policy may rise
        argument.add(
            weight, f"the loss rose from {progress.first:.3g} to {progress.last:.3g}", since=int(loss.steps[0])
        )
    elif (
        progress.fell > 0
        and progress.lowest >= 0
        and progress.noise > 0.3 * abs(progress.last)
        and progress.swings > 0.5
        and progress.fell < 0.5
    ):
        argument.add(WEAK, f"the loss swings by {progress.noise:.2g} from step to step around {progress.last:.3g}")
    if progress.became_non_finite is not None:
        _add_end(argument, evidence, progress.became_non_finite)
    elif (jump := _jump(evidence)) is not None:
        argument.add(
            0.6,
            f"after an update larger than the weights themselves the loss jumped from {jump[0]:.3g} to {jump[1]:.3g}: "
            "the initialization is lost",
            since=int(loss.steps[0]),
        )
    elif progress.learnt > 0.6:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
    elif (found := setback(evidence)) is not None and not is_ramped(evidence):
        argument.add(0.45, found[1], since=found[0])
    if progress.stands and not progress.failed and progress.highest > 3 * abs(progress.first):
        argument.add(MODERATE, f"the loss rose to {progress.highest:.3g} and came back to no less than at the start")


def _has_other_reasons(evidence: Evidence) -> bool:
    """Whether a loss that is no single known one has risen while no step was large.

    What a policy earns grows as it learns, and with it the error of its critic, which is one of several terms; so does
    a sum over sequences that become longer.
    """
    loss, ratio = evidence.facts.loss, evidence["update_ratio"].finite.values
    is_single = loss is not None and loss.kind != "" and not loss.parts and targets_of_a_row(evidence, loss) <= 1
    return not is_single and len(ratio) > 0 and float(ratio.max()) < LARGE_RATIO / 3


def _add_end(argument: Argument, evidence: Evidence, broken: int) -> None:
    """What the loss did before the step at which it became NaN or infinite."""
    before = evidence["loss"].until(broken - 1).finite
    if len(before) >= 2 and float(before.values[-3:].max()) > 2 * abs(before.first):
        argument.add(
            0.55,
            f"the loss grew to {before.values[-3:].max():.3g} before it became NaN or infinite",
            since=int(before.steps[0]),
        )
    elif len(before) >= 2 and _was_calm(evidence, broken):
        argument.against(
            MODERATE,
            f"the loss had fallen to {before.last:.3g}, with gradients no larger than before, when it became NaN "
            "or infinite",
        )
    elif len(before) >= 1:
        argument.add(WEAK, f"the loss became NaN or infinite at step {broken}")


def _warming(evidence: Evidence, first: Series) -> npt.NDArray[np.float64]:
    """What RMSprop's first updates are to be multiplied with to be as large as later ones of the same gradients.

    Its mean of squares begins at zero: after t steps it is 1 - α^t of them, and updates are larger by the root of that.
    """
    settings = evidence.facts.groups[0].settings if evidence.facts.groups else {}
    alpha = settings.get("alpha")
    if evidence.facts.optimizer != "RMSprop" or not isinstance(alpha, float) or not len(first):
        return np.ones(len(first))
    since: npt.NDArray[np.float64] = np.sqrt(1 - alpha ** (first.steps + 1.0))
    return since


def _was_calm(evidence: Evidence, broken: int) -> bool:
    """Whether the loss was falling before a step, with gradients of the size that they had: nothing blew up."""
    losses, norms = (evidence[name].until(broken - 1).finite for name in ("loss", "total_norm/gradients"))
    if len(losses) < FEWEST or len(norms) < FEWEST or losses.last > CALM * losses.first:
        return False
    return float(norms.values[-3:].max()) < 2 * norms.median()


def _grows_with_targets(progress: Progress, evidence: Evidence) -> bool:
    """Whether targets have grown, as those that a model makes of its own values do, and outputs follow them.

    The loss ends below half of the variance that the targets of a batch have come to: it has risen with them alone.
    """
    deviation, loss = evidence["targets/std"].finite, evidence.facts.loss
    if loss is None or loss.kind not in OF_VALUES or len(deviation) < EARLY:
        return False
    late = deviation.late().median()
    variance = late if loss.kind in ("l1", "rmse") else late**2
    return late > OF_TARGETS * float(np.median(deviation.values[:3])) and progress.last < variance / 2


def _jump(evidence: Evidence) -> tuple[float, float] | None:
    """The first loss and the largest early one, if first updates are larger than the weights and it jumps; else None.

    Training may go well from there, but from weights that nobody has chosen.
    """
    loss, ratio = evidence["loss"].finite, evidence["update_ratio"].finite
    if len(loss) < 2 or not len(ratio) or float(loss.values.min()) < 0 or _has_no_start(evidence):
        return None
    step = int(ratio.steps[0])
    first, early = loss.first, loss.until(step + EARLY).values
    norm = evidence["weight_norm"].finite
    growth = norm.last / norm.first if len(norm) >= 5 and norm.first > 0 else 1.0
    raised = RAISED_AT_ALL if growth > FAR_GROWN else RAISED if growth > GROWN else THROWN
    of_most = _update_of_most(evidence, step + EARLY)
    if of_most > REPLACED:
        raised = min(raised, RAISED_A_LITTLE)
    jumps = float(early.max()) > raised * first > 0
    largest = max(float(ratio.until(step + EARLY).values.max()), of_most)
    return (first, float(early.max())) if jumps and largest > 1 else None


def _has_no_start(evidence: Evidence) -> bool:
    """Whether all that is trained begins at zero, but for biases, or is one linear layer.

    No update is small beside weights of zero, and what one layer learns does not depend on where it begins: in neither
    is there an initialization to be lost.
    """
    matrices = trained_matrices(evidence)
    is_linear = len(matrices) == 1 and len(matrices[0].shape) == 2
    return is_linear or (bool(matrices) and all(one.is_sampled and one.mean == one.std == 0 for one in matrices))


def _update_of_most(evidence: Evidence, step: int) -> float:
    """The largest of the first updates, in units of its size, of half of the matrices or more; 0 where unknown.

    Of the norm of all parameters, a table of embeddings may be nearly all, however small those are that read it.
    """
    matrices = {one.name for one in trained_matrices(evidence)}
    early = (
        series.finite.until(step).values
        for name, series in evidence.of_tensors("parameter_update_ratio").items()
        if name in matrices
    )
    largest = [float(values.max()) for values in early if len(values)]
    return float(np.median(largest)) if len(largest) > 1 else 0.0


def _add_damage(argument: Argument, evidence: Evidence, progress: Progress, *, largest: float, typical: float) -> None:
    """What large updates leave behind: units that answered at first and are dead, weights that were thrown and grew.

    Of a loss of both signs, as a policy's, nobody knows how little was learnt: its weights may well have grown. Steps
    that an adaptive optimizer takes of attention are to be smaller than others, and to become so at last.
    """
    ratios = evidence["update_ratio"].finite.values
    late, adaptive = float(np.median(ratios[len(ratios) // 2 :])), evidence.facts.optimizer.startswith(ADAPTIVE)
    if largest > LARGE_RATIO and late > FOR_ATTENTION and adaptive and trains_attention(evidence):
        argument.add(
            MODERATE, f"late steps still change the weights of a model that attends by {late:.2g} of their size"
        )
    are_thrown = progress.highest - progress.first > RISEN * abs(progress.first) or typical > LARGE_RATIO
    limit = GROWN if largest < 2 * LARGE_RATIO else WELL_GROWN
    if (found := died(evidence)) is not None:
        name, series = found
        known = is_of_whole_loss(evidence)  # else nobody knows how little was learnt
        argument.add(
            0.55 if largest > LARGE_RATIO / 2 and (known or progress.fell < GOT_ON) else MODERATE,
            f"units of {name} died: {series.first:.0%} put out nothing but zeros at first, {series.last:.0%} at "
            "the end",
            since=int(evidence["loss"].steps[0]),
        )
    norm, is_signed = evidence["weight_norm"].finite, progress.lowest < 0 and not progress.failed
    if (
        are_thrown
        and not is_signed
        and not (_has_no_start(evidence) or has_far_to_go(evidence))
        and len(norm) >= 5
        and norm.last > limit * norm.first > 0
    ):
        argument.add(MODERATE, f"the weights grew to {norm.last / norm.first:.3g} times their size")
