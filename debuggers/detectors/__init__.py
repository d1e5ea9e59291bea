"""Detectors: one rule per file for a problem in a training run, with its formula and default."""

from collections.abc import Callable, Sequence

from debuggers.detectors.dead_units import DeadUnits
from debuggers.detectors.depth import ExplodingByDepth, Modules, VanishingByDepth
from debuggers.detectors.detector import Detector, Detectors
from debuggers.detectors.exploding_gradient import ExplodingGradient
from debuggers.detectors.finding import Finding, announce, merge_findings
from debuggers.detectors.narrow_range import Overflow, Underflow
from debuggers.detectors.non_finite import NonFiniteActivation, NonFiniteGradient, NonFiniteLoss
from debuggers.detectors.observation import Observation
from debuggers.detectors.signal_detector import SignalDetector
from debuggers.detectors.total_gradient import ExplodingTotal, NonFiniteTotal, ZeroTotal
from debuggers.detectors.update_ratio import LargeUpdate, SmallUpdate
from debuggers.detectors.vanishing_gradient import VanishingGradient
from debuggers.detectors.zero_gradient import ZeroGradient

__all__ = [
    "DeadUnits",
    "Detector",
    "Detectors",
    "ExplodingByDepth",
    "ExplodingGradient",
    "ExplodingTotal",
    "Finding",
    "LargeUpdate",
    "NonFiniteActivation",
    "NonFiniteGradient",
    "NonFiniteLoss",
    "NonFiniteTotal",
    "Observation",
    "Overflow",
    "SignalDetector",
    "SmallUpdate",
    "Underflow",
    "VanishingByDepth",
    "VanishingGradient",
    "ZeroGradient",
    "ZeroTotal",
    "activation_detectors",
    "announce",
    "gradient_detectors",
    "merge_findings",
    "total_detectors",
]


def gradient_detectors(
    noise: Callable[[int], float] = lambda step: 1.0,
    order: Callable[[], Sequence[str]] = lambda: (),
    unit: Callable[[], float] = lambda: 1.0,
) -> Detectors:
    """Returns the rules for gradients and updates, with no step seen.

    For ``noise`` and ``unit`` see ``ExplodingGradient``; ``order`` returns the names of modules in the order of their
    calls.
    """
    modules = Modules(order)
    return Detectors(
        [
            NonFiniteGradient(),
            ExplodingGradient(noise, unit),
            ExplodingByDepth(modules),
            VanishingGradient(),
            VanishingByDepth(modules),
            ZeroGradient(),
            SmallUpdate(),
            LargeUpdate(),
        ]
    )


def activation_detectors() -> Detectors:
    """Returns the rules for activations, with no step seen."""
    return Detectors([NonFiniteActivation(), DeadUnits()])


def total_detectors() -> Detectors:
    """Returns the rules for the norm of all gradients together, with no step seen."""
    return Detectors([NonFiniteTotal(), ExplodingTotal(), ZeroTotal()])
