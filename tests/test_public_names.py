"""The public names of each package, and what importing it does not import."""

import ast
import importlib
import re
import subprocess
import sys
import textwrap
from importlib.util import find_spec

import pytest
from source_imports import HOMES, ROOT, parsed


def public_names():
    """The table of public names in docs/architecture.md: the names of each module."""
    page = (ROOT / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## Public names\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", section, re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


PUBLIC = public_names()
DOCUMENTED = {
    "debuggers.activation_stats": ["ActivationStatsDebugger"],
    "debuggers.attention": ["AttentionDebugger"],
    "debuggers.attention_rollout": ["attention_rollout"],
    "debuggers.base_debugger": ["BaseDebugger", "Picture"],
    "debuggers.debug_outputs": ["load_debug_outputs"],
    "debuggers.eigencam": ["EigenCAMDebugger"],
    "debuggers.failed_datapoints": ["failures"],
    "debuggers.detectors": ["SignalDetector"],
    "debuggers.detectors.narrow_range": [],
    "debuggers.detectors.signals.front": [],
    "debuggers.feature_map": ["FeatureMapDebugger"],
    "debuggers.forward_debugger": ["ForwardDebugger"],
    "debuggers.gradcam": ["GradCAMDebugger"],
    "debuggers.gradcam_plus_plus": ["GradCAMPlusPlusDebugger"],
    "debuggers.integration": ["after_epoch", "before_epoch", "checkpoint_indices"],
    "debuggers.layer_output": ["LayerOutputDebugger"],
    "debuggers.page_comparison": ["compare_pages"],
    "debuggers.pages": ["PageError", "PageReader", "load_page"],
    "debuggers.wrappers": ["SequentialDebugger"],
    "debuggers.wrappers.sequential_debugger": ["SequentialDebugger"],
    "stability.clipping.config": ["ClippingType"],
    "stability.handling.config": ["HandlingType"],
    "stability.plots": ["anomalies", "gradient_norms", "stability_history"],
    "tracker_adapters.testing.contract": ["Shown", "SinkContract", "pixel_digest"],
    "stepscope.compat.tensorboard": ["SummaryWriter"],
    "stepscope.compat.wandb": [],
    "stepscope.integrations.accelerate": ["watch"],
    "stepscope.integrations.ignite": ["StepscopeLogger"],
    "stepscope.integrations.keras": ["StepscopeCallback"],
    "stepscope.integrations.lightning": ["StepscopeCallback"],
    "stepscope.integrations.mmengine": ["StepscopeHook"],
    "stepscope.integrations.ray": ["report", "watched"],
    "stepscope.integrations.torch_profiler": ["trace_handler"],
    "stepscope.integrations.transformers": ["StepscopeCallback"],
    "stepscope.viewer.answers.table": ["answer"],
    "stepscope.viewer.dash_section": ["display_debug_outputs"],
    "stepscope.viewer.watched_runs": ["RunList"],
}
"""What users import from further modules: what the README, the documentation and the examples name, beside PUBLIC."""
NO_PATHS = {
    "stepscope.debuggers",
    "stepscope.detectors",
    "stepscope.infinity",
    "stepscope.runs.forecast",
    "stepscope.sinks",
    "stepscope.verdict",
}
"""Groups of entry points, tags and a logger."""
HEAVY = ("torch", "tensorboard", "mlflow", "wandb", "matplotlib")


def run_python(code):
    return subprocess.run(
        [sys.executable, "-c", code], check=True, capture_output=True, text=True, timeout=60
    ).stdout.strip()


@pytest.mark.parametrize("module", PUBLIC)
def test_a_module_offers_exactly_its_public_names(module):
    loaded = importlib.import_module(module)

    assert sorted(PUBLIC[module]) == sorted(loaded.__all__)
    if module in HOMES:
        assert sorted(PUBLIC[module]) == [name for name in dir(loaded) if not name.startswith("__")]
    for name in PUBLIC[module]:
        assert getattr(loaded, name) is not None


def test_the_pages_and_examples_name_public_paths_only_and_all_that_are_documented():
    pages = [ROOT / "README.md", ROOT / "CONTRIBUTING.md", *(ROOT / "docs").rglob("*.md")]
    named = {path for page in pages for path in paths_of_page(page.read_text(encoding="utf-8"))}
    named |= {path for script in (ROOT / "examples").rglob("*.py") for path in paths_of_code(script.read_text())}
    modules = PUBLIC.keys() | DOCUMENTED.keys()
    public = {f"{module}.{name}" for module in PUBLIC for name in PUBLIC[module]}
    documented = {f"{module}.{name}" for module in DOCUMENTED for name in DOCUMENTED[module]}
    assert sorted(documented - named) == []
    assert sorted(named - modules - public - documented - NO_PATHS) == []


INTEGRATIONS = "stepscope.integrations."


def is_there(module, name):
    return getattr(importlib.import_module(module), name) is not None


def test_what_is_documented_is_there():
    for module, names in DOCUMENTED.items():
        assert module.startswith(INTEGRATIONS) or all(is_there(module, name) for name in names)


@pytest.mark.framework
def test_what_is_documented_of_frameworks_is_there():
    for module, names in DOCUMENTED.items():
        if module.startswith(INTEGRATIONS) and (module != "stepscope.integrations.ray" or find_spec("ray")):
            assert all(is_there(module, name) for name in names)


def paths_of_page(text):
    """The dotted paths of our packages in a page's Python code and between backticks."""
    for block in re.findall(r"^ *```python\n(.*?)^ *```", text, re.MULTILINE | re.DOTALL):
        yield from paths_of_code(textwrap.dedent(block))
    for path in re.findall(r"`([a-z_]+(?:\.\w+)+)[`(]", text):
        if path.partition(".")[0] in HOMES and not path.endswith((".md", ".toml")):
            yield path


def paths_of_code(code):
    """What code imports from our packages, and what it reads of them by a dot."""
    nodes = list(ast.walk(parsed(code)))
    imported = {alias.name for node in nodes if isinstance(node, ast.Import) for alias in node.names} & set(HOMES)
    for node in nodes:
        if isinstance(node, ast.ImportFrom) and node.module and node.module.partition(".")[0] in HOMES:
            yield from (f"{node.module}.{alias.name}" for alias in node.names)
        elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in imported:
            yield f"{node.value.id}.{node.attr}"


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
        told = run_python(f"{without_torch}\n{use}")
        assert told.startswith("MissingPackageError this part of stepscope needs torch")
        assert "stepscope[torch]" in told
