"""Weights that start equal: what they are for computes the same."""

from collections.abc import Mapping, Sequence
from itertools import pairwise

import numpy as np

from debuggers.diagnosis.argument import MODERATE, STRONG, Argument
from debuggers.diagnosis.derived.initial_weights import is_set
from debuggers.diagnosis.derived.updates import STAYED, travelled
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import ParameterFacts
from debuggers.diagnosis.progress import progress_of
from debuggers.diagnosis.series import Series

BROKEN = 0.6
"""Share of a constant output's loss from which other layers have parted equal units."""


def _is_a_layer(parameter: ParameterFacts) -> bool:
    """Whether a weight has several units with several inputs each, and is not zero."""
    shape = parameter.shape
    is_wide = len(shape) > 1 and shape[0] > 3 and float(np.prod(shape[1:])) > 1
    return is_wide and is_set(parameter)


def _stand_behind_each_other(weights: Sequence[ParameterFacts]) -> bool:
    """Whether one weight takes what another one puts out: units of a single linear layer are told apart by targets."""
    return any(len(one.shape) > 1 and one.shape[1] == before.shape[0] for before, one in pairwise(weights))


def _is_a_table_of_biases(evidence: Evidence, parameter: ParameterFacts | None) -> bool:
    """Whether a weight has one number for each of many rows, as the biases of users: they begin equal, as biases do.

    Where scores of one user are compared, their gradients are zero for good.
    """
    if parameter is None or len(parameter.shape) != 2 or parameter.shape[1] > 1:
        return False
    layer = parameter.name.rpartition(".")[0]
    kind = next((one.kind for one in evidence.facts.layers if one.name == layer), "")
    return not kind or kind.startswith("Embedding")


def _has_others_apart(name: str, same: Mapping[str, Series]) -> bool:
    """Whether the module of a parameter has other weights, its own or of modules in it, whose units begin apart.

    They tell the units of the whole from the first step on. In state-space layers all channels begin with the same
    decays (S4D, Mamba), as their authors mean it. Of the model's own parameters only others of its own count.
    """
    module = name.rpartition(".")[0]
    others = (
        other for other in same if other != name and (other.startswith(f"{module}.") if module else "." not in other)
    )
    return any(same[other].first <= 0.5 for other in others)


def _copies(evidence: Evidence) -> list[str]:
    """The largest set of trained weights that start equal, moved, and are equal all the same; empty if there is none.

    Copies at different places, as the layers that ``torch.nn.TransformerEncoder`` makes, part with the first step.
    Copies whose outputs are added up, or judged alike, have the same gradients for good. Weights are compared by their
    shape, and by the moments of sampled elements at first and at the end.
    """
    sizes, found = evidence.of_tensors("weight_rms"), dict[object, list[str]]()
    for one in evidence.facts.parameters:
        series = sizes.get(one.name)
        if one.role != "trained" or len(one.shape) < 2 or not one.std or series is None or len(series) < 3:
            continue
        if np.isfinite(series.last) and series.last != series.first:
            found.setdefault((one.shape, one.mean, one.std, series.first, series.last), []).append(one.name)
    return max((names for names in found.values() if len(names) > 1), key=len, default=[])


def unbroken_symmetry(evidence: Evidence) -> Argument:
    """Units of a layer start with equal weights and still have them later: they compute the same.

    Where noise parts them, or layers behind them, they have still begun as one unit. Weights that are all zero are
    often meant so, as those of a branch that is to begin as nothing. That each weight of a model is one number other
    than zero, nobody means: only noise parts its units then, however much it learns.
    """
    argument = Argument("unbroken_symmetry")
    same = {name: series for name, series in evidence.of_tensors("unit_similarity").items() if len(series) >= 3}
    hit = {name: series for name, series in same.items() if series.first > 0.5 and series.last > 0.5}
    left_out = {
        one.name
        for one in evidence.facts.parameters
        if one.role in ("frozen", "without_gradient", "outside_optimizer")
        or not one.is_sampled  # rows of NaN are equal
    }
    sizes = {one.name: one for one in evidence.facts.parameters}
    hit = {
        name: series
        for name, series in hit.items()
        if name not in left_out and not _is_a_table_of_biases(evidence, sizes.get(name))
    }
    began = {
        name: series.first
        for name, series in same.items()
        if series.first > 0.5 and name not in left_out and name in sizes and _is_a_layer(sizes[name])
    }
    alike = len(began) == len(same) > 1 and _stand_behind_each_other([sizes[name] for name in same])
    began = {name: share for name, share in began.items() if not _has_others_apart(name, same)}
    progress = progress_of(evidence)
    copies = _copies(evidence)
    if copies and not hit:
        argument.add(
            STRONG,
            f"{len(copies)} weights of one shape, {', '.join(copies[:3])}, start equal and end equal, though "
            "they were trained: what they are for computes the same",
            since=0,
            where=copies[:5],
        )
        if progress is not None and progress.learnt < 0.6:
            argument.add(MODERATE, f"and {max(0.0, progress.learnt):.0%} of what there is to learn was learnt")
        elif progress is not None and progress.learnt > 0.9:
            argument.against(STRONG, f"the loss fell by {progress.fell:.0%} all the same")
    if hit:
        name = max(hit, key=lambda key: hit[key].last)
        steps = hit[name].steps
        argument.add(
            0.9 if hit[name].last > 0.9 else 0.7,
            f"{hit[name].last:.0%} of the units of {name} have equal weights "
            f"at step {steps[-1]}, as at step {steps[0]}",
            since=int(steps[0]),
            where=list(hit)[:5],
        )
        if progress is not None and progress.learnt > 0.9:
            argument.against(MODERATE, f"the loss fell by {progress.fell:.0%} all the same")
    elif (
        began
        and not copies
        and progress is not None
        and (alike or progress.learnt < BROKEN)
        and travelled(evidence) > STAYED
    ):
        name = max(began, key=lambda key: began[key])
        argument.add(
            0.6,
            f"{began[name]:.0%} of the units of {name} start with equal weights, which are not zero",
            since=int(same[name].steps[0]),
            where=list(began)[:5],
        )
        if progress.learnt < 0.35:
            argument.add(MODERATE, f"the loss fell by {progress.fell:.0%} only")
    argument.advice = "Initialise weights at random (torch.nn.init.kaiming_uniform_); only biases may start equal."
    return argument
