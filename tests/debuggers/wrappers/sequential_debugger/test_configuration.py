"""Debuggers are built from a configuration, and mistakes in it are errors where it is written."""

import pytest
import torch
from digit_models import digit_network, digits
from torch import nn

import debuggers.wrappers
from debuggers.base_debugger import BaseDebugger
from debuggers.eigencam import EigenCAMDebugger
from debuggers.errors import DebuggerConfigError, LayerNotFoundError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.gradcam import GradCAMDebugger
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
            "debugger 'a': 'torch.nn.ReLU' is not a registered",
        ),
        ([{"name": "a", "type": nn.ReLU}], "debugger 'a': the class is .*ReLU.*expected a subclass of BaseDebugger"),
        ([{"name": "a", "enabled": True}], "has no 'debugger_config', and none of 'class', 'class_path'"),
        ([{**maps("a"), "enabled": True}], "debugger 'a': has 'enabled' beside 'debugger_config'"),
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


def test_debuggers_may_be_made_already(tmp_path):
    made, model = FeatureMapDebugger("backbone.conv1"), digit_network()
    config = [{"name": "a", "debugger_config": made}, {"name": "b", "debugger_config": Nothing()}]
    with SequentialDebugger(config, model) as sequential:
        assert sequential.debuggers["a"] is made
        sequential.begin_epoch(tmp_path)
        model(digits(1)[0])
        assert "feature_map" in sequential({"meta_info": {"idx": 0}}, model)["a"]


def built(config, **arguments):
    """Makes what is nested first, as many builders do."""
    if isinstance(config, dict) and config.keys() == {"class", "args"}:
        return config["class"](**{name: built(value) for name, value in {**config["args"], **arguments}.items()})
    if isinstance(config, dict):
        return {name: built(value) for name, value in config.items()}
    return [built(value) for value in config] if isinstance(config, list) else config


def test_a_builder_that_begins_inside_makes_what_the_configuration_says():
    cam = {"name": "cam", "debugger_config": {"class": GradCAMDebugger, "args": {"target_layer": "backbone.conv2"}}}
    config = {"class": SequentialDebugger, "args": {"page_size_mb": 1, "debuggers_config": [maps("a"), cam]}}
    sequential = built(config, model=digit_network())
    assert [type(debugger) for debugger in sequential.debuggers.values()] == [FeatureMapDebugger, GradCAMDebugger]


def test_one_made_debugger_may_stand_under_two_names(tmp_path):
    made, model = FeatureMapDebugger("backbone.conv*"), digit_network()
    config = [{"name": name, "debugger_config": made} for name in ("a", "b")]
    with SequentialDebugger(config, model) as sequential:
        sequential.begin_epoch(tmp_path)
        model(digits(1)[0])
        slots = sequential({"meta_info": {"idx": 0}}, model)
    assert list(slots["a"]) == list(slots["b"]) == ["backbone.conv1", "backbone.conv2"]


def test_a_made_debugger_is_checked_like_any_other():
    class Bare(FeatureMapDebugger):
        def __init__(self):
            pass

    with pytest.raises(DebuggerConfigError, match="debugger 'a': layer_name is None"):
        SequentialDebugger([{"name": "a", "debugger_config": Bare()}], digit_network())
    with pytest.raises(LayerNotFoundError, match="debugger 'a': DigitNetwork has no layer 'neck'"):
        SequentialDebugger([{"name": "a", "debugger_config": FeatureMapDebugger("neck")}], digit_network())


@pytest.mark.parametrize("cls", [GradCAMDebugger, EigenCAMDebugger])
def test_the_layer_of_a_map_is_looked_up_when_the_debugger_is_made(cls):
    config = [{"name": "cam", "debugger_config": {"class": cls, "args": {"target_layer": "backbone.conv9"}}}]
    with pytest.raises(LayerNotFoundError, match=r"debugger 'cam': DigitNetwork has no layer 'backbone\.conv9'.*conv1"):
        SequentialDebugger(config, digit_network())
    config[0]["debugger_config"]["args"]["target_layer"] = "backbone.conv2"
    SequentialDebugger(config, torch.compile(nn.DataParallel(digit_network())))


def test_a_debugger_of_ones_own_may_refuse_a_model():
    class NeedsTwoHeads(Nothing):
        def check_model(self, model):
            raise DebuggerConfigError("expected two heads")

    with pytest.raises(DebuggerConfigError, match="debugger 'a': expected two heads"):
        SequentialDebugger([{"name": "a", "debugger_config": NeedsTwoHeads()}], digit_network())


def test_it_can_be_imported_from_the_package_of_wrappers():
    assert debuggers.wrappers.SequentialDebugger is SequentialDebugger
    with pytest.raises(AttributeError, match="no attribute 'ParallelDebugger'"):
        _ = debuggers.wrappers.ParallelDebugger


def test_a_missing_layer_may_be_allowed():
    sequential = SequentialDebugger([maps(layer_name="neck", missing_ok=True)], digit_network())
    sequential.enabled = True
    outputs = sequential({"meta_info": {"idx": 0}}, digit_network())
    assert outputs == {"maps": {"error": "the model has no layer 'neck'"}}
    assert sequential.failures == {}


@pytest.mark.parametrize("size", [0, -1, float("nan"), float("inf"), "100", None, True])
def test_a_page_has_a_size(size):
    with pytest.raises(DebuggerConfigError, match="page_size_mb is"):
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
