"""A cause in what holds weights and outputs back: decay, dropout, or another term of the loss."""

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.rates import learning_rates
from debuggers.diagnosis.derived.relation import FEWEST, is_by_chance, reconstructs
from debuggers.diagnosis.derived.updates import TRIAL, UNDER_WAY, threw_weights, travelled
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES, LayerFacts
from debuggers.diagnosis.progress import Progress, adds_up_features, constant_level, progress_of

GIVEN_BACK = 0.1
"""Share of a constant output's loss by which one rises that gives back what it had gained; of its fall, if negative."""
SHRINK_ON = 0.9
"""Share of their size at the lowest loss, below which weights have shrunk on since then."""
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
LEFT = 0.3
"""Share of their size in which weights tell rows apart as in the whole, only with smaller outputs."""
SAME = 0.1
"""Share of its first spread over a batch below which an output hardly depends on the row."""
FLAT = 0.02
"""Share of the targets' spread below which outputs say nothing of them, even where they fall and rise with them."""
NEARLY_SAME = 0.25
"""The same below which it may be that it does not, if what is behind it is given far more than it puts out."""
NOISE = 0.02
"""Share of what enters the next layer that an output is, below which that comes from elsewhere."""
VARIES = 0.3
"""The same from which it varies as it did."""
IMPROVED = 0.02
"""Accuracy or correlation by which predictions have become better."""
DRAWN = 0.5
"""Cosine of updates and the way to zero from which weights are drawn there: in the zoo's sound trainings, the median is
0.40 and less, but for a Bayesian network without weight decay, whose divergence draws them."""
LITTLE = 0.15
"""Share of its first value by which a loss falls that gets hardly anywhere."""
ABOVE = 1.5
"""Times a constant output's loss from which one is far above it."""
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
            elif progress.learnt > 0.6 or (not gets_nowhere and not strength and _is_alone(evidence)):
                argument.against(STRONG, f"the loss fell by {progress.fell:.0%}")
            if gets_nowhere and not strength and _is_alone(evidence) and is_by_chance(evidence):
                argument.against(
                    STRONG, "outputs say nothing of their targets: the loss itself draws them to a constant"
                )
            elif shrunk > LEFT and not is_drawn and is_by_chance(evidence):
                argument.against(
                    STRONG, f"outputs say nothing of their targets, which {shrunk:.0%} of the weights could well do"
                )
    _add_pull(argument, evidence, strength)
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
    _add_constant_outputs(argument, evidence)
    _add_empty_code(argument, evidence, progress)
    _add_held_weights(argument, evidence)
    if strength >= 0.1 and argument.cause is None and gets_nowhere:
        argument.add(WEAK, f"weight decay is {strength:g}")
    lower = (
        f"weight_decay: {strength:g} → {min(strength / 100, 0.01):g}"
        if strength
        else "Lower the penalty on the weights"
    )
    argument.advice = argument.advice or (f"{lower}." if not drops else f"Lower dropout: p = {drops[0].value:g} → 0.2.")
    return argument


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
    if threw_weights(evidence):  # penalties grow with them
        return
    floor, terms = evidence["baseline_loss"].finite.median(progress.first), max(loss.terms, len(loss.parts))
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


def _add_constant_outputs(argument: Argument, evidence: Evidence) -> None:
    """Outputs that come to be the same for all rows, one vector of values, in a loss of several terms.

    What compares them with targets is at the best of constant outputs, and falls to there: the others take away what
    told rows apart. Of a single output per row, as that of a discriminator, this is no sign.
    """
    loss, spread, deviation = evidence.facts.loss, evidence["outputs/batch_std"].finite, evidence["outputs/std"].finite
    if loss is None or loss.kind not in OF_VALUES or (loss.terms < 2 and not loss.penalized):
        return
    if len(spread) < FEWEST or not len(deviation) or len(evidence["loss"]) < TRIAL or travelled(evidence) < UNDER_WAY:
        return
    if threw_weights(evidence):
        return
    first, last = float(np.median(spread.values[:3])), spread.late(FEWEST).median()
    goals = evidence["targets/std"].finite
    if len(goals) >= FEWEST and last < FLAT * goals.median():
        argument.add(
            0.6,
            f"the outputs hardly depend on the row: their spread over a batch is {last:.2g}, that of the targets is "
            f"{goals.median():.2g}, in a loss with other terms than the comparison",
            since=int(spread.steps[0]),
        )
    elif last < SAME * first and last < SAME / 4 * deviation.late(FEWEST).median():
        argument.add(
            0.6,
            f"the outputs hardly depend on the row: their spread over a batch fell from {first:.2g} to {last:.2g}, "
            f"beside {deviation.last:.2g} between them, in a loss with other terms than the comparison",
            since=int(spread.steps[0]),
        )


