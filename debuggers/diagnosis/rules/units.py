"""Causes in what single units put out: nothing, or their bounds."""

from collections.abc import Mapping

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.derived.initial_weights import USUAL_GAINS, gains
from debuggers.diagnosis.derived.zero_outputs import FEWEST, always_zero, without_weights
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import ParameterFacts
from debuggers.diagnosis.progress import progress_of
from debuggers.diagnosis.series import Series

CUTTING = ("Threshold", "Hardshrink", "Softshrink")
"""Layers that put out zero for all that is small, besides those whose dead units are counted."""
SILENT = 0.999
"""Share of zeros in the outputs of a layer through which nothing passes."""
NEARLY_ALL = 0.9
"""Share of a layer's units, or of its outputs from the first step on, from which what is left can do next to nothing,
whatever was learnt all the same: in the zoo's sound trainings, up to 0.75 of a layer's units die."""
HOLDS = 3.0
"""Size of the bias of all gates from which a sigmoid is within a twentieth of its bounds."""
NOTHING = 0.05
"""Share of what there is to learn, below which nothing was."""
LOW_BIAS = -0.5
"""Mean of a bias that no usual initialisation gives."""


def _late(series: Series) -> float:
    """The median of its last third."""
    return series.finite.late().median()


def dead_units(evidence: Evidence) -> Argument:
    """Half of a layer's units or more put out zero for every input; from the beginning, or since a large update."""
    argument = Argument("dead_units")
    dead = {name: series for name, series in evidence.of_tensors("dead_units").items() if len(series)}
    hit = {name: series for name, series in dead.items() if _late(series) >= 0.5}
    others_may_do, share, lasting = False, 0.0, 0.0
    if hit:
        name, series = max(hit.items(), key=lambda pair: _late(pair[1]))
        share = _late(series)
        lasting = min(share, float(np.median(series.values[-3:])))  # units that come back are not lost
        since = int(series.steps[np.flatnonzero(series.values >= (NEARLY_ALL if share >= NEARLY_ALL else 0.5))[0]])
        others_may_do = series.first >= 0.5 and share < NEARLY_ALL
        argument.add(
            0.75 if share >= NEARLY_ALL else 0.6 if series.first >= 0.5 else 0.5,  # dead from the first: by no update
            f"{share:.0%} of the units of {name} are dead, {series.first:.0%} at first",
            since=since,
            where=list(hit)[:5],
        )
        if found := evidence.found("dead_units"):
            argument.add(WEAK, found[0].message, since=found[0].step)
        if share > 0.99:
            argument.add(MODERATE, f"none of what {name} puts out is ever above zero", since=since)
    elif found := evidence.found("dead_units"):
        argument.add(0.5, found[0].message, since=found[0].step, where=[one.name for one in found[:3]])
    elif silent := _silent(evidence):
        name, kind, series = silent
        argument.add(
            0.75,
            f"{name} ({kind}) puts out nothing but zeros, {series.first:.0%} at first",
            since=int(series.steps[np.flatnonzero(series.values >= SILENT)[0]]),
            where=[name],
        )
    elif zero := [one for one in always_zero(evidence).items() if one[1] in CUTTING or _starves(evidence)]:
        name, kind = zero[0]
        argument.add(0.75, f"{name} ({kind}) puts out nothing but zeros", since=0, where=[name])
    elif cut := _cut_off(evidence):
        argument.add(
            0.6,
            f"outputs of {cut[0]} vary over the batch, and those of {cut[1]} never do: nothing passes between them",
            since=0,
            where=list(cut),
        )
    zeros = evidence.found("zero_gradient")
    if argument.cause is not None and zeros:
        argument.add(MODERATE, zeros[0].message, since=zeros[0].step)
    held = _held_down(evidence, hit)
    if held is not None:
        argument.add(
            STRONG,
            f"the mean of {held.name} is {held.mean:.2g} at first, which holds {held.name.rpartition('.')[0]} down",
            since=0,
            where=[held.name],
        )
    progress = progress_of(evidence)
    is_held = held is not None or lasting >= NEARLY_ALL
    if argument.cause is not None and not is_held and progress is not None and progress.learnt > 0.6:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    elif others_may_do and progress is not None and progress.learnt < NOTHING:
        argument.against(MODERATE, "those that answered at first would have learnt something")
    elif argument.cause is not None and progress is not None and progress.learnt < 0.2 and not others_may_do:
        argument.add(
            MODERATE, f"of what a constant output leaves to be learnt, {max(0.0, progress.learnt):.0%} was learnt"
        )
    argument.advice = (
        "Start biases at 0, lower the learning rate if they died after a large update, or use LeakyReLU or GELU."
    )
    return argument


def _silent(evidence: Evidence) -> tuple[str, str, Series] | None:
    """A layer that cuts off what is small, and lets nothing pass; None if there is none.

    Codes that are sparse on purpose have zeros for most inputs, not for all of them. Of a class that is not known, such
    as a mask, nothing has passed at any step, it has no weights that were zero, and weights wait in vain for it.
    """
    facts, zeros = evidence.facts, evidence.of_tensors("output_zeros")
    kinds = {layer.name: layer.kind for layer in facts.layers}
    own = without_weights(evidence) if _starves(evidence) else {}
    for name, series in zeros.items():
        kind = kinds.get(name, "")
        if len(series) and (
            (kind in CUTTING and _late(series) >= SILENT)
            or (name in own and len(series) >= FEWEST and float(series.finite.values.min(initial=1.0)) >= SILENT)
        ):
            return name, kind, series
    return None


