"""A cause in what holds weights and outputs back: decay, dropout, or another term of the loss."""

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.other_terms import (
    add_constant_outputs,
    add_dying_units,
    add_empty_code,
    add_held_weights,
    add_other_term,
)
from debuggers.diagnosis.derived.outweighed import add_blurred_targets, outweighing_term, told
from debuggers.diagnosis.derived.rates import learning_rates
from debuggers.diagnosis.derived.relation import FEWEST, is_by_chance
from debuggers.diagnosis.derived.roles import trained_matrices
from debuggers.diagnosis.derived.updates import EARLY, ONE_DIRECTION, late_agreement
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import LayerFacts
from debuggers.diagnosis.progress import Progress, constant_level, is_of_whole_loss, progress_of

GIVEN_BACK = 0.1
"""Share of a constant output's loss by which one rises that gives back what it had gained; of its fall, if negative."""
SHRINK_ON = 0.9
"""Share of their size at the lowest loss, below which weights have shrunk on since then."""
DROPOUT = 0.75
"""Share that a layer drops from which it is suspect by itself."""
HIGH_DROPOUT = 0.6
"""The same from which it is where nothing else explains that little is learnt: 0.5 is the highest of usual ones."""
SLIGHT = 0.15
"""Share of the outputs that a dropout sets to zero, up to which it does little harm."""
SHRINKS = 1.0
"""Learning rate times weight decay, over all steps, from which weights of no use shrink to exp(-1) of their size."""
LEFT = 0.3
"""Share of their size in which weights tell rows apart as in the whole, only with smaller outputs."""
DRAWN = 0.5
"""Cosine of updates and the way to zero from which weights are drawn there: in the zoo's sound trainings, the median is
0.40 and less, but for a Bayesian network without weight decay, whose divergence draws them."""
USUAL_DECAY = 1e-3
"""Weight decay up to which most trainings go well, whatever their optimizer; 1e-4 and 5e-4 are those of papers."""
NOTHING = 0.01
"""Share of a constant output's loss up to which nothing is learnt."""
HELD_BELOW = 0.9
"""Share of what there is to learn, above which a decay has taken little."""
CLEANER = 0.9
"""Share of the training loss below which a validation loss says that training targets are noisier."""
MOST = 0.6
"""Share of what there is to tell, above which a penalty on weights has left most of it."""
LEARNT = 0.2
"""Share of a constant output's loss below which a model has learnt nearly all there is."""


def over_regularized(evidence: Evidence) -> Argument:
    """Weights shrink steadily while the loss stands, or dropout takes away nearly everything."""
    argument = Argument("over_regularized")
    progress, norm = progress_of(evidence), evidence["weight_norm"].finite
    decay = [group.settings.get("weight_decay") for group in evidence.facts.groups]
    strength = max((float(value) for value in decay if isinstance(value, (int, float))), default=0.0)
    if progress is None:  # a loss that pulls outputs to zero shrinks weights, too
        return argument
    outweighs = outweighing_term(evidence, progress)
    if len(norm) >= 5 and (strength or not _is_one_layer(evidence) or _gives_back(evidence, progress)):
        _add_shrinking(argument, evidence, progress, strength, whole=not outweighs)
    _add_pull(argument, evidence, strength)
    decays = _decay(evidence)
    if decays > SHRINKS and not progress.failed and progress.learnt < 0.6:
        argument.add(
            MODERATE,
            f"weight decay {strength:g} takes {1 - np.exp(-decays):.0%} of the weights' size by itself over the "
            "training, and much was left to learn",
            since=0,
        )
    drops = _add_dropout(argument, evidence, progress)
    _add_dropped_outputs(argument, evidence)
    add_other_term(argument, evidence)
    add_dying_units(argument, evidence, progress)
    add_constant_outputs(argument, evidence)
    add_empty_code(argument, evidence, progress)
    add_held_weights(argument, evidence)
    add_blurred_targets(argument, evidence)
    if outweighs:
        argument.add(0.6, outweighs, since=int(evidence["loss"].steps[0]))
        argument.advice = argument.advice or "Weigh the other term of the loss by far less."
    if not drops:
        _weigh_validation(argument, evidence, progress)
    if strength >= 0.1 and argument.cause is None and _gets_nowhere(progress):
        argument.add(WEAK, f"weight decay is {strength:g}")
    lower = (
        f"weight_decay: {strength:g} → {min(strength / 100, 0.01):g}"
        if strength
        else "Lower the penalty on the weights"
    )
    argument.advice = argument.advice or (f"{lower}." if not drops else f"Lower dropout: p = {drops[0].value:g} → 0.2.")
    return argument


def _is_one_layer(evidence: Evidence) -> bool:
    """Whether one layer is trained, as of a regression: its weights shrink to the solution from a larger first draw."""
    return len(trained_matrices(evidence)) == 1


def _weigh_validation(argument: Argument, evidence: Evidence, progress: Progress) -> None:
    """Whether other rows have a far lower loss than those that are trained on: what is left to learn is their noise.

    Dropout makes the training loss larger, too.
    """
    validation = evidence.validation.finite
    if any("Dropout" in layer.kind for layer in evidence.facts.layers):
        return
    if len(validation) >= 3 and is_of_whole_loss(evidence) and 0 < validation.last < CLEANER * progress.last:
        argument.against(
            STRONG,
            f"the validation loss, {validation.last:.3g}, is far below the training loss, {progress.last:.3g}: what is "
            "left is noise of the training's targets",
        )


