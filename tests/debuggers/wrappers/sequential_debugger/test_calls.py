"""Every call of a layer in one forward pass is captured under a name of its own."""

import pytest
import torch
from torch import nn
from torch.utils.checkpoint import checkpoint
from tracker_adapters.testing import MemoryEmitter

from debuggers.base_debugger import BaseDebugger, Picture
from debuggers.forward_debugger import ForwardDebugger


class Value(ForwardDebugger):
    def process_forward(self, module, input, output):
        return {"value": float(output.sum()), "layer": self.layer_name}

    def pictures(self, outputs, datapoint):
        yield Picture("one", torch.full((2, 3), outputs["value"] / 1000))


class Loop(nn.Module):
    """Calls one layer several times."""

    def __init__(self, times=3):
        super().__init__()
        self.times = times
        self.scale = nn.Linear(1, 1, bias=False)
        self.last = nn.Identity()
        nn.init.constant_(self.scale.weight, 2.0)

    def forward(self, x):
        for _ in range(self.times):
            x = self.scale(x)
        return self.last(x)


class Countdown(nn.Module):
    """Calls itself."""

    def forward(self, x):
        return x if float(x.max()) <= 0 else self(x - 1)


def entry(layer_name, name="seen", cls=Value):
    return {"name": name, "debugger_config": {"class": cls, "args": {"layer_name": layer_name}}}


def slot_of(sequential, name="seen"):
    return sequential({"meta_info": {"idx": 0}}, nn.Identity())[name]


def values(slot):
    return {name: capture["value"] for name, capture in slot.items()}


ONE = torch.ones(1, 1)


@pytest.mark.parametrize("selector", ["scale", "scal?", nn.Linear])
def test_several_calls_are_numbered(watching, selector):
    model = Loop()
    sequential = watching(model, entry(selector))
    model(ONE)
    slot = slot_of(sequential)
    assert values(slot) == {"scale": 2, "scale:1": 4, "scale:2": 8}
    assert {capture["layer"] for capture in slot.values()} == {"scale"}


def test_captures_of_several_layers_come_in_the_order_of_the_calls(watching):
    model = Loop(2)
    sequential = watching(model, entry("re:last|scale"))
    model(ONE)
    assert list(slot_of(sequential)) == ["scale", "scale:1", "last"]


def test_a_layer_that_is_called_once_by_a_plain_name_is_bare(watching):
    model = Loop(1)
    sequential = watching(model, entry("scale"))
    model(ONE)
    assert slot_of(sequential) == {"value": 2, "layer": "scale"}


def test_a_new_forward_pass_starts_anew(watching):
    model = Loop(2)
    sequential = watching(model, entry("scale"), entry("last", "end"))
    model(ONE)
    model.times = 1
    model(10 * ONE)
    outputs = sequential({"meta_info": {"idx": 0}}, model)
    assert (outputs["seen"]["value"], outputs["end"]["value"]) == (20, 20)


def test_calls_outside_of_a_forward_pass_of_the_model_are_kept_until_they_are_taken(watching):
    model = Loop()
    sequential = watching(model, entry("scale"))
    model.scale(ONE)
    model.scale(3 * ONE)
    assert values(slot_of(sequential)) == {"scale": 2, "scale:1": 6}
    model.scale(ONE)
    assert slot_of(sequential)["value"] == 2


def test_enabling_starts_anew(watching):
    model = Loop(1)
    sequential = watching(model, entry("scale"))
    model(ONE)
    sequential.enabled = False
    sequential.enabled = True
    assert "did not run" in slot_of(sequential)["error"]


class Interrupted(nn.Module):
    def forward(self, x):
        raise KeyboardInterrupt


def test_a_round_starts_anew_after_a_forward_pass_that_was_interrupted(watching, tmp_path):
    model = Loop(1)
    sequential = watching(model, entry("scale"))
    model.last = Interrupted()
    with pytest.raises(KeyboardInterrupt):
        model(ONE)
    model.last = nn.Identity()
    sequential.begin_epoch(tmp_path)
    model(ONE * 3)
    assert slot_of(sequential) == {"value": 6, "layer": "scale"}


def test_a_model_that_calls_itself_keeps_all_its_calls(watching):
    model = Countdown()
    sequential = watching(model, entry(""))
    model(2 * ONE)
    assert list(slot_of(sequential)) == ["Countdown", "Countdown:1", "Countdown:2"]
    model(ONE)
    assert list(slot_of(sequential)) == ["Countdown", "Countdown:1"]


