"""The exceptions that a caller of the stability system can meet."""

from tracker_adapters.errors import StepscopeError


class StabilityConfigError(StepscopeError, ValueError):
    """A value of a stability configuration is wrong or not available; the message says what is allowed."""


class StabilityError(StepscopeError, ValueError):
    """A step was called with a loss, model, gradient or session that it cannot work with."""


class AutogradAnomalyError(StepscopeError, RuntimeError):
    """A loss or gradient is not finite, and ``autograd_anomaly_mode="raise"`` asked to stop the run."""
