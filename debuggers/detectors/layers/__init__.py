"""Rules about signals of many tensors, each with one number a parameter or layer and step."""

from debuggers.detectors.detector import Detector
from debuggers.detectors.layers.all_zero import AllZero
from debuggers.detectors.layers.dead_layer import DeadLayer
from debuggers.detectors.layers.gradient_zeros import GradientZeros
from debuggers.detectors.layers.initialization import LargeWeights, UnequalVariances
from debuggers.detectors.layers.saturated_units import SaturatedUnits
from debuggers.detectors.layers.unchanged_weights import UnchangedWeights
from debuggers.detectors.layers.variance_bounds import VarianceBounds

__all__ = [
    "AllZero",
    "DeadLayer",
    "GradientZeros",
    "LargeWeights",
    "SaturatedUnits",
    "UnchangedWeights",
    "UnequalVariances",
    "VarianceBounds",
    "layer_detectors",
]


def layer_detectors() -> list[Detector]:
    """Returns the rules that are always on, with no step seen; each needs one signal."""
    return [
        AllZero(),
        DeadLayer(),
        GradientZeros(),
        LargeWeights(),
        SaturatedUnits(),
        UnchangedWeights(),
        UnequalVariances(),
    ]
