"""What differs between two trainings: what they were told, and from which step on their signals part."""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import numpy as np

from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import BatchFacts, Facts
from debuggers.diagnosis.series import Series

BEYOND_NOISE = 6.0
"""Two values differ by more than noise if their distance is over so many times the typical change between steps."""
_FEWEST = 3
_OF_THE_MACHINE = frozenset({"step_ms", "data_share", "process_mb", "device_mb"})
"""Signals that differ between two runs of one training, too."""


@dataclass(frozen=True, slots=True)
class FactDifference:
    """A setting that differs, such as ``lr of group 0``, with its value in each training.

    A training without that setting has ``none``, and one that no session has observed ``not observed``.
    """

    name: str
    first: str
    second: str


@dataclass(frozen=True, slots=True, kw_only=True)
class SeriesDifference:
    """A signal that differs.

    Attributes:
        name: Of the signal; of tensors ``<signal>/<tensor>``.
        since_step: The first step known of both at which the values are not equal; NaN equals NaN.
        beyond_noise: The first at which they differ by more than six times the typical change from one step to the
            next, or one of them is not finite; None if they never do.
        first, second: The values at that step, or else at ``since_step``.
    """

    name: str
    since_step: int
    beyond_noise: int | None
    first: float
    second: float


@dataclass(frozen=True, slots=True)
class Comparison:
    """What differs between two trainings: settings, and signals with what parts first at the beginning."""

    facts: tuple[FactDifference, ...]
    series: tuple[SeriesDifference, ...]
    compared: int


def compare(first: Evidence, second: Evidence) -> Comparison:
    """Returns what differs between two trainings.

    Signals that both have at a common step are compared, except for those of times and memory.
    """
    facts = _settings(first.facts), _settings(second.facts)
    names = dict.fromkeys([*facts[0], *facts[1]])
    missing = ["none" if _is_observed(one.facts) else "not observed" for one in (first, second)]
    told = [
        FactDifference(name, *(one.get(name, absent) for one, absent in zip(facts, missing, strict=True)))
        for name in names
    ]
    ours, theirs = _all_series(first), _all_series(second)
    common = [name for name in ours if name in theirs and len(np.intersect1d(ours[name].steps, theirs[name].steps))]
    found = [found for name in common if (found := series_difference(name, ours[name], theirs[name])) is not None]
    return Comparison(tuple(one for one in told if one.first != one.second), tuple(in_order(found)), len(common))


def in_order(differences: Iterable[SeriesDifference]) -> list[SeriesDifference]:
    """Returns differences with what parts first, beyond noise, at the beginning."""
    return sorted(
        differences, key=lambda one: (one.beyond_noise is None, one.beyond_noise or one.since_step, one.since_step)
    )


def _is_observed(facts: Facts) -> bool:
    """Whether a session told them; what else a run holds tells no more than how many steps it has."""
    return bool(facts.model or facts.optimizer or facts.parameters or facts.groups)


def _settings(facts: Facts) -> dict[str, str]:
    values: dict[str, object] = {"steps": facts.steps or None, "error": facts.error}
    if _is_observed(facts):
        values |= {
            "model": facts.model,
            "parameters": sum(int(np.prod(one.shape, dtype=np.float64)) for one in facts.parameters),
            "optimizer": facts.optimizer,
            "scheduler": facts.scheduler,
            "mixed precision": facts.mixed_precision,
            "backward passes a step": facts.backward_passes,
            "ranks": facts.world_size,
            "clipping": facts.clips,
            "steps": facts.steps,
        }
    if facts.loss is not None:
        values |= {"loss": facts.loss.kind, "reduction of the loss": facts.loss.reduction}
    for name, batch in (("inputs", facts.inputs), ("outputs", facts.outputs), ("targets", facts.targets)):
        if isinstance(batch, BatchFacts):
            values[f"shape of {name}"], values[f"dtype of {name}"] = batch.shape, batch.dtype
    for number, group in enumerate(facts.groups):
        values |= {f"{key} of group {number}": value for key, value in group.settings.items()}
    for layer in facts.layers:
        values[f"layer {layer.name}"] = layer.kind if layer.value is None else f"{layer.kind} ({layer.value:g})"
    return {name: _text(value) for name, value in values.items() if value not in ("", None)}


def _text(value: object) -> str:
    """A setting as text; of a float twelve digits: the rounding of a schedule is no other setting."""
    return f"{value:.12g}" if isinstance(value, float) else str(value)


def _all_series(evidence: Evidence) -> dict[str, Series]:
    return dict(_named(evidence.series, evidence.tensors))


def _named(series: Mapping[str, Series], tensors: Mapping[str, Mapping[str, Series]]) -> Iterator[tuple[str, Series]]:
    yield from ((name, one) for name, one in series.items() if name not in _OF_THE_MACHINE)
    for signal, members in tensors.items():
        yield from ((f"{signal}/{tensor}", one) for tensor, one in members.items())


def series_difference(name: str, first: Series, second: Series) -> SeriesDifference | None:
    """Returns where two series part; None where they are equal at the steps that both have."""
    steps, ours, theirs = np.intersect1d(first.steps, second.steps, return_indices=True)
    a, b = first.values[ours], second.values[theirs]
    differ = ~((a == b) | (np.isnan(a) & np.isnan(b)))
    if not differ.any():
        return None
    with np.errstate(invalid="ignore", over="ignore"):
        far = np.abs(a - b) > BEYOND_NOISE * max(_noise(a), _noise(b))
    far = differ & (far | ~np.isfinite(a) | ~np.isfinite(b))
    start = int(np.argmax(differ))
    place = int(np.argmax(far)) if far.any() else start
    return SeriesDifference(
        name=name,
        since_step=int(steps[start]),
        beyond_noise=int(steps[place]) if far.any() else None,
        first=float(a[place]),
        second=float(b[place]),
    )


def _noise(values: np.ndarray[tuple[int], np.dtype[np.float64]]) -> float:
    """The typical change between neighbours, from its median."""
    finite = values[np.isfinite(values)]
    return float(np.median(np.abs(np.diff(finite)))) if len(finite) >= _FEWEST else 0.0
