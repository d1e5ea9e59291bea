"""The public names of each package, and what importing it does not import."""

import importlib
import subprocess
import sys

import pytest

PUBLIC = {
    "stepscope": [
        "ArtifactError",
        "ConfigError",
        "DamagedError",
        "DebugConfig",
        "DebugReport",
        "DebugSession",
        "DeliveryError",
        "ExportError",
        "ImportingError",
        "MissingPackageError",
        "NotARunError",
        "QueryError",
        "Run",
        "RunBusyError",
        "RunError",
        "RunExistsError",
        "RunRecord",
        "RunStats",
        "Schedule",
        "SessionError",
        "SinkConfigError",
        "SinkStats",
        "StepscopeError",
        "UnsafeFileError",
        "debug_session",
        "export_runs",
        "fetch_run",
        "import_runs",
        "open_run",
        "query_runs",
        "read_run",
        "sync_runs",
        "watch",
    ],
    "tracker_adapters.artifacts": [
        "KINDS",
        "MAX_NAME_LENGTH",
        "MAX_STEP",
        "Alert",
        "AlertLevel",
        "Artifact",
        "Cell",
        "File",
        "Histogram",
        "Image",
        "Page",
        "PageEntry",
        "RunInfo",
        "RunStatus",
        "Scalar",
        "Table",
        "Text",
        "check_name",
        "check_step",
        "sha256_of",
    ],
    "tracker_adapters.sink": [
        "Batch",
        "Column",
        "HistogramColumns",
        "HistogramRows",
        "NO_ROOM",
        "RunInfo",
        "RunStatus",
        "SCRIPT_VARIABLE",
        "ScalarColumns",
        "Sink",
        "SinkConfigError",
        "SinkError",
        "SinkUnavailable",
        "StartOver",
        "Unshown",
        "checked_options",
        "local_folder",
        "redact",
    ],
    "tracker_adapters.emitter": ["Deferred", "Emitter", "PendingArray", "Recorder", "ScalarRow"],
    "tracker_adapters.testing": [
        "FailingSink",
        "MemoryEmitter",
        "MemoryRecorder",
        "MemorySink",
        "RefusingSink",
        "StalledSink",
    ],
    "debuggers": [
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
        "LayerNotFoundError",
        "LayerOutputDebugger",
        "PageError",
        "PageReader",
        "Picture",
        "SequentialDebugger",
        "TensorInspector",
        "TensorSummary",
        "compare_pages",
        "failures",
        "load_debug_outputs",
        "load_page",
        "summarize",
    ],
    "stability": [
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
    ],
}
HEAVY = ("torch", "tensorboard", "mlflow", "wandb", "matplotlib")


def run_python(code: str) -> str:
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


@pytest.mark.parametrize("module", PUBLIC)
def test_a_module_offers_exactly_its_public_names(module):
    loaded = importlib.import_module(module)

    assert sorted(PUBLIC[module]) == sorted(loaded.__all__)
    for name in PUBLIC[module]:
        assert getattr(loaded, name) is not None


def test_what_is_raised_on_purpose_has_one_base_class():
    for module in ("stepscope", "debuggers", "stability"):
        for name in PUBLIC[module]:
            found = getattr(importlib.import_module(module), name)
            if isinstance(found, type) and issubclass(found, BaseException):
                assert issubclass(found, importlib.import_module("stepscope").StepscopeError), name


def test_importing_the_packages_imports_neither_torch_nor_a_tracker():
    modules = "debuggers, stability, tracker_adapters.artifacts, tracker_adapters.emitter, tracker_adapters.registry"

    assert run_python(f"import sys, {modules}; print([name for name in {HEAVY} if name in sys.modules])") == "[]"


def test_configurations_work_without_torch_and_the_rest_names_the_extra():
    without_torch = "import sys; sys.modules['torch'] = None; import stability; "

    assert run_python(without_torch + "print(stability.GradientClippingConfig().max_norm)") == "1.0"
    for name in ("NumericalStabilityManager", "create_training_wrapper"):
        use = f"try: stability.{name}\nexcept ImportError as error: print(type(error).__name__, error)"
        assert run_python(f"{without_torch}\n{use}").startswith(
            "MissingPackageError this part of stepscope needs torch"
        )
        assert "stepscope[torch]" in run_python(f"{without_torch}\n{use}")