def test_calls_beyond_sixteen_are_counted_and_reported_once(watching, caplog):
    model, emitter = Loop(20), MemoryEmitter()
    sequential = watching(model, entry("scale"), emitter=emitter)
    for _ in range(2):
        model(ONE)
        slot = slot_of(sequential)
        assert len(slot) == 16
        assert slot["scale:15"]["value"] == 2**16
    assert sequential.skipped_calls == {"seen": 8}
    (alert,) = [artifact for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert (alert.name, alert.level) == ("calls_not_captured", "warning")
    assert "debugger 'seen' at layer 'scale': 'scale' was called more than 16 times" in alert.message
    assert len([record for record in caplog.records if "more than 16 times" in record.message]) == 1


def test_numbers_and_pictures_are_named_by_their_capture(watching):
    model, emitter = Loop(2), MemoryEmitter()
    sequential = watching(model, entry("*l*"), entry("last", "end"), emitter=emitter)
    model(ONE)
    slot_of(sequential)
    assert {artifact.name for artifact in emitter.artifacts if artifact.kind == "scalar"} == {
        *(f"seen/{name}/value" for name in ("scale", "scale:1", "last")),
        "end/value",
    }
    assert [artifact.name for artifact in emitter.artifacts if artifact.kind == "image"] == [
        "seen/scale/one",
        "seen/scale:1/one",
        "seen/last/one",
        "end/one",
    ]


class FailsOnSecond(Value):
    def process_forward(self, module, input, output):
        if float(output.sum()) == 4:
            raise RuntimeError("four")
        return super().process_forward(module, input, output)


def test_one_call_that_fails_leaves_the_others(watching):
    model, emitter = Loop(3), MemoryEmitter()
    sequential = watching(model, entry("scale", cls=FailsOnSecond), emitter=emitter)
    model(ONE)
    slot = slot_of(sequential)
    assert slot["scale:1"] == {"error": "RuntimeError: four"}
    assert (slot["scale"]["value"], slot["scale:2"]["value"]) == (2, 8)
    images = [artifact.name for artifact in emitter.artifacts if artifact.kind == "image"]
    assert images == ["seen/scale/one", "seen/scale:2/one"]


class Branches(nn.Module):
    def __init__(self):
        super().__init__()
        self.used, self.idle = nn.Identity(), nn.Identity()

    def forward(self, x):
        return self.used(x)


def test_layers_of_a_pattern_that_did_not_run_say_so_and_are_reported_together(watching):
    model, emitter = Branches(), MemoryEmitter()
    sequential = watching(model, entry(nn.Identity), emitter=emitter)
    model(ONE)
    slot = slot_of(sequential)
    assert slot["used"]["value"] == 1
    assert "did not run" in slot["idle"]["error"]
    slot = slot_of(sequential)
    assert all("did not run" in slot[name]["error"] for name in ("used", "idle"))
    (alert,) = [artifact for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert alert.message.startswith("debugger 'seen' at layer Identity failed: LookupError: captured nothing")
    assert alert.message.endswith("(idle)")


class Nothing(ForwardDebugger):
    def process_forward(self, module, input, output):
        return None


def test_a_debugger_that_makes_nothing_of_a_layer_that_ran_has_an_empty_slot(watching):
    model = Loop(1)
    sequential = watching(model, entry("scale", cls=Nothing))
    model(ONE)
    assert slot_of(sequential) is None
    assert sequential.failures == {}


class Doubled(Value):
    """Makes something of each capture after the forward pass."""

    def __call__(self, datapoint, model):
        return {"twice": 2 * self.last_capture["value"], "layer": self.layer_name}


def test_a_debugger_is_called_for_each_capture(watching):
    model = Loop(2)
    sequential = watching(model, entry("scale", cls=Doubled))
    model(ONE)
    assert slot_of(sequential) == {
        "scale": {"twice": 4, "layer": "scale"},
        "scale:1": {"twice": 8, "layer": "scale"},
    }
    assert sequential.debuggers["seen"].last_capture is None


class RunsTheLayerAgain(ForwardDebugger):
    def process_forward(self, module, input, output):
        return {"twice": float(module(output).sum())}


def test_a_debugger_may_run_its_layer_again(watching):
    model = Loop(1)
    sequential = watching(model, entry("scale", cls=RunsTheLayerAgain), entry("scale", "other"))
    model(ONE)
    outputs = sequential({"meta_info": {"idx": 0}}, model)
    assert (outputs["seen"], outputs["other"]["value"]) == ({"twice": 4}, 2)


class RunsTheModelAgain(BaseDebugger):
    def __call__(self, datapoint, model):
        return {"again": model(2 * ONE).item()}


def test_a_debugger_may_run_the_model_again_before_others_are_asked(watching):
    model = Loop(1)
    sequential = watching(model, {"name": "again", "class": RunsTheModelAgain}, entry("scale"))
    model(ONE)
    outputs = sequential({"meta_info": {"idx": 0}}, model)
    assert (outputs["again"], outputs["seen"]["value"]) == ({"again": 4}, 2)


@pytest.mark.parametrize("use_reentrant", [False, True])
@pytest.mark.parametrize("whole_model", [False, True])
def test_recomputation_under_activation_checkpointing_is_not_counted(watching, use_reentrant, whole_model):
    model = nn.Sequential(nn.Linear(3, 3), nn.ReLU(), nn.Linear(3, 3))
    sequential = watching(model, entry(nn.Linear), entry("", "whole"))
    x = torch.ones(1, 3, requires_grad=True)
    if whole_model:
        output = checkpoint(model, x, use_reentrant=use_reentrant)
    else:
        model.forward = lambda x: checkpoint(nn.Sequential(*model.children()), x, use_reentrant=use_reentrant)
        output = model(x)
    output.sum().backward()
    assert model[0].weight.grad is not None
    outputs = sequential({"meta_info": {"idx": 0}}, model)
    assert list(outputs["seen"]) == ["0", "2"]
    assert outputs["whole"]["value"] == pytest.approx(float(output.detach().sum()))