def _starves(evidence: Evidence) -> bool:
    """Whether some weights have never had a gradient, or the outputs have never varied over a batch.

    A mask without anything to mask, or noise of strength 0, puts out zeros that are added to what passes beside them.
    """
    outputs = evidence["outputs/batch_std"].finite
    trained = {one.name for one in evidence.facts.parameters if one.role in ("trained", "unchanged")}
    gradients = (series for name, series in evidence.of_tensors("gradient_rms").items() if name in trained)
    is_constant = len(outputs) >= FEWEST and not outputs.values.any()
    return is_constant or any(len(one) >= FEWEST and not one.values.any() for one in gradients)


def _cut_off(evidence: Evidence) -> tuple[str, str] | None:
    """The last layer whose outputs vary over the batch, and the next with weights, behind which nothing ever does.

    Then nothing of the inputs passes between them: everything is below a threshold, or masked. None where outputs vary,
    or a layer is saturated, whose outputs may vary by less than a rounding.
    """
    varies, facts = evidence.of_tensors("output_batch_std"), evidence.facts
    outputs, size = evidence["outputs/batch_std"].finite, evidence["inputs/batch_size"].finite
    if len(outputs) < FEWEST or float(outputs.values.max()) > 0 or size.median(0.0) < 2:
        return None
    if any(len(one) and _late(one) > 0.5 for one in evidence.of_tensors("saturated").values()):
        return None
    names = [layer.name for layer in facts.layers if layer.name in varies and len(varies[layer.name])]
    with_weights = {one.name.rpartition(".")[0] for one in facts.parameters}
    alive = [name for name in names if float(varies[name].values.min()) > 0]
    if not alive:
        return None
    behind = names[names.index(alive[-1]) + 1 :]
    still = [name for name in behind if name in with_weights and float(varies[name].values.max()) == 0]
    return (alive[-1], still[0]) if still else None


def _held_down(evidence: Evidence, dead: Mapping[str, Series]) -> ParameterFacts | None:
    """A bias that starts so far below zero that its units are dead at the first step, and stay so.

    Default initialisations draw biases from within one over the root of the number of inputs, around zero, or set them
    to zero: units that are dead by chance of their weights are far fewer, and gradients reach the others.
    """
    names = [layer.name for layer in evidence.facts.layers]
    biases = {one.name: one for one in evidence.facts.parameters if one.name.endswith("bias") and len(one.shape) == 1}
    for name, series in dead.items():
        if series.first < 0.5 or name not in names:
            continue
        before = [f"{of}.bias" if of else "bias" for of in names[names.index(name) :: -1]]
        bias = next((biases[of] for of in before if of in biases), None)
        if bias is not None and bias.mean < LOW_BIAS:
            return bias
    return None


def saturated_units(evidence: Evidence) -> Argument:
    """More than half of the outputs of a sigmoid or tanh lie at its bounds, where its derivative is nearly zero."""
    argument = Argument("saturated_units")
    kinds = {layer.name: layer.kind for layer in evidence.facts.layers}
    layers = {name: series for name, series in evidence.of_tensors("saturated").items() if len(series)}
    # A module that is registered last need not be what puts out: the finding is of no layer that makes outputs.
    inside = {one.name for one in evidence.found("saturated_units")}
    last = [name for name in list(kinds)[-1:] if name not in inside]
    hit = {
        name: series
        for name, series in layers.items()
        if _late(series) > 0.5 and kinds.get(name) != "Softmax" and name not in last
    }
    if hit:
        name, series = max(hit.items(), key=lambda pair: _late(pair[1]))
        above = np.flatnonzero(series.values > 0.5)
        argument.add(
            0.6,
            f"{_late(series):.0%} of the outputs of {name} lie at its bounds, {series.first:.0%} at first",
            since=int(series.steps[above[0]]),
            where=list(hit)[:5],
        )
        progress = progress_of(evidence)
        always = min(series.first, _late(series)) >= NEARLY_ALL
        large = {of: gain for of, gain in gains(evidence.facts).items() if gain > USUAL_GAINS[1]}
        if large and series.first > 0.5:
            of = max(large, key=lambda key: large[key])
            argument.add(STRONG, f"the standard deviation of {of} times √fan_in is {large[of]:.2g} at first: too large")
        if progress is not None and progress.learnt < 0.3:
            argument.add(MODERATE, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
        elif progress is not None and progress.learnt > 0.7 and not large and not always:
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    if argument.cause is None and (gates := _held_gates(evidence)) is not None:
        argument.add(0.6, gates[1], since=0, where=[gates[0]])
    argument.advice = (
        "Use smaller initial weights (xavier_normal_ with the activation's gain), "
        "normalise before it, or lower the learning rate."
    )
    return argument


def _held_gates(evidence: Evidence) -> tuple[str, str] | None:
    """The bias of a recurrent layer that holds all of its gates at their bounds from the first step on.

    A bias of 1 or 2 in the forget gate alone is usual (Jozefowicz et al. 2015): a quarter of that in the mean of all.
    """
    known = {one.name: one for one in evidence.facts.parameters}
    for layer in evidence.facts.layers:
        if layer.kind not in ("LSTM", "GRU", "LSTMCell", "GRUCell"):
            continue
        start = f"{layer.name}.bias_ih".lstrip(".")
        for name, one in known.items():
            other = known.get(name.replace("bias_ih", "bias_hh"))
            if not name.startswith(start) or other is None:
                continue
            total = one.mean + other.mean
            if abs(total) > HOLDS and one.std + other.std < abs(total) / HOLDS:
                whose = layer.name or "the model"
                return name, (
                    f"the biases of all gates of {whose} are {total:.2g} at first, of which a sigmoid makes "
                    f"{1 / (1 + np.exp(-total)):.3f}, whatever comes in"
                )
    return None
