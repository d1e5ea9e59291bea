"""Ranks out of step: copies that were equal and part, with the first step and parameter.

Each rank is compared with the first that has the same part of the tensors. All-reduced gradients are equal to the bit
on all ranks, whatever their weights are: gradients that differ were not synchronised, and weights that part under equal
gradients were changed outside of the optimizer. Weights that meet again, as under local SGD, are no finding, nor are
copies that never were equal, unless DistributedDataParallel had made them so.
"""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from debuggers.detectors.finding import Finding
from debuggers.diagnosis.rank_facts import RankFacts
from debuggers.diagnosis.signals import PREFIX
from stepscope.ranks.findings import names_of, rank_finding
from stepscope.ranks.last_start import LastStart
from stepscope.ranks.sums import Steps, Values

_RULE = "copies on several ranks are equal to the bit: checksums at the first ten steps and every tenth"
_Series = tuple[Steps, Values]


@dataclass(frozen=True, slots=True)
class Parting:
    """A rank that parts from another.

    Attributes:
        rank: The rank.
        reference: From which it parts.
        weights: The first check at which its weights differ.
        gradients: The first step at which its gradients do; None where only weights differ.
        equal: The last check at which the weights were equal; None where they never were.
        last: The last check.
        suffix: Of the checksums' names.
        strategy: The rank's.
    """

    rank: int
    reference: int
    weights: int | None
    gradients: int | None
    equal: int | None
    last: int
    suffix: str
    strategy: str


@dataclass(slots=True)
class Desync:
    """What the comparison of checksums found.

    Attributes:
        findings: At most one for gradients and one for weights.
        checked: Pairs of checksums that were compared.
        differing: How many of them differ.
    """

    findings: list[Finding]
    checked: int = 0
    differing: int = 0


def find_desync(start: LastStart) -> Desync:
    """Compares the checksums of all ranks; of each rank two series are read."""
    found, partings = Desync([]), []
    references: dict[tuple[str, str], tuple[int, _Series, _Series]] = {}
    for rank, facts in start.facts.items():
        for suffix in ("", "/shards"):
            weights = start.read(rank, f"{PREFIX}weight_checksum{suffix}")
            if not len(weights[0]):
                continue
            gradients = start.read(rank, f"{PREFIX}gradient_checksum{suffix}")
            key = suffix, _parts(facts) if suffix else ""
            if key not in references:
                references[key] = rank, weights, gradients
                continue
            reference, their_weights, their_gradients = references[key]
            parted, last = _parts_at(their_weights, weights, from_start=facts.strategy == "ddp")
            steps, differ = _compared(their_gradients, gradients)
            found.checked += len(_compared(their_weights, weights)[0])
            found.differing += int(_compared(their_weights, weights)[1].sum())
            if parted is not None:
                first = int(steps[differ][0]) if differ.any() and steps[differ][0] <= parted else None
                equal = _compared(their_weights, weights)[0]
                since = max(equal[equal < parted].tolist(), default=None)
                if first is not None:
                    first = _norms_part(start, (reference, rank), since, first)
                partings.append(Parting(rank, reference, parted, first, since, last, suffix, facts.strategy))
    found.findings.extend(_findings(start, partings))
    return found


def _parts(facts: RankFacts) -> str:
    return "; ".join(sorted({one.part for one in facts.placed if one.part}))


def _compared(theirs: _Series, ours: _Series) -> tuple[Steps, npt.NDArray[np.bool_]]:
    steps, here, there = np.intersect1d(theirs[0], ours[0], assume_unique=True, return_indices=True)
    return steps, theirs[1][here] != ours[1][there]


def _parts_at(theirs: _Series, ours: _Series, *, from_start: bool) -> tuple[int | None, int]:
    """The step from which weights differ to the end, and the last step compared; None where they do not."""
    steps, differ = _compared(theirs, ours)
    if not len(steps) or not differ[-1]:
        return None, -1
    first = int(np.flatnonzero(differ)[0])
    if not differ[first:].all() or (first == 0 and not from_start) or len(steps) < 2:
        return None, -1
    return int(steps[first]), int(steps[-1])


def _norms_part(start: LastStart, ranks: tuple[int, int], after: int | None, until: int) -> int:
    """The first step between two checks at which the norms of all gradients differ, which every step has."""
    series = [start.read(rank, "total_norm/gradients") for rank in ranks]
    steps, differ = _compared(*series)
    between = steps[differ & (steps < until) & (steps > (-1 if after is None else after))]
    return int(between[0]) if len(between) else until


def _findings(start: LastStart, partings: list[Parting]) -> Iterator[Finding]:
    for kind, what in (("gradient", "gradients_not_synchronized"), ("weight", "weights_out_of_step")):
        those = [one for one in partings if (one.gradients is not None) == (kind == "gradient")]
        if not those:
            continue
        first = min(those, key=lambda one: (one.gradients if one.gradients is not None else one.weights or 0, one.rank))
        step = first.gradients if first.gradients is not None else first.weights
        assert step is not None
        checked = max(step, first.weights or 0) if kind == "gradient" else step
        names, number = _differing(start, f"{PREFIX}{kind}_bits/", first, checked)
        parameter = names[0] if names else "the parameters"
        more = f" and {len(names) - 1} more of {number} parameters" if len(names) > 1 else f", of {number} parameters,"
        subject = f"the {kind}s of {parameter}{more} on {names_of(one.rank for one in those)}"
        evidence = f"{subject} are not those of rank {first.reference}"
        if kind == "gradient":
            wrapped = first.strategy == "ddp"
            evidence += f"; their weights differ by step {first.weights}" + (
                ": DistributedDataParallel was bypassed" if wrapped else ": nothing averages them over the ranks"
            )
        else:
            evidence += ", though the ranks' gradients are equal"
        evidence += "" if first.equal is None else f"; at step {first.equal} all weights were equal"
        yield rank_finding(what, parameter, step, first.last, evidence=evidence, rule=_RULE, value=float(first.rank))


def _differing(start: LastStart, group: str, parting: Parting, step: int) -> tuple[list[str], int]:
    """The parameters that differ at a step, in the model's order, and how many were compared."""
    found: list[dict[str, float]] = []
    for rank in (parting.reference, parting.rank):
        wanted = start.prefix + group
        names = [info.name for info in start.record.names(rank) if info.name.startswith(wanted)]
        series = start.record.many_scalars(names, rank)
        found.append(
            {
                name.removeprefix(wanted): float(one.values[one.steps == step][-1])
                for name, one in series.items()
                if (one.steps == step).any()
            }
        )
    theirs, ours = found
    both = theirs.keys() & ours.keys()
    order = {name: place for place, name in enumerate(start.facts[parting.rank].parameters)}
    differing = sorted((name for name in both if theirs[name] != ours[name]), key=lambda name: order.get(name, 0))
    return differing, len(both)
