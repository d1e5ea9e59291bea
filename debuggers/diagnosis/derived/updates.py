"""What the updates of a training come to: how large the first ones are, how far all go, and what they destroy."""

import math

import numpy as np

from debuggers.diagnosis.derived.attention import attention_layers
from debuggers.diagnosis.derived.rates import learning_rates
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.progress import progress_of
from debuggers.diagnosis.series import Series

HEALTHY_RATIO = 1e-3
"""|Δw| / |w| a step at which training usually goes well (Karpathy's lecture notes CS231n)."""
ADAPTIVE = ("Adam", "RMSprop", "NAdam", "RAdam", "Lion", "Adagrad", "Adadelta")
"""How the names of optimizers begin that divide by the gradients' own size."""
LARGE_RATIO = 0.1
SMALL_RATIO = 1e-4
"""Outside of these an update ratio is worth telling (TheDeepChecker; DeepDiagnosis: 1e-5 to 0.1)."""
HEAVY = 5.0
"""Times that a target of a rare class counts, from which how many a batch has of them decides its loss."""
ONE_DIRECTION = 0.9
"""Cosine from which gradients of different batches all want the same."""
STAYED = 0.1
"""Sum of all update ratios up to which weights stay where they were initialised, even if all updates agreed."""
UNDER_WAY = 0.5
"""The same up to which most of a model is still what it was initialised with."""
TRIAL = 100
"""Steps up to which a training is a trial of the loop: that little was learnt in it says nothing."""
ENOUGH = 60
"""The same from which a training that is still where it began was meant to get further."""
EARLY = 10
"""Steps in which an update that is too large shows first."""
AGREE = 0.5
"""Cosine from which the gradients of neighbouring steps have more in common than not."""
LASTING = 0.1
"""Share of a training: a loss that was above its first value for no longer has cost nothing."""
_FEWEST = 5
_HALF, _THROWN = 0.5, 5.0
"""Update ratio of first steps that leave little of the first weights, and times its first value that the loss rises to
by them: tables of counts that begin near zero have 1.7 and 2.5 and train well with Adagrad."""
UPHILL = -0.2
"""Cosine of updates and the negative gradient below which steps go uphill, all in all and in the last third. Of 1,405
stored trainings of the zoo, sick ones among them, none has a median below 0, and one has -0.37 in its last third."""
_AROUND = -0.5
"""Cosine of gradients with what they were after the backward pass, below which the loop has turned them around."""
_CONSTANT = 0.1
"""Share of its first spread over a batch below which an output has become nearly constant."""


def is_trial(evidence: Evidence) -> bool:
    """Whether there were fewer than 100 steps, and no two validations that say that more was meant."""
    validations = max(len(evidence.validation.finite), evidence.facts.validations)
    return len(evidence["loss"]) < TRIAL and validations < 2


def are_turned_around(evidence: Evidence) -> bool:
    """Whether the loop turns its gradients around between the backward pass and the step, at most sampled steps."""
    turned = evidence["turned_cosine"].finite
    return len(turned) >= max(_FEWEST, len(evidence["update_ratio"]) / 2) and turned.median(1.0) < _AROUND


def climbs(evidence: Evidence) -> str:
    """Says how steps go up the gradient of the loss; "" where they go down."""
    rates, descent = learning_rates(evidence).finite, evidence["descent_cosine"].finite
    if len(rates) and float(rates.values.max()) < 0:
        return f"the learning rate is {rates.median():.3g}: each step goes up the gradient"
    if are_turned_around(evidence):
        cosine = evidence["turned_cosine"].finite.median()
        return (
            "between the backward pass and the step the loop turns the gradients around (cosine with what they were "
            f"{cosine:.2f})"
        )
    if len(descent) >= _FEWEST and descent.median() < UPHILL and descent.late(3).median() < UPHILL:
        return f"updates go up the gradient (cosine with the negative gradient {descent.median():.2f})"
    return ""


