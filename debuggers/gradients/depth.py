"""Gradient flow: norms by module, and how they change from the last layer to the first."""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate

import numpy as np

from debuggers.detectors.call_order import places_in
from debuggers.detectors.observation import Floats
from debuggers.gradients.trend import log_norms, robust_slopes


@dataclass(frozen=True, slots=True, kw_only=True)
class ModuleFlow:
    """The gradients of a module with everything below it.

    Attributes:
        path: The dotted path; the empty one is the whole model.
        tensors: Gradients that belong to it.
        last_norm: Euclidean norm of all of them at the last step that measured one; NaN if there is none.
        mean_norm: Mean of that norm over the steps that measured one.
    """

    path: str
    tensors: int
    last_norm: float
    mean_norm: float


@dataclass(frozen=True, slots=True, kw_only=True)
class DepthFlow:
    """Gradient norms along the layers, in the order of their calls, or of the model's definition where none is known.

    Attributes:
        layers: Modules that hold parameters themselves and had a gradient above zero.
        norms: The median over the steps of the norm of each layer's own parameters.
        first_to_last: Norm of the first layer over that of the last: near 1 is ideal, below 1 gradients shrink on
            their way back to the input, above they grow.
        factor_per_layer: What a norm is multiplied by from a layer to the one before it: ``10 ** -slope``, with the
            slope of log10 norm over the layer's place by ``robust_slopes``.
    """

    layers: tuple[str, ...]
    norms: tuple[float, ...]
    first_to_last: float
    factor_per_layer: float


def module_flows(names: Sequence[str], norms: Floats) -> tuple[ModuleFlow, ...]:
    """Returns the flow of every module on the way from the whole model to each parameter, in order of appearance.

    Args:
        names: Of the gradients.
        norms: float64 (steps, names); NaN where one was not measured.
    """
    members: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        for path in ("", *accumulate(name.split(".")[:-1], "{}.{}".format)):
            members.setdefault(path, []).append(row)
    flows = []
    for path, rows in members.items():
        together = _norm_of_all(norms[:, rows])
        measured = together[~np.isnan(together)]
        last, mean = (measured[-1], measured.mean()) if measured.size else (np.nan, np.nan)
        flows.append(ModuleFlow(path=path, tensors=len(rows), last_norm=float(last), mean_norm=float(mean)))
    return tuple(flows)


def depth_flow(names: Sequence[str], norms: Floats, order: Sequence[str] = ()) -> DepthFlow | None:
    """Returns the flow through depth, or None with fewer than two layers.

    Args:
        names: As in ``module_flows``.
        norms: As in ``module_flows``.
        order: The modules in the order of their calls; where one is not among them, layers stand as they appeared.
    """
    members: dict[str, list[int]] = {}
    for row, name in enumerate(names):
        members.setdefault(name.rpartition(".")[0] or name, []).append(row)
    medians = {layer: _median(_norm_of_all(norms[:, rows])) for layer, rows in members.items()}
    alive = {layer: median for layer, median in medians.items() if 0 < median < np.inf}
    if len(alive) < 2:
        return None
    if (places := places_in(order, list(alive))) is not None:
        ordered = sorted(zip(places, alive, strict=True), key=lambda pair: pair[0])
        alive = {layer: alive[layer] for _, layer in ordered}
    values = np.array(list(alive.values()))
    slope = robust_slopes(np.arange(len(values)), log_norms(values)[:, np.newaxis], min_pairs=1)[0]
    with np.errstate(over="ignore"):
        return DepthFlow(
            layers=tuple(alive),
            norms=tuple(values.tolist()),
            first_to_last=float(values[0] / values[-1]),
            factor_per_layer=float(np.power(10.0, -slope)),
        )


def _norm_of_all(norms: Floats) -> Floats:
    """The norm of several tensors at each step; NaN where none was measured."""
    with np.errstate(over="ignore"):
        together: Floats = np.sqrt(np.nansum(np.square(norms), axis=1))
    together[np.isnan(norms).all(axis=1)] = np.nan
    return together


def _median(values: Floats) -> float:
    measured = values[~np.isnan(values)]
    return float(np.median(measured)) if measured.size else float("nan")
