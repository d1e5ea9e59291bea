"""Who may import whom, read from the source: ``stepscope -> stability -> debuggers -> tracker_adapters``."""

import ast
import re
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from tracker_adapters.registry import BUILT_IN

ROOT = Path(__file__).parents[1]
HOMES = {
    "tracker_adapters": ROOT / "adapters" / "tracker_adapters",
    "debuggers": ROOT / "debuggers",
    "stability": ROOT / "stability",
    "stepscope": ROOT / "stepscope",
}
LAYERS = list(HOMES)
SINKS = HOMES["tracker_adapters"] / "sinks"
TRACKERS = re.compile(r"tensorboard|mlflow|wandb|w&b|weights *& *biases", re.IGNORECASE)
CORE = {
    f"tracker_adapters.{module}" for module in ("artifacts", "errors", "own_process", "redaction", "safe_files", "sink")
}
CORE_PACKAGES = {"msgspec", "numpy", "PIL"} | sys.stdlib_module_names


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def module_name(path: Path) -> str:
    for package, folder in HOMES.items():
        if path.is_relative_to(folder):
            return ".".join([package, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")
    raise ValueError(path)


def imports(path: Path, *, at_import_time: bool = False) -> set[str]:
    """The modules that a file imports, in full; with ``at_import_time`` without those inside functions."""
    return {name for node in _nodes(ast.parse(path.read_text()), at_import_time) for name in _imported(path, node)}


def _nodes(tree: ast.AST, at_import_time: bool) -> Iterator[ast.AST]:
    for node in ast.iter_child_nodes(tree):
        if at_import_time and (
            isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda) or _is_typing(node)
        ):
            continue
        yield node
        yield from _nodes(node, at_import_time)


def _is_typing(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test) in ("TYPE_CHECKING", "typing.TYPE_CHECKING")


def _imported(path: Path, node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Import):
        yield from (alias.name for alias in node.names)
    elif isinstance(node, ast.ImportFrom):
        base = node.module or ""
        if node.level:
            package = module_name(path).split(".")
            if path.name != "__init__.py":
                package = package[:-1]
            base = ".".join([*package[: len(package) - node.level + 1], *filter(None, [node.module])])
        for alias in node.names:
            # "from package import module" imports the module, "from module import name" the module before it.
            submodule = f"{base}.{alias.name}"
            yield submodule if _path_of(submodule) else base


def _path_of(module: str) -> Path | None:
    package, *rest = module.split(".")
    if package not in HOMES:
        return None
    place = HOMES[package].joinpath(*rest)
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)


def sink_of(module: str) -> str | None:
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
    sdk = set(BUILT_IN[own].packages) if own else set()

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
        path = _path_of(module)
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
