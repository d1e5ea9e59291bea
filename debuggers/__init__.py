"""Debuggers: what a model computes during training, layer by layer and datapoint by datapoint.

Importing this package does not import torch. Pages can be read without torch (``debuggers.pages``); everything that
inspects a model needs ``stepscope[torch]``.
"""

from typing import TYPE_CHECKING

from tracker_adapters.last_resort import add_last_resort
from tracker_adapters.names_on_demand import names_on_demand

if TYPE_CHECKING:
    from debuggers.activation_stats import ActivationStatsDebugger
    from debuggers.activations.monitor import ActivationMonitor
    from debuggers.attention import AttentionDebugger
    from debuggers.base_debugger import BaseDebugger, Picture
    from debuggers.conditional_hooks.builder import HookBuilder
    from debuggers.conditional_hooks.vocabulary import HookAction, HookTrigger
    from debuggers.debug_outputs import load_debug_outputs
    from debuggers.eigencam import EigenCAMDebugger
    from debuggers.errors import DebuggerConfigError, LayerNotFoundError, PageError
    from debuggers.failed_datapoints import failures
    from debuggers.feature_map import FeatureMapDebugger
    from debuggers.forward_debugger import ForwardDebugger
    from debuggers.gradcam import GradCAMDebugger
    from debuggers.gradcam_plus_plus import GradCAMPlusPlusDebugger
    from debuggers.gradients.debugger import GradientDebugger
    from debuggers.layer_output import LayerOutputDebugger
    from debuggers.measurement.measure import summarize
    from debuggers.measurement.tensor_summary import TensorSummary
    from debuggers.model_diagnostics.diagnostics import ModelDiagnostics
    from debuggers.model_diagnostics.records import ModelArchitectureInfo, ModelPerformanceMetrics
    from debuggers.page_comparison import compare_pages
    from debuggers.pages import PageReader, load_page
    from debuggers.profiling.profiler import PerformanceProfiler
    from debuggers.tensors.info import HealthLevel
    from debuggers.tensors.inspector import TensorInspector
    from debuggers.wrappers.sequential_debugger import SequentialDebugger

_HOMES = {
    "ActivationMonitor": "debuggers.activations.monitor",
    "ActivationStatsDebugger": "debuggers.activation_stats",
    "AttentionDebugger": "debuggers.attention",
    "BaseDebugger": "debuggers.base_debugger",
    "DebuggerConfigError": "debuggers.errors",
    "EigenCAMDebugger": "debuggers.eigencam",
    "FeatureMapDebugger": "debuggers.feature_map",
    "ForwardDebugger": "debuggers.forward_debugger",
    "GradCAMDebugger": "debuggers.gradcam",
    "GradCAMPlusPlusDebugger": "debuggers.gradcam_plus_plus",
    "GradientDebugger": "debuggers.gradients.debugger",
    "HealthLevel": "debuggers.tensors.info",
    "HookAction": "debuggers.conditional_hooks.vocabulary",
    "HookBuilder": "debuggers.conditional_hooks.builder",
    "HookTrigger": "debuggers.conditional_hooks.vocabulary",
    "LayerNotFoundError": "debuggers.errors",
    "LayerOutputDebugger": "debuggers.layer_output",
    "ModelArchitectureInfo": "debuggers.model_diagnostics.records",
    "ModelDiagnostics": "debuggers.model_diagnostics.diagnostics",
    "ModelPerformanceMetrics": "debuggers.model_diagnostics.records",
    "PageError": "debuggers.errors",
    "PageReader": "debuggers.pages",
    "PerformanceProfiler": "debuggers.profiling.profiler",
    "Picture": "debuggers.base_debugger",
    "SequentialDebugger": "debuggers.wrappers.sequential_debugger",
    "TensorInspector": "debuggers.tensors.inspector",
    "TensorSummary": "debuggers.measurement.tensor_summary",
    "compare_pages": "debuggers.page_comparison",
    "failures": "debuggers.failed_datapoints",
    "load_debug_outputs": "debuggers.debug_outputs",
    "load_page": "debuggers.pages",
    "summarize": "debuggers.measurement.measure",
}


add_last_resort(__name__)
__getattr__, __dir__ = names_on_demand(__name__, _HOMES)

__all__ = [
    "ActivationMonitor",
    "ActivationStatsDebugger",
    "AttentionDebugger",
    "BaseDebugger",
    "DebuggerConfigError",
    "EigenCAMDebugger",
    "FeatureMapDebugger",
    "ForwardDebugger",
    "GradCAMDebugger",
    "GradCAMPlusPlusDebugger",
    "GradientDebugger",
    "HealthLevel",
    "HookAction",
    "HookBuilder",
    "HookTrigger",
    "LayerNotFoundError",
    "LayerOutputDebugger",
    "ModelArchitectureInfo",
    "ModelDiagnostics",
    "ModelPerformanceMetrics",
    "PageError",
    "PageReader",
    "PerformanceProfiler",
    "Picture",
    "SequentialDebugger",
    "TensorInspector",
    "TensorSummary",
    "compare_pages",
    "failures",
    "load_debug_outputs",
    "load_page",
    "summarize",
]