def _add_empty_code(argument: Argument, evidence: Evidence, progress: Progress) -> None:
    """Adds a code that comes to be the same for all rows, in a model that is to give back its inputs from it.

    What is behind it varies from row to row all the same, so that it gets its variation from elsewhere: from the noise
    that is added to a code. A divergence that outweighs the comparison leaves none (posterior collapse, Bowman et al.
    2016).
    """
    inputs, loss = evidence.facts.inputs, evidence.facts.loss
    if inputs is None or loss is None or inputs.integer or progress.points < TRIAL or travelled(evidence) < UNDER_WAY:
        return
    size = int(np.prod(inputs.shape[1:]))
    if len(inputs.shape) < 2 or int(np.prod(loss.outputs_shape[1:])) != size or threw_weights(evidence):
        return
    widths = {one.name.rpartition(".")[0]: one.shape[0] for one in evidence.facts.parameters if len(one.shape) > 1}
    takes = {one.name.rpartition(".")[0]: one.shape[1] for one in evidence.facts.parameters if len(one.shape) == 2}
    spreads = evidence.of_tensors("output_batch_std")
    known = [
        one.name for one in evidence.facts.layers if one.name in widths and len(spreads.get(one.name, ())) > FEWEST
    ]
    ends = [float(np.median(spreads[name].values[-3:])) for name in known]
    shares = [end / max(spreads[name].first, 1e-30) for name, end in zip(known, ends, strict=True)]
    for place, (name, share, behind) in enumerate(zip(known, shares, shares[1:], strict=False)):
        following = known[place + 1]
        is_empty = share < SAME or (share < NEARLY_SAME and ends[place] < NOISE * _entering(evidence, following))
        # A layer that puts out means and deviations is twice as wide as the code that is drawn from them.
        width = min(widths[name], takes.get(following, widths[name]))
        if is_empty and behind > VARIES and 2 * width <= size:
            argument.add(
                0.6,
                f"the code of {name} hardly depends on the row: its spread over a batch fell to {share:.1%} of its "
                "first value, and what is behind it varies all the same: another term leaves nothing but noise",
                since=int(spreads[name].steps[0]),
                where=[name],
            )
            argument.advice = (
                "Reduce the divergence as the comparison is: sums of both over each row, or weigh it by less at first."
            )
            return


def _entering(evidence: Evidence, layer: str) -> float:
    """About the spread over a batch of what enters a layer at the end, by its outputs and weights; 0 if unknown."""
    weights = evidence.of_tensors("weight_rms").get(f"{layer}.weight")
    shape = next((one.shape for one in evidence.facts.parameters if one.name == f"{layer}.weight"), ())
    if weights is None or not len(weights.finite) or len(shape) != 2:
        return 0.0
    gain = weights.finite.last * np.sqrt(shape[1])
    spread = float(np.median(evidence.of_tensors("output_batch_std")[layer].values[-3:]))
    return spread / gain if gain > 0 else 0.0


def _add_held_weights(argument: Argument, evidence: Evidence) -> None:
    """A penalty on parameters, and a loss that stays above a constant output's with predictions that get no better.

    Weights move from step to step and come back. A penalty that is large by a constant hides in the loss what is
    learnt, and not in the accuracy or the correlation.
    """
    loss, progress, level = evidence.facts.loss, progress_of(evidence), evidence["baseline_loss"].finite
    if loss is None or not loss.penalized or progress is None or progress.failed or not len(level):
        return
    right = evidence["accuracy"].finite if len(evidence["accuracy"]) else evidence["correlation"].finite
    third = len(right) // 3
    if third < FEWEST or progress.points < TRIAL or travelled(evidence) < UNDER_WAY:
        return
    before, after = right.values[:third], right.values[-third:]
    error = float(np.hypot(before.std(ddof=1), after.std(ddof=1))) / np.sqrt(third)
    gets_no_better = float(after.mean()) < float(before.mean()) + max(error, IMPROVED)
    if gets_no_better and progress.fell < LITTLE and progress.last > ABOVE * level.last:
        argument.add(
            0.55,
            f"the loss, with a penalty on parameters, stands at {progress.last:.3g}, where a constant output alone has "
            f"{level.last:.3g}, and predictions get no better, although weights move: the penalty draws them back",
            since=int(evidence["loss"].steps[0]),
        )
