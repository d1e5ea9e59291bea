"""Gradients that grow too much: over the steps, and from the last layer back to the first."""

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from debuggers.detectors import ExplodingGradient, Finding
from debuggers.detectors.observation import Floats
from debuggers.gradients.depth import DepthFlow

MAX_GROWTH_DECADES = 2.0
MIN_STEPS = 16
MIN_LAST_DECADES = 1.0
MAX_DEPTH_FACTOR = 1e4
_KIND = ExplodingGradient.kind
_STEPS_RULE = (
    "the robust slope of log10 norm over the held steps exceeds a factor of 100, from 16 steps on, and the median of "
    "the last 16 norms exceeds 10 (stepscope's choice)"
)
_DEPTH_RULE = (
    "norm over that of the last layer > 1e4, and so is the fitted growth over all layers, from three layers on "
    "(stepscope's choice)"
)


def growth_over_steps(
    names: Sequence[str], steps: npt.NDArray[np.int64], logs: Floats, slopes: Floats
) -> list[Finding]:
    """Returns a finding for each gradient whose norm grew more than a hundredfold over the history.

    This is what the spike test of ``ExplodingGradient`` cannot see: growth that was there from the first step on.
    Norms up to 10 are no explosion: many layers begin with a gradient of nearly zero.

    Args:
        names: Of the gradients.
        steps: int64 (steps,).
        logs: float64 (steps, names): log10 of the norms; NaN where there is none.
        slopes: float64 (names,): their robust slopes over the steps.
    """
    growth = slopes * (np.ptp(steps) if len(steps) else 0)
    points = np.isfinite(logs).sum(axis=0)
    found = []
    for row in np.flatnonzero((growth > MAX_GROWTH_DECADES) & (points >= MIN_STEPS)).tolist():
        held = steps[np.isfinite(logs[:, row])]
        if np.median(logs[np.isfinite(logs[:, row]), row][-MIN_STEPS:]) <= MIN_LAST_DECADES:
            continue
        factor = float(10.0 ** min(growth[row], 300.0))
        limit = 10.0**MAX_GROWTH_DECADES
        evidence = f"the norm grew by a factor of {factor:.3g}, more than {limit:g}"
        found.append(
            Finding.going_on(
                _KIND, names[row], held, evidence=evidence, rule=_STEPS_RULE, value=factor, threshold=limit
            )
        )
    return found


def growth_over_depth(depth: DepthFlow | None, steps: npt.NDArray[np.int64]) -> list[Finding]:
    """Returns a finding for each layer whose gradient is more than 1e4 times that of the last layer."""
    if depth is None or len(depth.layers) < 3:
        return []
    places = len(depth.layers) - 1
    if not places * np.log10(depth.factor_per_layer) > np.log10(MAX_DEPTH_FACTOR):
        return []
    last_layer, last_norm = depth.layers[-1], depth.norms[-1]
    found = []
    for layer, norm in zip(depth.layers, depth.norms, strict=True):
        factor = norm / last_norm
        if factor > MAX_DEPTH_FACTOR:
            limit = MAX_DEPTH_FACTOR
            evidence = f"norm {norm:.3g} is {factor:.3g} times that of {last_layer}, more than {limit:g}"
            found.append(
                Finding.going_on(
                    _KIND, layer, steps, evidence=evidence, rule=_DEPTH_RULE, value=factor, threshold=limit
                )
            )
    return found
