"""Pages of the API reference: one for each module of the table of public names in docs/architecture.md.

What public functions and classes return is documented below them, although nobody imports it.
"""

import ast
import importlib
import inspect
import itertools
import re
import sys
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

OURS = ("stepscope", "debuggers", "stability", "tracker_adapters")
MEMBERS = ("   :members:", "   :inherited-members: object, int, str, tuple, dict, Mapping, Exception")


def public_names(root: Path) -> dict[str, list[str]]:
    """Returns the public names of each module, from the table in ``docs/architecture.md``."""
    page = (root / "docs" / "architecture.md").read_text(encoding="utf-8")
    section = page.partition("\n## Public names\n")[2].partition("\n## ")[0]
    rows = re.findall(r"^\| `([\w.]+)` \| (.+) \|$", section, re.MULTILINE)
    return {module: re.findall(r"`(\w+)`", names) for module, names in rows}


def write_reference(root: Path) -> None:
    """Writes ``docs/api/index.rst`` and a page for each module; what has not changed keeps its time.

    A class stands on the page of the first module that offers it; later pages repeat it without being linked to.
    """
    modules = {
        module: {name: getattr(importlib.import_module(module), name) for name in names}
        for module, names in public_names(root).items()
    }
    linked: list[object] = []
    results = [member for members in modules.values() for member in members.values() if inspect.isclass(member)]
    pages = {"index": [*headed("API reference"), ".. toctree::", "", *(f"   {module}" for module in modules)]}
    for module, members in modules.items():
        pages[module] = [*page(module, members, linked), *page_of_results(list(members.values()), results)]
    folder = root / "docs" / "api"
    folder.mkdir(exist_ok=True)
    for name, lines in pages.items():
        path, text = folder / f"{name}.rst", "\n".join(lines)
        if not path.is_file() or path.read_text(encoding="utf-8") != text:
            path.write_text(text, encoding="utf-8")


def keep_colons(_app: object, what: str, *rest: Any) -> None:
    """Keeps the first line of an attribute's docstring: napoleon takes words before a colon for a type.

    It does not where the line ends with the colon, so the line is broken there.
    """
    lines = rest[-1]
    if what in ("attribute", "property") and lines and ": " in lines[0]:
        before, _, after = lines[0].partition(": ")
        lines[:1] = [f"{before}:", after]


def page(module: str, members: dict[str, object], linked: list[object]) -> Iterator[str]:
    """Yields the lines of a module's page: functions, then classes, exceptions and data.

    ``linked`` are the classes of earlier pages; those of this page are added.
    """
    yield from (*headed(module), f".. automodule:: {module}", "   :no-members:", "", f".. currentmodule:: {module}", "")
    for wanted in ("function", "class", "exception", "data"):
        for name, member in members.items():
            kind = kind_of(member)
            if kind != wanted:
                continue
            yield f".. py:data:: {name}" if kind == "data" else f".. auto{kind}:: {name}"
            if kind == "data":
                yield from ("", *(f"   {line}" for line in docstring_of(name).splitlines()))
            elif kind == "class":
                yield from MEMBERS
            if member in linked:
                yield "   :no-index:"
            elif kind in ("class", "exception"):
                linked.append(member)
            yield ""


def page_of_results(members: list[object], documented: list[object]) -> Iterator[str]:
    """Yields the lines about what members return, without what is ``documented``, to which it is added."""
    results = sorted(returned(members).difference(documented), key=lambda result: result.__name__)
    documented += results
    if results:
        yield from headed("What these return", "-")
    for result in results:
        yield from (f".. autoclass:: {result.__module__}.{result.__name__}", *MEMBERS, "")


def kind_of(member: object) -> str:
    """Tells which of autodoc's directives documents an object."""
    if inspect.isclass(member) and not typing.get_args(member):
        return "exception" if issubclass(member, BaseException) else "class"
    return "function" if inspect.isfunction(member) else "data"


def docstring_of(name: str) -> str:
    """Returns the docstring that follows the assignment of a constant in one of our modules.

    Raises:
        LookupError: No module has one.
    """
    for module in [module for module in sys.modules.values() if module.__name__.partition(".")[0] in OURS]:
        body = ast.parse(inspect.getsource(module)).body if hasattr(module, name) else []
        for statement, after in itertools.pairwise(body):
            targets = statement.targets if isinstance(statement, ast.Assign) else [getattr(statement, "target", None)]
            assigned = any(isinstance(target, ast.Name) and target.id == name for target in targets)
            if assigned and isinstance(after, ast.Expr) and isinstance(after.value, ast.Constant):
                return inspect.cleandoc(str(after.value.value))
    raise LookupError(f"the constant {name} has no docstring after its assignment")


def returned(members: list[object]) -> set[type]:
    """Returns our classes that members return or hold as attributes, and what those return in turn."""
    found: set[type] = set()
    waiting = list(members)
    while waiting:
        for result in types_of(waiting.pop()):
            ours = result.__module__.partition(".")[0] in OURS and not result.__name__.startswith("_")
            if ours and result not in found:
                found.add(result)
                waiting.append(result)
    return found


def types_of(member: object) -> Iterator[type]:
    """Yields the classes in the annotations of what a function, or a class's public members, return."""
    annotations: list[object] = []
    if inspect.isfunction(member):
        annotations = [result_of(member)]
    elif inspect.isclass(member):
        annotations = [held for name, held in inspect.get_annotations(member).items() if not name.startswith("_")]
        for name, value in inspect.getmembers_static(member):
            function = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
            if not name.startswith("_") and inspect.isfunction(function):
                annotations.append(result_of(function))
    while annotations:
        annotation = annotations.pop()
        if inspect.isclass(annotation) and not isinstance(annotation, types.GenericAlias):
            yield annotation
        annotations += typing.get_args(annotation)


def result_of(function: types.FunctionType) -> object:
    """Returns the annotation of a function's result; None where it names what only type checkers import."""
    try:
        return typing.get_type_hints(function).get("return")
    except NameError:
        return None


def headed(title: str, line: str = "=") -> list[str]:
    """Returns the lines of a heading."""
    return [title, line * len(title), ""]
