"""Gradients that are there and exactly zero, so that weights stay as they were drawn."""

import re

import numpy as np

from debuggers.diagnosis.derived.initial_weights import fresh_weights
from debuggers.diagnosis.evidence import Evidence
from debuggers.diagnosis.facts import Facts

_IN_A_LIST = re.compile(r"(\D)\.\d+\.(?=.+\.)")
FEWEST_SAMPLED = 10
"""Sampled steps from which gradients that have always been zero stay so."""
USUAL = 1e-8
"""Root mean square of a gradient above which it has not vanished on its way: float32 goes down to 1e-38."""
MOST = 0.5
"""Share of the sampled steps at which outputs vary, from which they do."""
VARIES = 1e-6
"""Share of its size by which what a layer puts out differs from row to row, above rounding."""


def cut_by_zeros(evidence: Evidence) -> list[str]:
    """The first weights of a model, as they were drawn, whose gradients are zero at each sampled step; else [].

    What they put out differs from row to row, as does what the layer behind them puts out, whose own gradient is of
    usual size: a function without slope stands between them, such as a sign or a rounding, or a hook. Gradients that
    vanish are tiny first, and zero in float16; those of dead units stand before outputs that do not vary. One of
    several experts that are made alike may be chosen for no row.
    """
    facts = evidence.facts
    if facts.mixed_precision == "float16" or any(one.dtype == "float16" for one in facts.parameters):
        return []
    places = {layer: place for place, layer in enumerate(facts.called or [layer.name for layer in facts.layers])}
    gradients = {
        name: series.values
        for name, series in evidence.of_tensors("gradient_rms").items()
        if name.rpartition(".")[0] in places and len(series) >= FEWEST_SAMPLED and _is_matrix(facts, name)
    }
    zero = [name for name, values in gradients.items() if not values.any()]
    others = {name: places[name.rpartition(".")[0]] for name in gradients if name not in zero}
    if not zero or not others or not set(zero) <= set(fresh_weights(evidence, "trained")):
        return []
    if {_of_any_number(name) for name in zero} & {_of_any_number(name) for name in others} - {""}:
        return []
    behind = min(others, key=lambda name: others[name])
    comes_first = max(places[name.rpartition(".")[0]] for name in zero) < others[behind]
    arrives = float(np.median(gradients[behind])) > USUAL
    layers = [name.rpartition(".")[0] for name in (*zero, behind)]
    return zero if comes_first and arrives and all(_varies(evidence, layer) for layer in layers) else []


def _of_any_number(name: str) -> str:
    """The name without the numbers behind the name of a list, such as ``experts.#.0.weight``; "" without one."""
    found = _IN_A_LIST.sub(r"\1.#.", name)
    return found if found != name else ""


def _is_matrix(facts: Facts, name: str) -> bool:
    return any(one.name == name and len(one.shape) > 1 for one in facts.parameters)


def _varies(evidence: Evidence, layer: str) -> bool:
    """Whether what a layer puts out differs from row to row at most sampled steps."""
    spread, deviation = (evidence.of_tensors(name).get(layer) for name in ("output_batch_std", "output_std"))
    if spread is None or deviation is None or not len(spread) or len(spread) != len(deviation):
        return False
    return float(np.mean(spread.values > VARIES * deviation.values)) > MOST
