"""Which statistics of many tensors a run has: by the names of its scalars, and from its histograms."""

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from tracker_adapters.store.reading.series_reader import NameInfo

from debuggers.detectors.narrow_range import NARROW_DTYPES
from debuggers.diagnosis.facts import Facts
from debuggers.diagnosis.signals import OF_LAYERS, OF_PARAMETERS, PREFIX

_MEASURED = re.compile(r"(?:(?:gradient|weight|update|activation|activation_gradient|optimizer_\w+)_\w+|update_ratio)/")
"""How scalars of single tensors begin that a session emits; see ``debuggers.measurement.series_names``."""
_GROUPS = re.compile(r"(?:gradients|weights|updates|activations|activation_gradients|optimizer/\w+)/")
_NUMBERS = re.compile(r"(\d+)")
_TITLES: Final[Mapping[str, str]] = {
    "gradient_norm": "Euclidean norm of the gradient",
    "weight_norm": "Euclidean norm of the weights",
    "update_norm": "Euclidean norm of the update",
    "update_ratio": "update ratio: norm of the update over norm of the weights",
    "activation_norm": "Euclidean norm of the output",
    "activation_zero_fraction": "share of zeros in the output",
    "activation_gradient_norm": "Euclidean norm of the output's gradient",
    "activation_gradient_zero_fraction": "share of zeros in the output's gradient",
    **{f"{PREFIX}{signal.name}": signal.meaning for signal in (*OF_PARAMETERS, *OF_LAYERS)},
}
_SHARES = ("zero_fraction", "zeros", "dead_units", "saturated", "unit_similarity")
"""How the last part of a name ends whose values go from 0 to 1."""
_LINEAR = ("mean",)


@dataclass(frozen=True, slots=True)
class Statistic:
    """One number of many tensors over the steps.

    Attributes:
        key: What addresses name it by.
        title: What it is, in words.
        section: What lists group it under.
        scale: How a heat map shows it at first: ``log``, ``linear``, or ``share`` for values from 0 to 1.
        names: The stored name of each tensor's series, by tensor, in the model's order.
        points: How many values or histograms are stored.
        measure: Of histograms, what is computed of each; see ``histogram_measures``. Empty for a scalar.
    """

    key: str
    title: str
    section: str
    scale: str
    names: Mapping[str, str]
    points: int
    measure: str = ""


@dataclass(slots=True)
class _Found:
    names: dict[str, str] = field(default_factory=dict)
    points: int = 0


def statistics_of(names: Sequence[NameInfo], facts: Facts, scope: str = "") -> dict[str, Statistic]:
    """Returns the statistics that a session has left, by key, those of gradients first.

    A scalar is one of a tensor's if it is named ``<statistic>/<tensor>``, where the tensor is known from the facts or
    from what sessions emit; so the caller's own scalars of that form are found too.

    Args:
        names: All names of the rank.
        facts: What the run knows of its model.
        scope: The session's scope.
    """
    prefix = f"{scope}/" if scope else ""
    inside = [(info.name.removeprefix(prefix), info) for info in names if info.name.startswith(prefix)]
    known = {one.name for one in facts.parameters} | {one.name for one in facts.layers}
    signals = tuple(f"{PREFIX}{one.name}/" for one in (*OF_PARAMETERS, *OF_LAYERS))
    scalars, histograms = dict[str, _Found](), dict[str, _Found]()
    unclear = []
    for name, info in inside:
        begin = _begin(name, signals) if info.kind == "scalar" else _GROUPS.match(name)
        length = begin if isinstance(begin, int) else begin.end() if begin else 0
        if info.kind in ("scalar", "histogram") and length:
            _put(scalars if info.kind == "scalar" else histograms, name, length, info)
            known.add(name[length:])
        elif info.kind in ("scalar", "histogram"):
            unclear.append((name, info))
    for name, info in unclear:
        for place in (found.end() for found in re.finditer("/", name)):
            if name[place:] in known:
                _put(scalars if info.kind == "scalar" else histograms, name, place, info)
                break
    order = _places([one.name for one in facts.parameters], [one.name for one in facts.layers])
    listed = [_of_scalars(key, found, order) for key, found in scalars.items()]
    for group, found in histograms.items():
        listed += _of_histograms(group, found, order)
    return {one.key: one for one in sorted(listed, key=_rank)}


def histogram_measures() -> dict[str, str]:
    """Returns what can be computed of a histogram, with its title."""
    shares = {"zeros": "share of zeros", "non_finite": "share of NaN and infinities"}
    for dtype in NARROW_DTYPES:
        shares[f"flushed_{dtype}"] = f"share that {dtype} would flush to zero (underflow)"
        shares[f"saturated_{dtype}"] = f"share that {dtype} would saturate (overflow)"
    return {**shares, "largest": "largest magnitude", "std": "standard deviation", "mean": "mean"}


def _begin(name: str, signals: tuple[str, ...]) -> int:
    """How long the statistic in a scalar's name is, with its slash; 0 where it cannot be told."""
    if name.startswith(signals):
        return len(next(one for one in signals if name.startswith(one)))
    found = _MEASURED.match(name)
    return found.end() if found else 0


def _put(into: dict[str, _Found], name: str, length: int, info: NameInfo) -> None:
    found = into.setdefault(name[: length - 1], _Found())
    found.names[name[length:]] = info.name
    found.points += info.count


def _places(*orders: Iterable[str]) -> dict[str, int]:
    places: dict[str, int] = {}
    for order in orders:
        for name in order:
            places.setdefault(name, len(places))
    return places


def _in_order(names: Mapping[str, str], order: Mapping[str, int]) -> dict[str, str]:
    """In the model's order; what the facts do not tell follows, with its numbers in numerical order."""

    def place(tensor: str) -> tuple[int, list[tuple[int, str]]]:
        parts = [
            (int(part), "") if part.isdecimal() and len(part) < 10 else (-1, part) for part in _NUMBERS.split(tensor)
        ]
        return order.get(tensor, len(order)), parts

    return {tensor: names[tensor] for tensor in sorted(names, key=place)}


def _of_scalars(key: str, found: _Found, order: Mapping[str, int]) -> Statistic:
    last = key.rpartition("/")[2]
    scale = "share" if last.endswith(_SHARES) else "linear" if last.endswith(_LINEAR) else "log"
    section = "signals of the diagnosis" if key.startswith(PREFIX) else "measured at each step"
    return Statistic(key, _TITLES.get(key, key), section, scale, _in_order(found.names, order), found.points)


def _of_histograms(group: str, found: _Found, order: Mapping[str, int]) -> Iterable[Statistic]:
    names = _in_order(found.names, order)
    for measure, title in histogram_measures().items():
        scale = {"largest": "log", "std": "log", "mean": "linear"}.get(measure, "share")
        section = f"from the histograms of {group}"
        yield Statistic(f"{group}:{measure}", title, section, scale, names, found.points, measure)


def _rank(statistic: Statistic) -> tuple[bool, bool, bool]:
    return bool(statistic.measure), statistic.key.startswith(PREFIX), statistic.key != "gradient_norm"
