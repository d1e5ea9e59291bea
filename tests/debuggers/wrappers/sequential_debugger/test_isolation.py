"""A debugger that fails loses its own outputs and nothing else."""

import pytest
import torch
from debugger_parts import entry
from digit_models import digit_network, digits
from tracker_adapters.testing import MemoryEmitter
from unusual_outputs import BrokenMapping, Unreadable

from debuggers.base_debugger import BaseDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.forward_debugger import ForwardDebugger
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger


class FailsInForward(ForwardDebugger):
    def process_forward(self, module, input, output):
        raise RuntimeError("no such key")


class FailsAfterwards(BaseDebugger):
    def __call__(self, datapoint, model):
        raise KeyError("missing")


class EmitsNonsense(BaseDebugger):
    def __call__(self, datapoint, model):
        return {"": 1.0, "x" * 2000: 2.0}


MAPS = entry("maps", FeatureMapDebugger, layer_name="head")
FORWARD = entry("early", FailsInForward, layer_name="backbone.conv1")
AFTER = entry("late", FailsAfterwards)


def run(config, folder=None, calls=1, on_error="isolate"):
    emitter, model, (images, _) = MemoryEmitter(), digit_network(), digits(4)
    with SequentialDebugger(config, model, emitter=emitter, on_error=on_error) as sequential:
        if folder is None:
            sequential.enabled = True
        else:
            sequential.begin_epoch(folder)
        for idx in range(calls):
            model(images)
            outputs = sequential({"meta_info": {"idx": idx}}, model)
        sequential.reset_buffer() if folder is None else sequential.save_all()
    return outputs, [artifact for artifact in emitter.artifacts if artifact.kind == "alert"], sequential


def test_its_slot_says_what_happened_and_the_rest_runs_on(tmp_path):
    outputs, _, _ = run([FORWARD, AFTER, MAPS], tmp_path)
    assert outputs["early"] == {"error": "RuntimeError: no such key"}
    assert outputs["late"] == {"error": "KeyError: 'missing'"}
    assert outputs["maps"]["feature_map"].shape == (4, 10)
    assert PageReader(tmp_path)[0]["early"] == {"error": "RuntimeError: no such key"}


def test_one_alert_a_cause_names_debugger_and_layer():
    _, alerts, sequential = run([FORWARD, AFTER], calls=5)
    assert [alert.message for alert in alerts] == [
        "debugger 'early' at layer 'backbone.conv1' failed: RuntimeError: no such key",
        "debugger 'late' failed: KeyError: 'missing'",
    ]
    assert {(alert.name, alert.level) for alert in alerts} == {("debugger_failed", "error")}
    assert list(sequential.failures.values()) == [5, 5]


@pytest.mark.parametrize(("config", "error"), [(FORWARD, RuntimeError), (AFTER, KeyError)])
def test_exceptions_pass_when_asked_to(config, error):
    with pytest.raises(error):
        run([config], on_error="raise")


def test_a_layer_that_did_not_run_is_reported_and_not_shown_twice():
    model, (images, _) = digit_network(), digits(1)
    with SequentialDebugger([MAPS], model) as sequential:
        sequential.enabled = True
        model(images)
        assert "feature_map" in sequential({"meta_info": {"idx": 0}}, model)["maps"]
        outputs = sequential({"meta_info": {"idx": 1}}, model)
        assert "did not run" in outputs["maps"]["error"]
        sequential.reset_buffer()


def test_names_that_cannot_be_emitted_are_reported():
    outputs, alerts, _ = run([{"name": "odd", "debugger_config": {"class": EmitsNonsense}}])
    assert outputs["odd"][""] == 1
    assert "emitting the outputs of debugger 'odd' failed" in alerts[0].message


def test_an_error_in_forward_does_not_break_the_gradients():
    model, (images, labels) = digit_network(), digits(4)
    with SequentialDebugger([FORWARD], model) as sequential:
        sequential.enabled = True
        torch.nn.functional.cross_entropy(model(images), labels).backward()
    assert all(parameter.grad is not None for parameter in model.parameters())


class Unspeakable(Exception):
    def __str__(self):
        raise RuntimeError("no words")


class Calls(BaseDebugger):
    def __init__(self, function):
        self.function = function

    def __call__(self, datapoint, model):
        return self.function()


def raise_unspeakable():
    raise Unspeakable


@pytest.mark.parametrize(
    ("function", "error"),
    [
        (raise_unspeakable, "Unspeakable, whose message cannot be read"),
        (BrokenMapping, "cannot keep a BrokenMapping: gone"),
        (Unreadable, "cannot keep a Unreadable: gone"),
    ],
)
def test_whatever_is_raised_or_returned_stops_nothing(tmp_path, function, error):
    _, alerts, _ = run([entry("odd", Calls, function=function), MAPS], tmp_path)
    page = PageReader(tmp_path)[0]
    assert page["odd"] == {"error": error}
    assert page["maps"]["feature_map"].shape == (4, 10)
    assert len(alerts) == 1
