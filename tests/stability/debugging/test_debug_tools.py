"""The tools in a session: the training does not notice them, and nothing is left behind."""

import copy
import gc
import logging
import weakref

import pytest
import torch
from debugged_training import EVERYTHING, TOOLS, Network, hooks_of, stability, train
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from stability import (
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    create_training_wrapper,
)


@pytest.mark.parametrize("switch", [*(pytest.param(tool, marks=pytest.mark.slow) for tool in TOOLS), "all"])
def test_training_is_bit_identical_and_nothing_is_left_behind(switch, tmp_path):
    fields = EVERYTHING if switch == "all" else {switch: True}
    torch.manual_seed(0)
    model = Network()
    twin = copy.deepcopy(model)
    torch.manual_seed(1)
    plain = train(twin, None)
    expected = torch.get_rng_state()
    manager = NumericalStabilityManager(
        GradientClippingConfig(clipping_type="none"),
        NaNHandlingConfig(),
        PyTorchDebuggingConfig(**fields, debug_output_dir=str(tmp_path)),
        emitter=MemoryEmitter(),
    )
    torch.manual_seed(1)

    manager.start_debug_session("all")
    train(model, manager)
    manager.stop_debug_session()

    assert plain == []
    assert torch.equal(expected, torch.get_rng_state())
    for (name, tensor), (_, other) in zip(model.state_dict().items(), twin.state_dict().items(), strict=True):
        assert torch.equal(tensor, other), name
    assert hooks_of(model) == 0
    assert not torch.is_anomaly_enabled()
    assert manager.get_debug_summary()["notes"] == (
        ["CUDA debugging is on, but torch finds no CUDA device: nothing is synchronised, limited or recorded"]
        if fields.get("enable_cuda_debugging") and not torch.cuda.is_available()
        else []
    )


@pytest.mark.parametrize("limit", [{"max_debug_iterations": 2}, {"debug_timeout": 1e-9}])
def test_a_limit_switches_the_tools_off_before_the_session_stops(limit):
    model, manager = Network(), stability(**{**EVERYTHING, **limit})
    manager.start_debug_session("limited")

    results = train(model, manager, steps=3)

    assert "memory_info" not in results[-1]["debug_info"]
    assert (hooks_of(model), torch.is_anomaly_enabled()) == (0, False)
    assert manager.get_debug_summary()["active"]


def test_a_session_that_nobody_stops_ends_with_its_manager():
    model, manager = Network(), stability(**EVERYTHING)
    manager.start_debug_session("forgotten")
    train(model, manager, steps=2)
    assert torch.is_anomaly_enabled()

    del manager

    assert (hooks_of(model), torch.is_anomaly_enabled()) == (0, False)


class Mapped(nn.Module):
    """Its layer sees tensors that only stand for others."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)

    def forward(self, x, root=False):
        return torch.vmap(self.layer)(x)


class Ragged(Mapped):
    """Its layer sees rows of different lengths."""

    def forward(self, x, root=False):
        rows = torch.nested.nested_tensor([x[:1], x[1:]], layout=torch.jagged)
        return self.layer(rows).values()


class Hostile(Mapped):
    """Its layer's output cannot be looked into."""

    class Output(dict):
        def items(self):
            raise ValueError("hostile")

    class Layer(nn.Linear):
        def forward(self, x):
            return Hostile.Output(y=super().forward(x))

    def __init__(self):
        super().__init__()
        self.layer = Hostile.Layer(4, 1)

    def forward(self, x, root=False):
        return self.layer(x)["y"]


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
@pytest.mark.parametrize("network", [Mapped, Ragged, Hostile])
def test_the_forward_pass_goes_on_whatever_the_tools_cannot_look_into(network):
    manager = stability(**{**EVERYTHING, "memory_profile_every": 1})
    manager.start_debug_session("unusual")

    train(network(), manager, steps=4)
    manager.stop_debug_session()

    assert manager.get_debug_summary()["total_iterations"] == 4


def test_a_stopped_session_keeps_no_model_alive():
    manager = stability(**EVERYTHING)
    model = Network()
    manager.start_debug_session("stopped")
    train(model, manager, steps=3)
    manager.stop_debug_session()

    gone = weakref.ref(model)
    del model
    gc.collect()

    assert gone() is None
    assert manager.get_debug_summary()["memory_profile"] is not None


@pytest.mark.skipif(torch.cuda.is_available(), reason="says what happens without CUDA")
def test_without_cuda_there_is_one_note_and_no_failure(caplog):
    manager = stability(enable_cuda_debugging=True, cuda_synchronize=True, cuda_memory_fraction=0.5)
    with caplog.at_level(logging.WARNING, logger="stability"):
        manager.start_debug_session("no cuda")
        results = train(Network(), manager, steps=2)
        manager.stop_debug_session()

    assert [record.stepscope["event"] for record in caplog.records] == ["no_cuda"]
    assert results[0]["debug_info"]["cuda"] == {
        "available": False,
        "devices": [],
        "synchronized": False,
        "memory_fraction": 0.5,
        "note": caplog.records[0].getMessage().removeprefix("no_cuda: "),
    }
    assert "cuda_memory" not in results[0]["debug_info"].get("memory_info", {})


def test_what_ends_the_run_is_told_with_the_last_steps_state():
    emitter, model = MemoryEmitter(), Network()
    config = PyTorchDebuggingConfig(enable_memory_debugging=True, save_debug_info=False)

    with (
        pytest.raises(ZeroDivisionError),
        create_training_wrapper(GradientClippingConfig(), NaNHandlingConfig(), config, emitter=emitter) as wrapper,
    ):
        train(model, wrapper, steps=2)
        raise ZeroDivisionError("in the loop of http://me:hunter2abc@host")

    alerts = [artifact for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert [alert.name for alert in alerts] == [
        "debug_session_started",
        "training_error",
        "debug_session_stopped",
    ]
    assert (alerts[1].message, alerts[1].step) == ("ZeroDivisionError: in the loop of http://***@host", 1)
    (text,) = [artifact for artifact in emitter.artifacts if artifact.name == "stability/debug/error"]
    assert '"iteration": 2' in text.text
    assert "hunter2abc" not in text.text


def test_a_tool_that_fails_is_noted_once_and_the_others_go_on(monkeypatch):
    def broken():
        raise ProcessLookupError("no such process")

    monkeypatch.setattr("stability.debugging.memory.memory_info", broken)
    manager = stability(enable_memory_debugging=True, enable_performance_debugging=True)
    manager.start_debug_session("broken")

    results = train(Network(), manager, steps=3)
    manager.stop_debug_session()

    assert all("memory_info" not in result["debug_info"] for result in results)
    assert "step_times" in results[-1]["debug_info"]
    assert manager.get_debug_summary()["notes"] == ["MemoryDebugging failed: ProcessLookupError: no such process"]
