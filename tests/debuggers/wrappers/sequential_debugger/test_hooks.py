"""Hooks exist in the model only while the debugger is enabled."""

import pytest
from debugger_parts import entry
from digit_models import digit_network, digits
from module_hooks import hook_count

from debuggers.errors import ClosedDebuggerError
from debuggers.feature_map import FeatureMapDebugger
from debuggers.instrumentation.call_observers import Observer
from debuggers.wrappers.sequential_debugger import SequentialDebugger

LAYERS = {"a": "backbone.conv1", "b": "backbone.conv2", "c": "backbone.conv2"}
CONFIG = [entry(name, FeatureMapDebugger, layer_name=layer) for name, layer in LAYERS.items()]


def test_toggling_adds_and_removes_them():
    model = digit_network()
    sequential = SequentialDebugger(CONFIG, model)
    assert hook_count(model) == 0
    for _ in range(2):
        sequential.enabled = True
        sequential.enabled = True
        layers = (model.backbone.conv1, model.backbone.conv2, model)
        assert ([hook_count(layer) for layer in layers], sequential.enabled) == ([1, 1, 3], True)
        sequential.enabled = False
        assert (hook_count(model), sequential.enabled) == (0, False)


def test_while_disabled_nothing_runs():
    model, (images, _) = digit_network(), digits(1)
    sequential = SequentialDebugger(CONFIG, model)
    model(images)
    assert sequential({"meta_info": {"idx": 0}}, model) == {}
    assert (sequential.current_page_data, sequential.step) == ({}, 0)
    assert sequential.debuggers["a"].last_capture is None


def test_closing_removes_them_and_is_final():
    model = digit_network()
    sequential = SequentialDebugger(CONFIG, model)
    sequential.enabled = True
    sequential.close()
    sequential.close()
    assert (hook_count(model), sequential.enabled) == (0, False)
    with pytest.raises(ClosedDebuggerError, match="closed"):
        sequential.enabled = True


def test_without_forward_debuggers_none_is_added():
    model = digit_network()
    with SequentialDebugger([], model) as sequential:
        sequential.enabled = True
        assert hook_count(model) == 0


def test_all_are_added_or_none(monkeypatch):
    model = digit_network()
    sequential = SequentialDebugger(CONFIG, model)
    add = Observer.__init__

    def fail_at_the_second_layer(observer, module, event, function):
        if module is model.backbone.conv2:
            raise RuntimeError("no room")
        add(observer, module, event, function)

    monkeypatch.setattr(Observer, "__init__", fail_at_the_second_layer)
    with pytest.raises(RuntimeError, match="no room"):
        sequential.enabled = True
    assert not sequential.enabled
    assert hook_count(model) == 0
