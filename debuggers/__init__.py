"""Debuggers: what a model computes, layer by layer and datapoint by datapoint, while it trains.

Importing this package imports no torch. Pages are read without it (``debuggers.pages``); everything that looks
at a model needs ``stepscope[torch]``.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from debuggers.activation_monitor import ActivationMonitor
    from debuggers.activation_stats import ActivationStatsDebugger
    from debuggers.base_debugger import BaseDebugger
    from debuggers.errors import DebuggerConfigError, LayerNotFoundError, PageError
    from debuggers.feature_map import FeatureMapDebugger
    from debuggers.forward_debugger import ForwardDebugger
    from debuggers.gradient_debugger import GradientDebugger
    from debuggers.measurement import summarize
    from debuggers.pages import PageReader, load_page
    from debuggers.tensor_info import HealthLevel
    from debuggers.tensor_inspector import TensorInspector
    from debuggers.tensor_summary import TensorSummary
    from debuggers.wrappers.sequential_debugger import SequentialDebugger

_HOMES = {
    "ActivationMonitor": "debuggers.activation_monitor",
    "ActivationStatsDebugger": "debuggers.activation_stats",
    "BaseDebugger": "debuggers.base_debugger",
    "DebuggerConfigError": "debuggers.errors",
    "FeatureMapDebugger": "debuggers.feature_map",
    "ForwardDebugger": "debuggers.forward_debugger",
    "GradientDebugger": "debuggers.gradient_debugger",
    "HealthLevel": "debuggers.tensor_info",
    "LayerNotFoundError": "debuggers.errors",
    "PageError": "debuggers.errors",
    "PageReader": "debuggers.pages",
    "SequentialDebugger": "debuggers.wrappers.sequential_debugger",
    "TensorInspector": "debuggers.tensor_inspector",
    "TensorSummary": "debuggers.tensor_summary",
    "load_page": "debuggers.pages",
    "summarize": "debuggers.measurement",
}


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOMES[name]), name)


__all__ = [
    "ActivationMonitor",
    "ActivationStatsDebugger",
    "BaseDebugger",
    "DebuggerConfigError",
    "FeatureMapDebugger",
    "ForwardDebugger",
    "GradientDebugger",
    "HealthLevel",
    "LayerNotFoundError",
    "PageError",
    "PageReader",
    "SequentialDebugger",
    "TensorInspector",
    "TensorSummary",
    "load_page",
    "summarize",
]