def _add_shrinking(argument: Argument, evidence: Evidence, progress: Progress, strength: float, *, whole: bool) -> None:
    """Weights that shrink from step to step, and what of the losses and outputs says whether that does harm.

    That the whole loss fell speaks against it, if what fell is not a penalty that outweighs the rest.
    """
    norm, gets_nowhere = evidence["weight_norm"].finite, _gets_nowhere(progress)
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
        is_drawn = len(pull) >= 3 and pull.median() > DRAWN
        if is_drawn:
            argument.add(MODERATE, f"updates point at zero (cosine {pull.median():.2f})")
        spread = evidence["outputs/batch_std"].finite.values
        if len(spread) >= 5 and float(np.median(spread[-3:])) < 0.02 * float(spread[0]):
            argument.add(MODERATE, "the outputs hardly vary over a batch any more")
        elif gets_nowhere:
            argument.add(MODERATE, f"the loss fell by {progress.fell:.0%} only")
        elif _gives_back(evidence, progress):
            argument.add(MODERATE, f"the loss rises from {progress.lowest:.3g} to {progress.last:.3g} as they do")
        elif strength and (held := _held_against(evidence, progress)):
            argument.add(MODERATE, held)
        elif whole and (progress.learnt > 0.6 or (not gets_nowhere and not strength and _is_alone(evidence))):
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
        elif not strength and whole and not gets_nowhere and (share := told(evidence)) and share > MOST:
            argument.against(
                STRONG,
                f"outputs tell {share:.0%} of what a guess does not: what is left of the loss is the penalty itself",
            )
        if gets_nowhere and not strength and _is_alone(evidence) and is_by_chance(evidence):
            argument.against(STRONG, "outputs say nothing of their targets: the loss itself draws them to a constant")
        elif gets_nowhere and 0 < strength <= USUAL_DECAY and abs(progress.learnt) < NOTHING:
            argument.against(
                STRONG, f"weight decay of {strength:g} is usual, and nothing is learnt that it could outweigh"
            )
        elif shrunk > LEFT and not is_drawn and is_by_chance(evidence):
            argument.against(
                STRONG, f"outputs say nothing of their targets, which {shrunk:.0%} of the weights could well do"
            )


def _held_against(evidence: Evidence, progress: Progress) -> str:
    """What to say of gradients that a decay holds up; "" if none are.

    Where there is no more to learn they are small, and noise: here those of different batches agree to the end, are as
    large as at first, and move nothing.
    """
    norms, agree = evidence["total_norm/gradients"].finite, late_agreement(evidence)
    if len(norms) < 3 * EARLY or agree < ONE_DIRECTION or progress.learnt > HELD_BELOW:
        return ""
    first, late = float(np.median(norms.values[:EARLY])), norms.late(3).median()
    if late < first / 2:
        return ""
    return (
        f"gradients of different batches agree to the end (cosine {agree:.2f}) and are as large as at first, "
        f"{late:.2g}: what they ask for, the decay takes back"
    )


def _gets_nowhere(progress: Progress) -> bool:
    return not progress.failed and progress.fell < 0.35


def _add_pull(argument: Argument, evidence: Evidence, strength: float) -> None:
    """Updates that point at zero from the first step on, though weights have not come near it."""
    pull = evidence["decay_cosine"].finite
    if argument.cause is None and strength and len(pull) >= FEWEST and min(pull.first, pull.median()) > DRAWN:
        argument.add(
            0.6,
            f"from the first step on, updates point at zero (cosine {pull.median():.2f}): weight decay {strength:g} "
            "outweighs the gradients",
            since=int(pull.steps[0]),
        )


def _gives_back(evidence: Evidence, progress: Progress) -> bool:
    """Whether a loss rises from its lowest by a good part of what it gained, while weights shrink on.

    Weights that had shrunk before it rose, as a critic's that its loop clamps from the first step, do not make it rise.
    A share of a constant output's loss means nothing for one of both signs: there it is a share of how far it fell.
    """
    gained = constant_level(evidence, progress) if progress.lowest >= 0 else progress.first - progress.lowest
    if progress.last - progress.lowest <= max(GIVEN_BACK * gained, 3 * progress.noise):
        return False
    loss, norm = evidence["loss"].finite, evidence["weight_norm"].finite
    lowest = int(loss.steps[int(np.argmax(loss.values <= progress.lowest))])
    size = float(np.interp(lowest, norm.steps, norm.values))
    return float(norm.values[norm.steps >= lowest].min(initial=size)) < SHRINK_ON * size


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


def _add_dropped_outputs(argument: Argument, evidence: Evidence) -> None:
    """Adds a dropout behind the last layer: whatever the weights are, some outputs are wrong at each step."""
    loss = evidence.facts.loss
    if loss is not None and loss.dropped:
        argument.add(
            STRONG if loss.dropped > SLIGHT else MODERATE,
            f"a dropout behind the last layer sets {loss.dropped:.0%} of the outputs to zero before the loss sees them",
            since=0,
        )
        argument.advice = "Put the dropout before the last layer."


def _add_dropout(argument: Argument, evidence: Evidence, progress: Progress) -> list[LayerFacts]:
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
        if _gets_nowhere(progress):
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
