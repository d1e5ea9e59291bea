"""Causes in what single units put out: nothing, or their bounds."""

from collections.abc import Mapping

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, WEAK, Argument
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import ParameterFacts
from debuggers.diagnosis.progress import progress_of
from debuggers.diagnosis.rules.initialization import USUAL_GAINS, gains
from debuggers.diagnosis.series import Series

CUTTING = ("Threshold", "Hardshrink", "Softshrink")
"""Layers that put out zero for all that is small, besides those whose dead units are counted."""
SILENT = 0.999
"""Share of zeros in the outputs of a layer through which nothing passes."""
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
    if hit:
        name, series = max(hit.items(), key=lambda pair: _late(pair[1]))
        above = np.flatnonzero(series.values >= 0.5)
        since = int(series.steps[above[0]])
        share = _late(series)
        argument.add(
            0.75 if share >= 0.9 else 0.6 if series.first >= 0.5 else 0.5,  # dead from the first: by no update
            f"{share:.0%} of the units of {name} are dead, {series.first:.0%} at first",
            since=since,
            where=list(hit)[:5],
        )
        if found := evidence.found("dead_units"):
            argument.add(WEAK, found[0].message, since=found[0].step)
        if share > 0.99:
            argument.add(MODERATE, f"{name} puts out nothing but zeros", since=since)
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
    if argument.cause is not None and held is None and progress is not None and progress.learnt > 0.6:
        argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    elif argument.cause is not None and progress is not None and progress.learnt < 0.2:
        argument.add(MODERATE, f"the loss fell by {progress.fell:.0%} only")
    argument.advice = (
        "Start biases at 0, lower the learning rate if they died after a large update, or use LeakyReLU or GELU."
    )
    return argument


def _silent(evidence: Evidence) -> tuple[str, str, Series] | None:
    """A layer that cuts off what is small, and lets nothing pass; None if there is none.

    Codes that are sparse on purpose have zeros for most inputs, not for all of them.
    """
    kinds, zeros = {layer.name: layer.kind for layer in evidence.facts.layers}, evidence.of_tensors("output_zeros")
    cut = ((name, kinds.get(name, ""), series) for name, series in zeros.items() if len(series))
    return next((one for one in cut if one[1] in CUTTING and _late(one[2]) >= SILENT), None)


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
        large = {of: gain for of, gain in gains(evidence.facts).items() if gain > USUAL_GAINS[1]}
        if large and series.first > 0.5:
            of = max(large, key=lambda key: large[key])
            argument.add(STRONG, f"the standard deviation of {of} times √fan_in is {large[of]:.2g} at first: too large")
        if progress is not None and progress.learnt < 0.3:
            argument.add(MODERATE, f"the loss went from {progress.first:.3g} to {progress.last:.3g}")
        elif progress is not None and progress.learnt > 0.7 and not large:
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    argument.advice = (
        "Use smaller initial weights (xavier_normal_ with the activation's gain), "
        "normalise before it, or lower the learning rate."
    )
    return argument
