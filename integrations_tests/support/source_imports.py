"""Which modules each source file imports, read from its syntax tree."""

import ast
import gc
from collections.abc import Iterator
from functools import cache
from pathlib import Path

ROOT = Path(__file__).parents[2]
HOMES = {
    "tracker_adapters": ROOT / "adapters" / "tracker_adapters",
    "debuggers": ROOT / "debuggers",
    "stability": ROOT / "stability",
    "stepscope": ROOT / "stepscope",
}
"""The folder of each package, the lowest layer first."""


def files_of(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*.py"))


def module_name(path: Path) -> str:
    for package, folder in HOMES.items():
        if path.is_relative_to(folder):
            return ".".join([package, *path.relative_to(folder).with_suffix("").parts]).removesuffix(".__init__")
    raise ValueError(path)


def parsed(source: str) -> ast.Module:
    """The syntax tree of a source. No node of it is garbage yet, and to look for some takes longer than to parse."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        return ast.parse(source)
    finally:
        if was_enabled:
            gc.enable()


@cache
def imports(path: Path, *, at_import_time: bool = False) -> frozenset[str]:
    """The modules that a file imports, in full; with ``at_import_time`` without those inside functions."""
    nodes = _nodes(parsed(path.read_text()), at_import_time)
    return frozenset(name for node in nodes for name in _imported(path, node))


def _nodes(tree: ast.AST, at_import_time: bool) -> Iterator[ast.AST]:
    """Its statements, with those inside of others: no expression imports."""
    for node in ast.iter_child_nodes(tree):
        if not isinstance(node, ast.stmt | ast.ExceptHandler | ast.match_case):
            continue
        if at_import_time and (isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) or _is_typing(node)):
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
            yield submodule if path_of(submodule) else base


@cache
def path_of(module: str) -> Path | None:
    package, *rest = module.split(".")
    if package not in HOMES:
        return None
    place = HOMES[package].joinpath(*rest)
    return next((path for path in (place.with_suffix(".py"), place / "__init__.py") if path.is_file()), None)
