"""The ways of clipping by their names."""

from stability.clipping.base import Clipped, Clipper
from stability.clipping.by_norm import (
    AdaptiveClipper,
    ExponentialClipper,
    GlobalNormClipper,
    LayerWiseClipper,
    NoClipper,
    NormClipper,
)
from stability.clipping.by_unit import UnitClipper
from stability.clipping.by_value import PercentileClipper, ValueClipper
from stability.clipping.config import ClippingType, GradientClippingConfig
from stability.config_checks import check_config

__all__ = ["Clipped", "Clipper", "make_clipper"]

_CLIPPERS: dict[ClippingType, type[Clipper]] = {
    "norm": NormClipper,
    "none": NoClipper,
    "value": ValueClipper,
    "global_norm": GlobalNormClipper,
    "adaptive": AdaptiveClipper,
    "layer_wise": LayerWiseClipper,
    "percentile": PercentileClipper,
    "exponential": ExponentialClipper,
    "agc": UnitClipper,
}


def make_clipper(config: GradientClippingConfig) -> Clipper:
    """Returns a clipper of the configuration's type, for one training loop.

    With g all gradients, n their norm, and t the threshold of a step:

    - ``norm``: g times ``min(1, max_norm / (n + 1e-6))``; ``none``: g.
    - ``value``: each element within ``[-clip_value, clip_value]``.
    - ``global_norm``: g times ``max_norm / max(n, max_norm)``, n Euclidean and summed in float64.
    - ``adaptive``: as ``norm``, to t = ``adaptive_factor`` times the mean of the last 10 norms.
    - ``exponential``: as ``norm``, to t = ``max(exponential_floor, exponential_factor * average)``.
    - ``layer_wise``: each parameter as ``norm``, to its own t.
    - ``percentile``: each element within ``[-t, t]``, t a percentile of all magnitudes.
    - ``agc``: each unit by the ratio of its norm to that of its weights.

    The classes say the rest.

    Raises:
        StabilityConfigError: When ``config`` is something else.
    """
    check_config("clipping_config", config, GradientClippingConfig)
    return _CLIPPERS[config.clipping_type](config)
