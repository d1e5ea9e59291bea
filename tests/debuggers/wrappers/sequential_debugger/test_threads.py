"""A model may be evaluated in several threads at once: each datapoint gets what its own forward pass computed."""

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch
from module_hooks import hook_count
from torch import nn
from waiting import in_threads

from debuggers.base_debugger import BaseDebugger
from debuggers.eigencam import EigenCAMDebugger
from debuggers.feature_map import FeatureMapDebugger
from debuggers.forward_debugger import ForwardDebugger
from debuggers.gradcam import GradCAMDebugger
from debuggers.pages import PageReader
from debuggers.wrappers.sequential_debugger import SequentialDebugger

DEADLINE_S = 60
WORKERS = 4


class Meets(nn.Module):
    """Lets no thread go on before as many are here."""

    def __init__(self, parties=WORKERS):
        super().__init__()
        self.barrier = threading.Barrier(parties)

    def forward(self, x):
        self.barrier.wait(DEADLINE_S)
        return x


def entry(cls, layer_name, name="seen", **args):
    return {"name": name, "debugger_config": {"class": cls, "args": {"layer_name": layer_name, **args}}}


def meeting_model():
    """Every forward pass stands between its two layers while the others do."""
    return nn.Sequential(nn.Identity(), Meets(), nn.Sequential(nn.Identity(), Meets()))


def values(slots):
    return [slots[name]["feature_map"].item() for name in ("first", "inner")]


def evaluate(sequential, model, idx):
    outputs = model(torch.tensor([float(idx)]))
    return sequential({"outputs": outputs, "meta_info": {"idx": idx}}, model)


MAPS = entry(FeatureMapDebugger, "0", "first"), entry(FeatureMapDebugger, "2.0", "inner")


def test_every_datapoint_gets_its_own_captures_in_every_epoch(tmp_path):
    model = meeting_model()
    with SequentialDebugger(MAPS, model) as sequential, ThreadPoolExecutor(WORKERS) as pool:
        for epoch in range(3):
            sequential.begin_epoch(tmp_path / f"{epoch}")
            found = list(pool.map(lambda idx: evaluate(sequential, model, idx), range(8 * WORKERS)))
            sequential.save_all()
            assert [values(slots) for slots in found] == [[idx, idx] for idx in range(8 * WORKERS)]
            reader = PageReader(tmp_path / f"{epoch}")
            assert {idx: values(slots) for idx, slots in reader.items()} == {
                idx: [idx, idx] for idx in range(8 * WORKERS)
            }
        assert (sequential.failures, sequential.step) == ({}, 3 * 8 * WORKERS)
    assert not hook_count(model)


def test_an_exception_in_one_thread_costs_the_others_nothing(watching):
    class Odd(nn.Module):
        def forward(self, x):
            if x.item() % 2:
                raise ValueError("odd")
            return x

    model = nn.Sequential(nn.Identity(), Meets(), Odd())
    sequential = watching(model, entry(FeatureMapDebugger, "0", "first"), entry(FeatureMapDebugger, "2", "inner"))

    def attempt(idx):
        try:
            return values(evaluate(sequential, model, idx))
        except ValueError:
            return None

    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(attempt, range(8 * WORKERS)))
    assert found == [None if idx % 2 else [idx, idx] for idx in range(8 * WORKERS)]


def test_a_loop_that_calls_layers_itself_gets_those_of_its_own_thread(watching):
    class Loop(nn.Module):
        def __init__(self):
            super().__init__()
            self.layer, self.meets = nn.Identity(), Meets()

    model = Loop()
    sequential = watching(model, entry(FeatureMapDebugger, "layer"))

    def step(idx):
        model.meets(model.layer(torch.tensor([float(idx)])))
        return sequential({"meta_info": {"idx": idx}}, model)["seen"]["feature_map"].item()

    with ThreadPoolExecutor(WORKERS) as pool:
        assert list(pool.map(step, range(4 * WORKERS))) == list(range(4 * WORKERS))


class StartsThreads(nn.Module):
    """Calls its layer in threads of its own, as torch.nn.DataParallel does."""

    def __init__(self, barrier=None):
        super().__init__()
        self.layer = nn.Identity()
        self.barrier = barrier

    def forward(self, x):
        if self.barrier is not None:
            self.barrier.wait(DEADLINE_S)
        in_threads(self.layer, [x + number for number in range(3)])
        if self.barrier is not None:
            self.barrier.wait(DEADLINE_S)
        return x


def test_calls_in_threads_of_the_forward_belong_to_it(watching):
    model = StartsThreads()
    sequential = watching(model, entry(FeatureMapDebugger, "layer"))
    for idx in (10, 20):
        slot = evaluate(sequential, model, idx)["seen"]
        assert sorted(capture["feature_map"].item() for capture in slot.values()) == [idx, idx + 1, idx + 2]


def test_calls_that_cannot_be_attributed_are_refused(watching):
    model = StartsThreads(threading.Barrier(2))
    sequential = watching(model, entry(FeatureMapDebugger, "layer"), entry(FeatureMapDebugger, "", "whole"))
    with ThreadPoolExecutor(2) as pool:
        found = list(pool.map(lambda idx: evaluate(sequential, model, idx), (10, 20)))
    for idx, slots in zip((10, 20), found, strict=True):
        assert "the call cannot be attributed" in slots["seen"]["error"]
        assert slots["whole"]["feature_map"].item() == idx
    model.barrier = None
    assert len(evaluate(sequential, model, 30)["seen"]) == 3


