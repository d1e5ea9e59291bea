"""Numerical stability: norms, clipping and the naming of what is not finite, in one pass over the gradients.

Importing this package imports no torch; the configurations work without it, everything else needs
``stepscope[torch]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from tracker_adapters.unheard_records import name_unheard_records

if TYPE_CHECKING:
    from stability.clipping.config import GradientClippingConfig
    from stability.debugging.config import PyTorchDebuggingConfig
    from stability.debugging.manager import PyTorchDebuggingManager
    from stability.errors import AutogradAnomalyError, StabilityConfigError, StabilityError
    from stability.first_nan.finder import FirstNaNFinder
    from stability.handling.config import NaNHandlingConfig
    from stability.monitoring.learned_detector import LearnedDetector
    from stability.numerical_stability import NumericalStabilityManager
    from stability.recovery.config import RecoveryConfig
    from stability.recovery.excluded_datapoints import RecoverySampler
    from stability.recovery.recovery import Recovery
    from stability.training_wrapper import TrainingWrapper, create_training_wrapper

_HOMES = {
    "AutogradAnomalyError": "stability.errors",
    "FirstNaNFinder": "stability.first_nan.finder",
    "GradientClippingConfig": "stability.clipping.config",
    "LearnedDetector": "stability.monitoring.learned_detector",
    "NaNHandlingConfig": "stability.handling.config",
    "NumericalStabilityManager": "stability.numerical_stability",
    "PyTorchDebuggingConfig": "stability.debugging.config",
    "PyTorchDebuggingManager": "stability.debugging.manager",
    "Recovery": "stability.recovery.recovery",
    "RecoveryConfig": "stability.recovery.config",
    "RecoverySampler": "stability.recovery.excluded_datapoints",
    "StabilityConfigError": "stability.errors",
    "StabilityError": "stability.errors",
    "TrainingWrapper": "stability.training_wrapper",
    "create_training_wrapper": "stability.training_wrapper",
}


name_unheard_records(__name__)


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "AutogradAnomalyError",
    "FirstNaNFinder",
    "GradientClippingConfig",
    "LearnedDetector",
    "NaNHandlingConfig",
    "NumericalStabilityManager",
    "PyTorchDebuggingConfig",
    "PyTorchDebuggingManager",
    "Recovery",
    "RecoveryConfig",
    "RecoverySampler",
    "StabilityConfigError",
    "StabilityError",
    "TrainingWrapper",
    "create_training_wrapper",
]
