"""Rules about scalar signals of a training, and the front that hands signals to all rules."""

from debuggers.detectors.signal_detector import SignalDetector
from debuggers.detectors.signals.class_balance import ClassImbalance, OneClassPredicted
from debuggers.detectors.signals.loss_spike import LossSpike
from debuggers.detectors.signals.loss_trend import LossIncreasing, LossNotDecreasing
from debuggers.detectors.signals.memory_growth import MemoryGrowth
from debuggers.detectors.signals.non_finite_data import NonFiniteData
from debuggers.detectors.signals.off_centre_inputs import OffCentreInputs
from debuggers.detectors.signals.oscillation import OscillatingAccuracy, OscillatingGradient, OscillatingLoss
from debuggers.detectors.signals.overfitting import Overfitting, Overtraining
from debuggers.detectors.signals.step_time import DataLoadingBound, SlowStep, StalledTraining
from debuggers.detectors.signals.update_range import UnusualUpdate

__all__ = [
    "ClassImbalance",
    "DataLoadingBound",
    "LossIncreasing",
    "LossNotDecreasing",
    "LossSpike",
    "MemoryGrowth",
    "NonFiniteData",
    "OffCentreInputs",
    "OneClassPredicted",
    "OscillatingAccuracy",
    "OscillatingGradient",
    "OscillatingLoss",
    "Overfitting",
    "Overtraining",
    "SlowStep",
    "StalledTraining",
    "UnusualUpdate",
    "signal_detectors",
]


def signal_detectors() -> list[SignalDetector]:
    """Returns the rules that are always on, with no step seen."""
    return [
        ClassImbalance(),
        DataLoadingBound(),
        LossIncreasing(),
        LossNotDecreasing(),
        LossSpike(),
        MemoryGrowth(),
        NonFiniteData(),
        OffCentreInputs(),
        OneClassPredicted(),
        OscillatingAccuracy(),
        OscillatingGradient(),
        OscillatingLoss(),
        Overfitting(),
        Overtraining(),
        SlowStep(),
        StalledTraining(),
        UnusualUpdate(),
    ]