def test_a_forward_pass_of_another_thread_is_not_taken(watching):
    model = nn.Sequential(nn.Identity())
    sequential = watching(model, entry(FeatureMapDebugger, "0"))
    with ThreadPoolExecutor(1) as pool:
        pool.submit(model, torch.ones(1)).result(DEADLINE_S)
    assert "did not run in this thread" in sequential({"meta_info": {"idx": 0}}, model)["seen"]["error"]


class Remembers(ForwardDebugger):
    """Uses what a debugger has: the layer's name, the last capture, and attributes of its own."""

    def process_forward(self, module, input, output):
        self.scratch = output.clone()
        return {"layer": self.layer_name, "same": torch.equal(self.scratch, output)}

    def __call__(self, datapoint, model):
        model(datapoint["outputs"])  # runs the model again, in its threads too
        return {**self.last_capture, "layer_at_call": self.layer_name}


def test_a_debugger_is_one_that_runs_in_one_thread(watching):
    model = meeting_model()
    sequential = watching(model, entry(Remembers, nn.Identity))
    with ThreadPoolExecutor(WORKERS) as pool:
        found = list(pool.map(lambda idx: evaluate(sequential, model, idx), range(4 * WORKERS)))
    for slots in found:
        assert slots["seen"] == {name: {"layer": name, "same": True, "layer_at_call": name} for name in ("0", "2.0")}
    assert sequential.debuggers["seen"].layer_name is nn.Identity


def test_a_debugger_that_runs_a_model_with_threads_again_does_not_hang(watching):
    model = StartsThreads()
    sequential = watching(model, entry(Remembers, ""))
    assert evaluate(sequential, model, 1)["seen"]["same"]


class Draws(BaseDebugger):
    def __init__(self, barrier):
        self.barrier = barrier

    def __call__(self, datapoint, model):
        torch.rand(datapoint["meta_info"]["idx"] + 1)
        self.barrier.wait(DEADLINE_S)
        torch.rand(3)
        return {}


def test_overlapping_draws_of_debuggers_leave_the_generators_as_they_were(watching):
    config = {"name": "draws", "debugger_config": {"class": Draws, "args": {"barrier": threading.Barrier(WORKERS)}}}
    sequential = watching(nn.Identity(), config)
    torch.manual_seed(5)
    state = torch.get_rng_state()
    with ThreadPoolExecutor(WORKERS) as pool:
        list(pool.map(lambda idx: sequential({"meta_info": {"idx": idx}}, nn.Identity()), range(4 * WORKERS)))
    assert torch.equal(torch.get_rng_state(), state)


@pytest.mark.parametrize("attention", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_maps_in_threads_are_those_of_one_thread_and_leave_no_trace(attention):
    torch.manual_seed(0)
    body = nn.TransformerEncoderLayer(4, 2, 8, batch_first=True) if attention else nn.Identity()

    class Network(nn.Module):
        def __init__(self):
            super().__init__()
            self.conv, self.norm, self.body = nn.Conv2d(1, 4, 1), nn.BatchNorm2d(4), body
            self.head = nn.Linear(4, 3)

        def forward(self, x):
            x = self.norm(self.conv(x))
            x = self.body(x.flatten(2).transpose(1, 2)) if attention else x.flatten(2).transpose(1, 2)
            return self.head(x.mean(1))

    model = Network().eval()
    images = torch.randn(24, 1, 1, 3, 3)
    config = [
        {"name": "maps", "type": FeatureMapDebugger, "layer_name": "norm"},
        {"name": "gradients", "type": GradCAMDebugger, "target_layer": "conv"},
        {"name": "component", "type": EigenCAMDebugger, "target_layer": "norm"},
    ]
    buffer, fast = model.norm.running_mean, torch.backends.mha.get_fastpath_enabled()

    def step(idx):
        with torch.no_grad():
            outputs = model(images[idx])
        slots = sequential({"inputs": images[idx], "outputs": outputs, "meta_info": {"idx": idx}}, model)
        return outputs, slots["maps"]["feature_map"], slots["gradients"]["gradcam"], slots["component"]["gradcam"]

    with SequentialDebugger(config, model) as sequential:
        sequential.enabled = True
        expected = [step(idx) for idx in range(24)]
        for _ in range(3):
            with ThreadPoolExecutor(WORKERS) as pool:
                found = list(pool.map(step, range(24)))
            for one, other in zip(expected, found, strict=True):
                assert all(map(torch.equal, one, other))
        assert sequential.failures == {}
        sequential.reset_buffer()
    assert model.norm.running_mean is buffer
    assert torch.backends.mha.get_fastpath_enabled() is fast


def test_maps_of_a_compiled_model_are_refused_beside_the_main_thread():
    """Another thread may be compiling the model, which a replay would make fail."""
    model = nn.Sequential(nn.Conv2d(1, 2, 3), nn.AdaptiveAvgPool2d(1), nn.Flatten()).eval()
    compiled = torch.compile(model, backend="eager")
    config = [{"name": "cam", "type": GradCAMDebugger, "target_layer": "0"}]

    def step(idx):
        images = torch.ones(1, 1, 4, 4)
        outputs = compiled(images)
        return sequential({"inputs": images, "outputs": outputs, "meta_info": {"idx": idx}}, compiled)["cam"]

    with SequentialDebugger(config, compiled) as sequential:
        sequential.enabled = True
        with ThreadPoolExecutor(WORKERS) as pool:
            found = list(pool.map(step, range(4 * WORKERS)))
        assert all("the model is compiled, and another thread" in slot["error"] for slot in found)
        assert "gradcam" in step(0)
        sequential.reset_buffer()
