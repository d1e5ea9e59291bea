"""Debuggers are built from a configuration, and mistakes in it are errors where it is written."""

import pytest
from digit_models import digit_network
from torch import nn

from debuggers.base_debugger import BaseDebugger
from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.wrappers.sequential_debugger import SequentialDebugger


class Nothing(BaseDebugger):
    def __call__(self, datapoint, model):
        return None


def maps(name="maps", layer_name="backbone.conv1", **args):
    return {"name": name, "debugger_config": {"class": FeatureMapDebugger, "args": {"layer_name": layer_name, **args}}}


def test_debuggers_are_known_by_name_and_by_layer():
    config = [maps("a"), {"name": "b", "debugger_config": {"class": Nothing}}, maps("c")]
    sequential = SequentialDebugger(debuggers_config=config, model=digit_network(), page_size_mb=2)
    assert list(sequential.debuggers) == ["a", "b", "c"]
    a, _, c = sequential.debuggers.values()
    assert sequential.forward_debuggers == {"backbone.conv1": [a, c]}
    assert sequential.page_size == 2 * 1024 * 1024


def test_it_starts_disabled_and_empty():
    sequential = SequentialDebugger([maps()], digit_network())
    assert (sequential.enabled, sequential.output_dir) == (False, None)
    assert (sequential.current_page_idx, sequential.current_page_size, sequential.current_page_data) == (0, 0, {})
    assert sequential.page_size == 100 * 1024 * 1024


@pytest.mark.parametrize(
    ("config", "message"),
    [
        ([maps("a"), maps("a")], "two debuggers are named 'a'"),
        ([maps("datapoint")], "'datapoint', which pages reserve"),
        ([maps("")], "name is ''"),
        ([maps(3)], "name is 3"),
        ([{"debugger_config": {}}], "has no 'name'"),
        ([{"name": "a"}], "debugger 'a': .* has no 'debugger_config'"),
        ([{"name": "a", "debugger_config": {"args": {}}}], "debugger 'a': .* has no 'class'"),
        (["a"], "'a' has no 'name'"),
        ([{"name": "a", "debugger_config": {"class": nn.ReLU}}], "expected a subclass of BaseDebugger"),
        (
            [{"name": "a", "debugger_config": {"class": "torch.nn.ReLU"}}],
            "debugger 'a': 'torch.nn.ReLU' is no registered",
        ),
        ([{"name": "a", "type": nn.ReLU}], "debugger 'a': the class is .*ReLU.*expected a subclass of BaseDebugger"),
        ([{"name": "a", "enabled": True}], "has no 'debugger_config', and none of 'class', 'class_path'"),
        ([{**maps("a"), "enabled": True}], "debugger 'a': beside 'debugger_config' stands 'enabled'"),
        ([{"type": "FeatureMapDebugger", "layer_name": "head"}], "has no 'name'"),
        ([maps("a", layer=1)], "cannot make a FeatureMapDebugger from"),
        ([maps("a", layer_name=None)], "layer_name is None; expected a name, a pattern"),
    ],
)
def test_a_wrong_configuration_is_an_error(config, message):
    with pytest.raises(DebuggerConfigError, match=message):
        SequentialDebugger(config, digit_network())


def test_a_missing_layer_is_an_error_that_names_debugger_and_near_layers():
    with pytest.raises(
        LayerNotFoundError, match=r"debugger 'maps': DigitNetwork has no layer 'backbone\.conv9'.*conv1"
    ):
        SequentialDebugger([maps(layer_name="backbone.conv9")], digit_network())


def test_a_missing_layer_may_be_allowed():
    sequential = SequentialDebugger([maps(layer_name="neck", missing_ok=True)], digit_network())
    sequential.enabled = True
    outputs = sequential({"meta_info": {"idx": 0}}, digit_network())
    assert outputs == {"maps": {"error": "the model has no layer 'neck'"}}
    assert sequential.failures == {}


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf"), "100", None, True])
def test_a_page_has_a_size(size):
    with pytest.raises(ValueError, match="page_size_mb is"):
        SequentialDebugger([], digit_network(), page_size_mb=size)


def test_other_options_are_checked():
    with pytest.raises(DebuggerConfigError, match="keep holds 'gradients'"):
        SequentialDebugger([], digit_network(), keep=["gradients"])
    with pytest.raises(ValueError, match="on_error is 'ignore'"):
        SequentialDebugger([], digit_network(), on_error="ignore")
    with pytest.raises(DebuggerConfigError, match="keep is 5"):
        SequentialDebugger([], digit_network(), keep=5)
    with pytest.raises(DebuggerConfigError, match="allow_imports is None"):
        SequentialDebugger([], digit_network(), allow_imports=None)


@pytest.mark.parametrize("config", [None, "maps", {"name": "maps"}])
def test_the_configuration_is_a_list(config):
    with pytest.raises(DebuggerConfigError, match=r"debuggers_config is .*expected a list"):
        SequentialDebugger(config, digit_network())


@pytest.mark.parametrize("model", [None, "model", nn.Linear])
def test_the_model_is_a_module(model):
    with pytest.raises(DebuggerConfigError, match=r"model is .*expected a torch\.nn\.Module"):
        SequentialDebugger([maps()], model)


class Forgetful(FeatureMapDebugger):
    def __init__(self):
        pass


def test_a_debugger_that_names_no_layer_is_an_error():
    with pytest.raises(DebuggerConfigError, match="debugger 'a': layer_name is None"):
        SequentialDebugger([{"name": "a", "class": Forgetful}], digit_network())


PATH = "debuggers.feature_map.FeatureMapDebugger"


@pytest.mark.parametrize(
    "config",
    [
        {"class": FeatureMapDebugger, "args": {"layer_name": "head"}},
        {"class": "FeatureMapDebugger", "args": {"layer_name": "head"}},
        {"type": FeatureMapDebugger, "layer_name": "head"},
        {"type": "FeatureMapDebugger", "layer_name": "head"},
        {"_target_": PATH, "layer_name": "head"},
        {"class_path": PATH, "init_args": {"layer_name": "head"}},
    ],
)
def test_every_dialect_builds_the_same(config):
    for entry in ({"name": "a", "debugger_config": config}, {"name": "a", **config}):
        (debugger,) = SequentialDebugger([entry], digit_network()).debuggers.values()
        assert (type(debugger), debugger.layer_name) == (FeatureMapDebugger, "head")


def test_other_classes_are_imported_only_where_that_is_allowed(tmp_path, monkeypatch):
    (tmp_path / "debuggers_of_a_project.py").write_text(
        "from debuggers.base_debugger import BaseDebugger\n\n"
        "class Mine(BaseDebugger):\n    def __call__(self, datapoint, model):\n        return {}\n"
    )
    monkeypatch.syspath_prepend(tmp_path)
    config = [{"name": "a", "_target_": "debuggers_of_a_project.Mine"}]
    with pytest.raises(DebuggerConfigError, match=r"debugger 'a': .* a dotted path that allow_imports covers: \[\]"):
        SequentialDebugger(config, digit_network())
    sequential = SequentialDebugger(config, digit_network(), allow_imports=["debuggers_of_a_project."])
    assert type(sequential.debuggers["a"]).__name__ == "Mine"
    with pytest.raises(DebuggerConfigError, match="allow_imports holds ''"):
        SequentialDebugger([], digit_network(), allow_imports=[""])
