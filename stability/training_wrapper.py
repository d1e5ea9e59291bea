"""The stability manager as one callable with its debug session."""

from typing import Any

from debuggers.torch_import import torch
from stability.clipping.config import GradientClippingConfig
from stability.debugging.config import PyTorchDebuggingConfig
from stability.handling.config import NaNHandlingConfig
from stability.numerical_stability import NumericalStabilityManager


def create_training_wrapper(
    clipping_config: GradientClippingConfig,
    nan_config: NaNHandlingConfig,
    debug_config: PyTorchDebuggingConfig | None = None,
    *,
    model: torch.nn.Module | None = None,
    **options: Any,
) -> NumericalStabilityManager:
    """Returns a new manager to call after ``backward`` and before ``optimizer.step()``.

    With a debug configuration its session starts at once. As a context manager it ends the session.

    Args:
        clipping_config: How gradients are clipped.
        nan_config: What happens when something is not finite.
        debug_config: What the debug session collects; None for no session.
        model: Its buffers are kept at once: see ``NumericalStabilityManager.keep_buffers``.
        options: The keyword arguments of ``NumericalStabilityManager``, such as ``emitter`` and ``scaler``.
    """
    manager = NumericalStabilityManager(clipping_config, nan_config, debug_config, **options)
    if model is not None:
        manager.keep_buffers(model)
    if debug_config is not None:
        manager.start_debug_session("training")
    return manager
