"""Numerical stability: norms, clipping and the naming of what is not finite, in one pass over the gradients.

Importing this package imports no torch; the configurations work without it, everything else needs
``stepscope[torch]``.
"""

from typing import TYPE_CHECKING

from tracker_adapters.last_resort import add_last_resort
from tracker_adapters.names_on_demand import names_on_demand

if TYPE_CHECKING:
    from debuggers.first_nan.finder import FirstNaNFinder
    from stability.clipping.config import GradientClippingConfig
    from stability.debugging.config import PyTorchDebuggingConfig
    from stability.debugging.manager import PyTorchDebuggingManager
    from stability.errors import AutogradAnomalyError, StabilityConfigError, StabilityError
    from stability.handling.config import NaNHandlingConfig
    from stability.monitoring.learned_detector import LearnedDetector
    from stability.numerical_stability import NumericalStabilityManager
    from stability.recovery.config import RecoveryConfig
    from stability.recovery.excluded_datapoints import RecoverySampler
    from stability.recovery.recovery import Recovery
    from stability.training_wrapper import create_training_wrapper

_HOMES = {
    "AutogradAnomalyError": "stability.errors",
    "FirstNaNFinder": "debuggers.first_nan.finder",
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
    "create_training_wrapper": "stability.training_wrapper",
}


add_last_resort(__name__)
__getattr__, __dir__ = names_on_demand(__name__, _HOMES)

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
    "create_training_wrapper",
]