def late_agreement(evidence: Evidence) -> float:
    """Returns the cosine of gradients of neighbouring steps at the end; 0 where batches are the same, or unknown.

    Gradients of different batches that agree say that all of them still want the same change: near a minimum, or where
    there is nothing to learn, what is left of them is noise.
    """
    cosine, again = evidence["gradient_cosine"].finite.values, evidence["inputs/repeated"].values[1:]
    late = cosine[-max(_FEWEST, len(cosine) // 3) :]
    if len(late) < _FEWEST or (len(again) and float(np.mean(again)) > 0.5):
        return 0.0
    return float(np.median(late))


def died(evidence: Evidence) -> tuple[str, Series] | None:
    """Returns the layer most of whose units answered at first and put out zero for every input later; None if none.

    Of those that answered at first, half have died at least.
    """
    found = {
        name: series
        for name, series in evidence.of_tensors("dead_units").items()
        if len(series) >= 5
        and series.first < 0.3
        and float(np.median(series.values[-3:])) - series.first >= 0.5 * (1 - series.first)
    }
    name = max(found, key=lambda key: float(np.median(found[key].values[-3:])), default=None)
    return None if name is None else (name, found[name])


def travelled(evidence: Evidence) -> float:
    """Returns the sum of the update ratios of all steps: how far weights may have come, in units of their size.

    Infinity where it is not known.
    """
    ratio, loss = evidence["update_ratio"].finite, evidence["loss"]
    if not len(ratio) or not len(loss):
        return math.inf
    steps = np.arange(int(loss.steps[0]), int(loss.steps[-1]) + 1)
    return float(np.interp(steps, ratio.steps, ratio.values).sum())


def hardly_moved(evidence: Evidence) -> bool:
    """Whether updates of less than the usual size come to less than a tenth of the weights' size all together.

    To less than a fifth, if they are of less than half the usual size.
    """
    typical = evidence["update_ratio"].finite.median(math.inf)
    return typical < HEALTHY_RATIO and travelled(evidence) < (2 if typical < HEALTHY_RATIO / 2 else 1) * STAYED


def collapse(evidence: Evidence) -> tuple[int, str] | None:
    """Returns since when and how outputs became nearly constant after updates that are rather large; None if not.

    They varied over the batch at first, the loss ends no better than that of a constant output, and it was not
    regularisation that took the weights away.
    """
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    spread, norm = evidence["outputs/batch_std"].finite, evidence["weight_norm"].finite
    if progress is None or progress.learnt > 0.1 or len(spread) < 5 or not len(ratio):
        return None
    early = ratio.until(int(ratio.steps[0]) + EARLY)
    large = np.flatnonzero(early.values > LARGE_RATIO / 3)
    late = float(np.median(spread.values[-3:]))
    if not len(large) or late > _CONSTANT * spread.first or (len(norm) and norm.last < 0.7 * norm.first):
        return None
    step = int(early.steps[large[0]])
    return step, (
        f"after an update at step {step} that changes weights by {early.values[large[0]]:.2g} of their size, outputs "
        f"became nearly constant: their spread over a batch fell from {spread.first:.2g} to {late:.2g}"
    )


def early_collapse(evidence: Evidence) -> tuple[int, str] | None:
    """Returns since when and how the first updates made outputs nearly constant, of a model that learnt nothing after.

    Outputs may vary again later, by what is left of the inputs: what they vary with is no longer learnt. None if not.
    """
    progress, ratio = progress_of(evidence), evidence["update_ratio"].finite
    spread = evidence["outputs/batch_std"].finite
    if progress is None or progress.learnt > 0.1 or len(spread) < 5 or not len(ratio):
        return None
    early, first = spread.until(int(spread.steps[0]) + 2 * EARLY), float(ratio.values[0])
    low = int(early.values.argmin())
    if first < LARGE_RATIO / 3 or not len(evidence["baseline_loss"]) or early.values[low] > _CONSTANT * spread.first:
        return None
    return int(ratio.steps[0]), (
        f"after a first update of {first:.2g} of the weights' size, outputs became nearly constant: their spread over "
        f"a batch fell from {spread.first:.2g} to {early.values[low]:.2g} at step {early.steps[low]}, and the loss, at "
        f"{progress.last:.3g}, ends no better than a constant output's"
    )


def threw_weights(evidence: Evidence) -> bool:
    """Whether an update was larger than the weights themselves: what they began with is lost."""
    return float(evidence["update_ratio"].finite.values.max(initial=0.0)) > 1


def setback(evidence: Evidence) -> tuple[int, str] | None:
    """Returns since when and how the loss rose in the first steps, whose updates are large, and came back late.

    None where it did not, for a loss of both signs, whose first value is no measure, and where it has blown up.
    """
    progress, ratio, loss = progress_of(evidence), evidence["update_ratio"].finite, evidence["loss"].finite
    if progress is None or len(loss) < 20 or len(ratio) < 8 or progress.failed or progress.lowest < 0:
        return None
    if evidence.facts.loss is not None and evidence.facts.loss.positive_weight > HEAVY:  # single rows move the loss
        return None
    early, start = loss.values[1 : max(4, len(loss) // 8)], max(loss.first, progress.first)
    times, height = float(early.max()) / max(abs(start), 1e-12), float(np.sort(early)[-2])  # one may be a batch's
    stands_out = height > 1.3 * abs(start) and height > start + 5 * progress.noise
    lasts = int((loss.values > start).sum()) > max(10, LASTING * len(loss))
    came_back = progress.learnt > 0.1 and progress.last < 0.9 * start
    first, later = float(ratio.values[:5].max()), float(np.median(ratio.values[len(ratio) // 2 :]))
    if not (stands_out and lasts and came_back and first > 3 * later):
        return None
    step = int(loss.steps[1 + int(early.argmax())])
    text = (
        f"the loss rises to {early.max():.3g} at step {step}, {times:.1f} times its first value, and comes back later"
    )
    return int(loss.steps[0]), text


def thrown_by_first_squares(evidence: Evidence) -> str:
    """Says what first steps come to that throw the weights, as squared gradients are counted from zero; "" of others.

    RMSprop divides by the root of a moving average that begins at zero, Adagrad by the root of a sum that does: the
    first step is 1/√(1 - alpha) times the rate, and one at which gradients are as large as ever √t times a later one,
    which the rate is meant for. Adam corrects for it (Kingma & Ba 2015).
    """
    facts, losses, ratio = evidence.facts, evidence["loss"].finite.values, evidence["update_ratio"].finite.values
    if len(losses) < EARLY or len(ratio) < _FEWEST:
        return ""
    first, later = float(ratio[:5].max()), float(np.median(ratio[len(ratio) // 2 :]))
    settings = facts.groups[0].settings if facts.groups else {}
    alpha, held = settings.get("alpha"), settings.get("initial_accumulator_value")
    if facts.optimizer == "RMSprop" and isinstance(alpha, float) and 0 < alpha < 1:
        times = float(1 / np.sqrt(1 - alpha))
    elif facts.optimizer == "Adagrad" and held == 0:
        times = float(np.sqrt(len(losses)))
    else:
        return ""
    rises = float(losses[1:4].max()) > _THROWN * abs(float(losses[0]))
    if not (rises and first > _HALF and later < LARGE_RATIO and first / times < 2 * LARGE_RATIO):
        return ""
    return (
        f"{facts.optimizer} counts squares of gradients from zero: its first steps are up to {times:.0f} times as "
        f"large as the later ones that the rate is meant for. They change weights by {first:.2g} of their size, later "
        f"ones by {later:.2g}, and the loss goes from {losses[0]:.3g} to {losses[1:4].max():.3g}"
    )


def is_ramped(evidence: Evidence) -> bool:
    """Whether a training is one of those that are begun with small steps: of attention, or by a schedule.

    Large first steps of others come from a rate that is too high for them, at first as later. Where layers are not
    known, it may be one.
    """
    rates, layers = learning_rates(evidence).values, evidence.facts.layers
    attends = not layers or bool(attention_layers(layers))
    return attends or (len(rates) > 1 and float(rates[-1]) < 0.5 * float(rates.max()))


def only_vectors_move(evidence: Evidence, fewest: int = 1) -> bool:
    """Whether the gradients of all matrices, seen so often at least, are exactly zero: no rate moves them."""
    gradients = evidence.of_tensors("gradient_rms")
    known = [gradients[one.name] for one in evidence.facts.parameters if len(one.shape) > 1 and one.name in gradients]
    known = [series for series in known if len(series)]
    return bool(known) and all(len(series) >= fewest and not series.values.any() for series in known)


def are_all_zero(evidence: Evidence) -> bool:
    """Whether there are gradients, and none is anything but zero at any step."""
    norms = evidence["total_norm/gradients"].values
    return len(norms) > 0 and not norms.any()
