"""Memory profiles, step times and the profiler in a session."""

import errno
import gzip
import json
import os
from pathlib import Path

import pytest
import torch
from debugged_training import EVERYTHING, Network, stability, train
from torch import nn
from tracker_adapters.testing import MemoryEmitter


class TestMemoryProfile:
    """What takes memory, by module."""

    def test_it_has_the_sizes_of_what_each_layer_puts_out_and_holds(self):
        emitter, model = MemoryEmitter(), nn.Sequential(nn.Linear(4, 1024), nn.Tanh(), nn.Tanh(), nn.Linear(1024, 1))
        manager = stability(emitter, enable_memory_debugging=True, memory_profiling=True, memory_profile_every=2)
        manager.start_debug_session("profile")

        results = train(model, manager, steps=4)
        manager.stop_debug_session()

        assert [number for number, result in enumerate(results) if "memory_profile" in result["debug_info"]] == [1, 3]
        profile = manager.get_debug_summary()["memory_profile"]
        if not torch.cuda.is_initialized():
            sizes = {module["module"]: round(module["forward_mb"] * 2**20) for module in profile["modules"]}
            assert sizes == {"0": 8 * 1024 * 4, "1": 8 * 1024 * 4, "2": 8 * 1024 * 4, "3": 8 * 4}
        parameters = sum(parameter.numel() * 4 for parameter in model.parameters()) / 2**20
        assert profile["parameters_mb"] == profile["gradients_mb"] == pytest.approx(parameters)
        assert profile["optimizer_state_mb"] == pytest.approx(2 * parameters, rel=0.01)
        assert {artifact.name for artifact in emitter.artifacts} >= {"stability/debug/memory_profile"}

    def test_an_output_that_is_its_input_adds_nothing(self):
        model = nn.Sequential(nn.Linear(4, 64), nn.ReLU(inplace=True), nn.Flatten(), nn.Linear(64, 1))
        manager = stability(enable_memory_debugging=True, memory_profiling=True)
        manager.start_debug_session("views")

        train(model, manager, steps=2)

        modules = manager.get_debug_summary()["memory_profile"]["modules"]
        if not torch.cuda.is_initialized():
            assert {module["type"]: module["forward_mb"] for module in modules if module["type"] != "Linear"} == {
                "ReLU": 0.0,
                "Flatten": 0.0,
            }
        manager.stop_debug_session()


class TestPerformance:
    """Times of phases, and the profiler."""

    def test_the_phases_add_up_to_the_step(self):
        emitter = MemoryEmitter()
        manager = stability(emitter, enable_performance_debugging=True)
        manager.start_debug_session("times")

        results = train(Network(), manager, steps=4)
        manager.stop_debug_session()

        assert "step_times" not in results[0]["debug_info"]
        for result in results[1:]:
            times = result["debug_info"]["step_times"]
            total = times.pop("total")
            assert total == pytest.approx(sum(times.values()))
            assert all(seconds > 0 for seconds in times.values())
        assert set(manager.get_debug_summary()["step_times"]) == {*times, "total"}
        assert "stability/debug/seconds/forward" in {artifact.name for artifact in emitter.artifacts}

    def test_no_half_of_a_trace_is_left_on_a_full_disk(self, tmp_path, monkeypatch):
        def half(_, path):
            Path(path).write_bytes(b"half")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        monkeypatch.setattr(torch.profiler.profile, "export_chrome_trace", half)
        tools = {"enable_performance_debugging": True, "profile_autograd": True, "profile_wait": 1}
        manager = stability(**tools, profile_active=1, save_debug_info=True, debug_output_dir=str(tmp_path))
        manager.start_debug_session("full")
        train(Network(), manager, steps=5)

        summary = manager.get_debug_summary()
        assert list(tmp_path.iterdir()) == []
        assert summary["operators"]
        assert [note for note in summary["notes"] if "No space left" in note]
        manager.stop_debug_session()

    def test_the_profiler_records_its_steps_as_a_trace_file_and_a_table(self, tmp_path):
        emitter = MemoryEmitter()
        manager = stability(
            emitter,
            enable_performance_debugging=True,
            profile_autograd=True,
            profile_memory=True,
            profile_wait=1,
            profile_active=1,
            profile_repeat=2,
            save_debug_info=True,
            debug_output_dir=str(tmp_path),
        )
        manager.start_debug_session("profile")

        train(Network(), manager, steps=8)
        operators = manager.get_debug_summary()["operators"]

        assert "aten::addmm" in {operator["operator"] for operator in operators}
        assert [operator["cpu_ms"] for operator in operators] == sorted(
            (operator["cpu_ms"] for operator in operators), reverse=True
        )
        traces = sorted(tmp_path.glob("pytorch_debug_trace_*.json.gz"))
        assert len(traces) == 2
        assert set(traces) <= set(manager.stop_debug_session())
        assert {str(path) for path in traces} <= set(manager.get_debug_summary()["files"])
        events = json.loads(gzip.decompress(traces[0].read_bytes()))["traceEvents"]
        assert "AddmmBackward0" in {event["name"] for event in events}
        names = [artifact.name for artifact in emitter.artifacts]
        assert (names.count("stability/debug/operators"), names.count("stability/debug/trace")) == (2, 2)

    def test_a_profiler_of_the_users_is_left_alone(self):
        manager = stability(enable_performance_debugging=True, profile_autograd=True, profile_wait=0, profile_warmup=0)
        with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CPU]) as profile:
            manager.start_debug_session("busy")
            train(Network(), manager, steps=3)
            manager.stop_debug_session()

        assert "aten::addmm" in {event.key for event in profile.key_averages()}
        assert "another profiler runs" in manager.get_debug_summary()["notes"][0]


@pytest.mark.slow
def test_checkpointed_modules_count_once_and_compiled_ones_are_left_to_the_compiler():
    class Checkpointed(nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = nn.Linear(4, 64)
            self.last = nn.Linear(64, 1)

        def forward(self, x):
            return self.last(torch.utils.checkpoint.checkpoint(self.inner, x, use_reentrant=False))

    model = Checkpointed()
    model.last = torch.compile(model.last, backend="eager")
    manager = stability(**{**EVERYTHING, "enable_autograd_anomaly": False, "profile_autograd": False})
    manager.start_debug_session("modules")

    results = train(model, manager, steps=4)
    manager.stop_debug_session()

    calls = {module["module"]: module["calls"] for module in results[1]["debug_info"]["memory_profile"]["modules"]}
    assert calls == {"inner": 1, "last": 1}
    checks = manager.get_debug_summary()["gradient_checks"]
    assert list(checks["passed"]) == ["inner"]
    assert "compiled" in checks["skipped"]
