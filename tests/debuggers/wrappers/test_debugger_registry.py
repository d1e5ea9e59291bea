"""A name in a configuration imports only what is registered or allowed."""

import sys
from importlib import import_module

import pytest

from debuggers.base_debugger import BaseDebugger
from debuggers.errors import DebuggerConfigError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.wrappers.debugger_registry import BUILT_IN, check_allow_imports, find_class

PLUGIN = """
from debuggers.base_debugger import BaseDebugger

class PluginDebugger(BaseDebugger):
    def __call__(self, datapoint, model):
        return {"from": "plugin"}
"""


@pytest.fixture
def plugin(tmp_path, monkeypatch):
    """An installed package with one debugger, as an entry point and as a module."""
    name = "stepscope_plugin_for_tests"
    (tmp_path / f"{name}.py").write_text(PLUGIN)
    (tmp_path / f"{name}_2.py").write_text(PLUGIN)
    info = tmp_path / f"{name}-1.0.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 1.0\n")
    (info / "entry_points.txt").write_text(
        f"[stepscope.debuggers]\nplugin = {name}:PluginDebugger\nFeatureMapDebugger = {name}:PluginDebugger\n"
        f"gone = {name}:Gone\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    yield name
    for module in (name, f"{name}_2"):
        sys.modules.pop(module, None)


@pytest.mark.parametrize("name", BUILT_IN)
def test_built_in_debuggers_are_known_by_class_and_by_path(name):
    cls = getattr(import_module(BUILT_IN[name]), name)
    assert issubclass(cls, BaseDebugger)
    assert find_class(name, ()) is cls
    assert find_class(f"{BUILT_IN[name]}.{name}", ()) is cls


def test_entry_points_are_known_by_their_name(plugin):
    assert find_class("plugin", ()).__module__ == plugin
    assert find_class("FeatureMapDebugger", ()) is FeatureMapDebugger


@pytest.mark.parametrize(
    "name", ["os.system", "subprocess.Popen", "FeatureMap", "debuggers.feature_map.picture_grid", ""]
)
def test_anything_else_is_refused(name):
    with pytest.raises(DebuggerConfigError, match="not a registered debugger and not allowed to be imported"):
        find_class(name, ())


def test_a_refused_module_is_not_imported(plugin):
    with pytest.raises(DebuggerConfigError, match=r"allow_imports covers: \['other\.'\]"):
        find_class(f"{plugin}.PluginDebugger", ["other."])
    assert plugin not in sys.modules


@pytest.mark.parametrize("ending", ["", "."])
def test_an_allowed_prefix_ends_at_a_dot(plugin, ending):
    allowed = [plugin + ending]
    assert find_class(f"{plugin}.PluginDebugger", allowed).__module__ == plugin
    with pytest.raises(DebuggerConfigError, match="not allowed"):
        find_class(f"{plugin}_2.PluginDebugger", allowed)
    assert f"{plugin}_2" not in sys.modules


@pytest.mark.parametrize("path", ["Gone", "gone.Debugger"])
def test_a_path_that_leads_to_nothing_is_an_error(plugin, path):
    with pytest.raises(DebuggerConfigError, match="cannot import"):
        find_class(f"{plugin}.{path}", [plugin])
    with pytest.raises(DebuggerConfigError, match="cannot import Gone"):
        find_class("gone", ())


def test_prefixes_are_checked():
    assert check_allow_imports(["a.", "b"]) == ("a.", "b")
    assert check_allow_imports("my_package.") == ("my_package.",)
    for wrong in ("", ".", ".a", 3):
        with pytest.raises(DebuggerConfigError, match="allow_imports holds"):
            check_allow_imports([wrong])
