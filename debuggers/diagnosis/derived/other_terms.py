"""Signs that another term of a loss outweighs what compares outputs with their targets."""

import numpy as np

from debuggers.diagnosis.argument import Argument
from debuggers.diagnosis.derived.relation import FEWEST, reconstructs
from debuggers.diagnosis.derived.updates import TRIAL, UNDER_WAY, threw_weights, travelled
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import OF_VALUES
from debuggers.diagnosis.progress import Progress, adds_up_features, progress_of

NOTHING_GAINED = 0.95
"""Share of a constant output's loss above which nothing was gained over it."""
WEAK_RELATION = 0.5
"""Correlation below which outputs explain less than a quarter of what they are to give back."""
QUARTER = 0.25
"""Share of the variance of its inputs below which a model that is to give them back tells hardly anything of them."""
SAME = 0.1
"""Share of its first spread over a batch below which an output hardly depends on the row."""
FLAT = 0.02
"""Share of the targets' spread below which outputs say nothing of them, even where they fall and rise with them."""
LITTLE_GAINED = 0.6
"""Share of a constant output's loss above which little was gained over it."""
LARGE = 0.1
"""Update ratio of a step that may kill units by itself."""
BEGAN, DIED = 0.2, 0.6
"""Shares of a layer's units that are dead at first, and at the end, where a penalty kills them."""
NEARLY_SAME = 0.5
"""The same below which it may be that it does not, if what is behind it is given far more than it puts out."""
NOISE = 0.02
"""Share of what enters the next layer that an output is, below which that comes from elsewhere."""
VARIES = 0.3
"""The same from which it varies as it did."""
IMPROVED = 0.02
"""Accuracy or correlation by which predictions have become better."""
LITTLE = 0.15
"""Share of its first value by which a loss falls that gets hardly anywhere."""
ABOVE = 1.5
"""Times a constant output's loss from which one is far above it."""


def add_other_term(argument: Argument, evidence: Evidence) -> None:
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
    elif _gives_little_back(evidence, progress):
        explained = evidence["r2"].finite.late(5).median()
        argument.add(
            0.6,
            f"the targets are the inputs, and outputs explain {max(0.0, explained):.0%} of their variance, though the "
            f"loss, which has {terms} terms, fell by {progress.fell:.0%} and stands: another term outweighs the "
            "comparison",
        )
    elif float(np.max(np.abs(late))) < 0.1:
        argument.add(
            0.6,
            f"the correlation of outputs and targets is {np.median(late):.2f} at the end, though the loss, which has "
            f"{terms} terms, fell by {progress.fell:.0%}: another term outweighs them",
        )


def _gives_little_back(evidence: Evidence, progress: Progress) -> bool:
    """Whether a model that is to give back its inputs has come to an end with less than a quarter of their variance."""
    explained = evidence["r2"].finite.late(5)
    has_ended = len(explained) >= FEWEST and not progress.falls_late
    return has_ended and explained.median() < QUARTER and reconstructs(evidence)


def add_constant_outputs(argument: Argument, evidence: Evidence) -> None:
    """Outputs that come to be the same for all rows, one vector of values, in a loss of several terms.

    What compares them with targets is at the best of constant outputs, and falls to there: the others take away what
    told rows apart. Of a single output per row, as that of a discriminator, this is no sign. Flat outputs, which are
    all nearly one number, are a sign of any shape.
    """
    loss, spread, deviation = evidence.facts.loss, evidence["outputs/batch_std"].finite, evidence["outputs/std"].finite
    if loss is None or loss.kind not in OF_VALUES or (loss.terms < 2 and not loss.penalized):
        return
    if len(spread) < FEWEST or not len(deviation) or len(evidence["loss"]) < TRIAL or travelled(evidence) < UNDER_WAY:
        return
    if threw_weights(evidence):
        return
    first, last = float(np.median(spread.values[:3])), spread.late(FEWEST).median()
    goals, varies = evidence["targets/std"].finite, deviation.late(FEWEST).median()
    if len(goals) >= FEWEST and varies < FLAT * goals.median():
        argument.add(
            0.6,
            f"the outputs are flat: their standard deviation is {varies:.2g}, that of the targets is "
            f"{goals.median():.2g}, in a loss with other terms than the comparison",
            since=int(spread.steps[0]),
        )
    elif last < SAME * first and last < SAME / 4 * varies:
        argument.add(
            0.6,
            f"the outputs hardly depend on the row: their spread over a batch fell from {first:.2g} to {last:.2g}, "
            f"beside {deviation.last:.2g} between them, in a loss with other terms than the comparison",
            since=int(spread.steps[0]),
        )


def add_dying_units(argument: Argument, evidence: Evidence, progress: Progress) -> None:
    """Units that die one after the other by small steps, in a loss of several terms that stays near a constant's.

    A penalty on what they put out is least where they put out nothing. Large steps kill units, too: see dead_units.
    """
    loss, ratio = evidence.facts.loss, evidence["update_ratio"].finite
    floor = evidence["baseline_loss"].finite.median(0.0)
    if loss is None or loss.terms < 2 or loss.reduction != "mean" or loss.factor != 1 or progress.points < TRIAL:
        return
    if adds_up_features(loss) or not 0 < floor * LITTLE_GAINED < progress.last or ratio.values.max(initial=0) > LARGE:
        return
    for name, series in evidence.of_tensors("dead_units").items():
        share = series.finite.late().median()
        if len(series) >= FEWEST and series.first < BEGAN and share > DIED:
            argument.add(
                0.55,
                f"{share:.0%} of the units of {name} have died, {series.first:.0%} were dead at first, though no step "
                f"was large, and the loss of {loss.terms} terms is {progress.last:.3g}, where a constant output alone "
                f"has {floor:.3g}",
                where=[name],
            )
            return


def add_empty_code(argument: Argument, evidence: Evidence, progress: Progress) -> None:
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


def add_held_weights(argument: Argument, evidence: Evidence) -> None:
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
