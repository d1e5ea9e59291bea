"""Who may import whom, read from the source: ``stepscope -> stability -> debuggers -> tracker_adapters``."""

import re
import sys

import pytest
from source_imports import HOMES, ROOT, files_of, imports, module_name, path_of
from tracker_adapters.registry import BUILT_IN

LAYERS = list(HOMES)
SINKS = HOMES["tracker_adapters"] / "sinks"
TRACKERS = re.compile(r"tensorboard|mlflow|wandb|w&b|weights *& *biases", re.IGNORECASE)
CORE = {
    f"tracker_adapters.{module}"
    for module in ("artifacts", "errors", "fork_safe", "redaction", "safe_files", "sink", "atomic_files")
} | {f"tracker_adapters.formats.{module}" for module in ("appended_file", "file_names", "protobuf", "tfrecords")}
BROUGHT = {"wandb": {"google"}}  # protobuf, which the sink's SDK needs
CORE_PACKAGES = {"msgspec", "numpy"} | sys.stdlib_module_names


def sink_of(module):
    """The sink that a module belongs to: ``local`` for ``tracker_adapters.sinks.local.files``."""
    match = re.match(r"tracker_adapters\.sinks\.(\w+)", module)
    return match and match[1]


def test_each_layer_imports_only_the_layers_below_it():
    for height, package in enumerate(LAYERS):
        for path in files_of(HOMES[package]):
            above = {name for name in imports(path) if name.partition(".")[0] in LAYERS[height + 1 :]}
            assert not above, f"{path.relative_to(ROOT)} imports {above}"


def test_the_adapters_never_import_torch():
    for path in files_of(HOMES["tracker_adapters"]):
        assert "torch" not in {name.partition(".")[0] for name in imports(path)}, path.relative_to(ROOT)


def test_nobody_imports_a_sink_but_its_own_files():
    for folder in HOMES.values():
        for path in files_of(folder):
            own = sink_of(module_name(path))
            others = {name for name in imports(path) if sink_of(name) not in (None, own)}
            assert not others, f"{path.relative_to(ROOT)} imports {others}"


@pytest.mark.parametrize("path", files_of(SINKS), ids=lambda path: str(path.relative_to(SINKS)))
def test_a_sink_imports_the_artifacts_the_sink_contract_and_its_own_sdk(path):
    own = sink_of(module_name(path))
    sdk = {*BUILT_IN[own].packages, *BROUGHT.get(own, ())} if own else set()

    strange = {
        name
        for name in imports(path)
        if name not in CORE and sink_of(name) != own and name.partition(".")[0] not in CORE_PACKAGES | sdk
    }

    assert not strange


@pytest.mark.parametrize("sink", sorted(BUILT_IN))
def test_a_sink_can_be_loaded_without_its_sdk(sink):
    """From the module in the registry, along what is imported at import time, no SDK is reached."""
    waiting, seen = [BUILT_IN[sink].location.partition(":")[0]], set()
    while waiting:
        module = waiting.pop()
        path = path_of(module)
        if path is None or module in seen:
            continue
        seen.add(module)
        found = imports(path, at_import_time=True)
        sdk = {name for name in found if name.partition(".")[0] in BUILT_IN[sink].packages}
        assert not sdk, f"{path.relative_to(ROOT)} imports {sdk} outside of a function"
        waiting += found
    assert seen


def test_trackers_are_named_only_by_the_registry_and_their_sinks():
    """In code, strings, docstrings and comments alike."""
    registry = HOMES["tracker_adapters"] / "registry.py"
    for package in ("tracker_adapters", "debuggers", "stability"):
        for path in files_of(HOMES[package]):
            if path == registry or path.is_relative_to(SINKS):
                continue
            found = sorted(set(TRACKERS.findall(path.read_text())))
            assert not found, f"{path.relative_to(ROOT)} names {found}"
