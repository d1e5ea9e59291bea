"""Who touches private names of others, read from the source: those of torch ``debuggers.torch_internals`` alone."""

import ast
import re
from functools import cache
from pathlib import Path

import pytest
from source_imports import HOMES, ROOT, files_of, parsed

INTERNALS = HOMES["debuggers"] / "torch_internals"
ALLOWED = {
    ("layer", "_flatten_layers"),  # Keras shows layers that are attributes of others by no public name
    ("model", "_flatten_layers"),  # the same
    ("os", "_exit"),  # documented, without a better name
    ("pickle", "_Unpickler"),  # written in Python; the other one shows no hooks for its opcodes
    ("sys", "_getframe"),  # Python's own documentation has it
    ("value", "_fields"),  # of named tuples, documented
}
UNDOCUMENTED = ("torch.amp.grad_scaler", "torch.multiprocessing.reductions")
"""Modules of torch without an underscore that its documentation does not have."""
SIGN = re.compile(
    r"""(?<!\bself)(?<!\bcls)\s*\._[a-zA-Z]|["'}]_\w+["'{]|torch[\w.]*\._|from\s+torch[\w.]*\s+import(?:[^(\n]*|\s*\([^)]*)\b_|"""
    + "|".join(map(re.escape, (*UNDOCUMENTED, *(name.rpartition(".")[2] for name in UNDOCUMENTED)))),
)
"""What every source with a private name of others has one of: the others need not be parsed."""


def _is_private(name):
    return name.startswith("_") and not name.startswith("__") and name != "_"


def _is_private_of_torch(module, names=()):
    parts = [*module.split("."), *names]
    return parts[0] == "torch" and (module in UNDOCUMENTED or any(map(_is_private, parts)))


def _own_classes(tree):
    return {node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef)} | {"self", "cls", "super()"}


def _without_slots(tree):
    """All nodes but those of ``__slots__``, whose names are a class's own."""
    waiting = [tree]
    while waiting:
        node = waiting.pop()
        if not (isinstance(node, ast.Assign) and getattr(node.targets[0], "id", None) == "__slots__"):
            yield node
            waiting += ast.iter_child_nodes(node)


def private_names(source, known=frozenset()):
    """The private names of others in a source, and strings that are one of the ``known`` private names of torch."""
    if not SIGN.search(source):
        return set()
    tree, found = parsed(source), set()
    own = _own_classes(tree)
    for node in _without_slots(tree):
        if isinstance(node, ast.Attribute) and _is_private(node.attr):
            owner = ast.unparse(node.value)
            if owner not in own and (owner, node.attr) not in ALLOWED:
                found.add(f"{owner}.{node.attr}")
        elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value in known:
            found.add(repr(node.value))
        elif isinstance(node, ast.ImportFrom) and _is_private_of_torch(
            node.module or "", tuple(alias.name for alias in node.names)
        ):
            found.add(f"from {node.module} import {', '.join(alias.name for alias in node.names)}")
        elif isinstance(node, ast.Import):
            found |= {f"import {alias.name}" for alias in node.names if _is_private_of_torch(alias.name)}
    return found


@cache
def names_of_torch():
    """The private names that the room speaks of, as attributes and in strings."""
    found = set()
    for path in files_of(INTERNALS):
        for node in ast.walk(parsed(path.read_text())):
            if isinstance(node, ast.Attribute):
                found.add(node.attr)
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and node.value.isidentifier():
                found.add(node.value)
    return frozenset(filter(_is_private, found))


@pytest.mark.parametrize("package", ["debuggers", "stability", "stepscope"])
def test_private_names_of_torch_are_touched_in_one_room_only(package):
    files = [path for path in files_of(HOMES[package]) if not path.is_relative_to(INTERNALS)]
    found = {
        str(path.relative_to(ROOT)): sorted(names)
        for path in files
        if (names := private_names(path.read_text(), names_of_torch()))
    }
    assert not found, "these belong into debuggers/torch_internals, with a test that says what is expected of torch"


def test_every_module_of_the_room_has_its_tests():
    tests = Path(__file__).parent / "debuggers" / "torch_internals"
    for path in files_of(INTERNALS):
        if path.name != "__init__.py":
            text = (tests / f"test_{path.name}").read_text()
            public = [node for node in parsed(path.read_text()).body if not isinstance(node, ast.Expr)]
            names = {target.id for node in public for target in _targets(node)} | {
                node.name for node in public if isinstance(node, ast.FunctionDef | ast.ClassDef)
            }
            untested = {name for name in names if not name.startswith("_") and f"{path.stem}.{name}" not in text}
            assert not untested, f"{path.name}: {sorted(untested)}"


def _targets(node):
    targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
    return [target for target in targets if isinstance(target, ast.Name)]


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("import torch\ntorch._C._current_graph_task_id()", {"torch._C", "torch._C._current_graph_task_id"}),
        ("from torch.utils._pytree import tree_map", {"from torch.utils._pytree import tree_map"}),
        ("from torch.nn.modules.batchnorm import _NormBase", {"from torch.nn.modules.batchnorm import _NormBase"}),
        ("def f():\n    import torch._dynamo", {"import torch._dynamo"}),
        ("from torch.amp.grad_scaler import OptState", {"from torch.amp.grad_scaler import OptState"}),
        ("tensor.grad._version", {"tensor.grad._version"}),
        ("self.scaler._scale", {"self.scaler._scale"}),
        ("getattr(module, '_is_replica', False)", {"'_is_replica'"}),
        ("module.__dict__['_compiled_call_impl']", {"'_compiled_call_impl'"}),
        ("class Own:\n    __slots__ = ('_scale',)\n    def f(self):\n        return self._scale + Own._made", set()),
        ("import torch\ntorch.nn.Module.__call__\nfor _ in sys._getframe(1):\n    pass", set()),
    ],
)
def test_private_names_are_found(source, expected):
    assert private_names(source, names_of_torch()) == expected
