"""The tools in a session: what each adds to ``debug_info`` and the summary, and that the training does not notice."""

import copy
import errno
import gc
import gzip
import json
import logging
import os
import time
import warnings
import weakref
from pathlib import Path

import pytest
import torch
from torch import nn
from tracker_adapters.testing import MemoryEmitter

from stability import (
    AutogradAnomalyError,
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    create_training_wrapper,
)

EVERYTHING = {
    "enable_autograd_anomaly": True,
    "enable_grad_check": True,
    "grad_check_every": 1,
    "grad_check_budget_s": 30.0,
    "enable_memory_debugging": True,
    "memory_tracking": True,
    "memory_profiling": True,
    "enable_cuda_debugging": True,
    "cuda_synchronize": True,
    "cuda_memory_fraction": 0.9,
    "enable_performance_debugging": True,
    "profile_autograd": True,
    "profile_memory": True,
    "profile_wait": 1,
    "profile_active": 2,
}
TOOLS = [
    "enable_autograd_anomaly",
    "enable_grad_check",
    "enable_memory_debugging",
    "enable_cuda_debugging",
    "enable_performance_debugging",
]


class WrongCube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return gradient * 2 * x**2


class WrongLayer(nn.Module):
    def forward(self, x):
        return WrongCube.apply(x)


class Network(nn.Module):
    def __init__(self):
        super().__init__()
        self.first = nn.Linear(4, 6)
        self.norm = nn.BatchNorm1d(6)
        self.drop = nn.Dropout(0.25)
        self.last = nn.Linear(6, 1)

    def forward(self, x, root=False):
        hidden = self.drop(self.norm(self.first(x)).relu())
        return self.last(hidden.sqrt() if root else hidden)


def stability(emitter=None, **fields):
    config = PyTorchDebuggingConfig(**{"save_debug_info": False, **fields})
    return NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), config, emitter=emitter)


def train(model, manager, steps=4, root_at=None):
    """Returns the results; ``root_at`` is a step with a root of zeros, whose derivative is infinite."""
    optimizer = torch.optim.Adam(model.parameters(), lr=0.01)
    results = []
    for number in range(steps):
        optimizer.zero_grad()
        loss = (
            model(torch.randn(8, 4), root=True).square().mean()
            if number == root_at
            else model(torch.randn(8, 4)).square().mean()
        )
        loss.backward()
        if manager is not None:
            results.append(manager.step(model, loss, optimizer))
        optimizer.step()
    return results


def hooks_of(model):
    return sum(
        len(value) for module in model.modules() for key, value in vars(module).items() if "_hooks" in key and value
    )


@pytest.mark.parametrize("switch", [*TOOLS, "all"])
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


class TestAnomalyMode:
    """Detecting names what may be at fault and goes on; raising stops the run."""

    def test_detect_names_the_operation_with_its_line_and_goes_on(self, caplog):
        emitter, model = MemoryEmitter(), Network()
        manager = stability(emitter, enable_autograd_anomaly=True)
        manager.start_debug_session("detect")

        results = train(model, manager, steps=3, root_at=1)

        assert "suspect_operations" not in results[0]["debug_info"]
        suspects = results[1]["debug_info"]["suspect_operations"]
        (root,) = [suspect for suspect in suspects if suspect.startswith("SqrtBackward0")]
        assert "hidden.sqrt()" in root
        assert __file__ in root
        assert root in [suspects[0], suspects[1]]
        (record,) = [record for record in caplog.records if "suspect" in record.message]
        assert record.stepscope == {"event": "suspect_operations", "session": "detect", "step": 1}
        assert "suspect_operations" in [artifact.name for artifact in emitter.artifacts]
        manager.stop_debug_session()

    def test_a_loss_without_a_graph_is_noted(self):
        model, manager = Network(), stability(enable_autograd_anomaly=True)
        manager.start_debug_session("detached")
        model(torch.randn(8, 4)).sum().backward()
        model.last.bias.grad.fill_(torch.nan)

        manager.step(model, 0.5, torch.optim.SGD(model.parameters()))
        manager.stop_debug_session()

        assert "the loss has no graph" in manager.get_debug_summary()["notes"][0]

    def test_raise_lets_torch_stop_at_a_nan_and_step_at_an_infinity(self):
        model = Network()
        manager = stability(enable_autograd_anomaly=True, autograd_anomaly_mode="raise")
        manager.start_debug_session("raise")
        value = torch.zeros(1, requires_grad=True)
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            with pytest.raises(RuntimeError, match="returned nan values"):
                (value.sqrt() * 0).sum().backward()
        model(torch.randn(8, 4)).sum().backward()
        model.last.bias.grad.fill_(torch.inf)

        with pytest.raises(AutogradAnomalyError, match=r"step 0: inf_gradient: .*last\.bias"):
            manager.step(model, 0.5, torch.optim.SGD(model.parameters()))
        assert manager.history[-1].non_finite_gradients == 1
        manager.stop_debug_session()

    @pytest.mark.parametrize("mode", ["detect", "raise"])
    def test_the_mode_that_was_on_before_is_on_again_also_after_an_exception(self, mode):
        with torch.autograd.set_detect_anomaly(True, check_nan=mode == "detect"):
            config = PyTorchDebuggingConfig(
                enable_autograd_anomaly=True, autograd_anomaly_mode=mode, save_debug_info=False
            )
            with (
                pytest.raises(KeyError),
                create_training_wrapper(GradientClippingConfig(), NaNHandlingConfig(), config),
            ):
                assert torch.is_anomaly_check_nan_enabled() == (mode == "raise")
                raise KeyError
            assert torch.is_anomaly_enabled()
            assert torch.is_anomaly_check_nan_enabled() == (mode == "detect")

    @pytest.mark.parametrize("order", [(0, 1), (1, 0)], ids=["first in, first out", "last in, first out"])
    def test_of_sessions_that_overlap_the_strictest_holds_and_the_last_one_puts_the_mode_back(self, order):
        managers = [
            stability(enable_autograd_anomaly=True, autograd_anomaly_mode=mode, save_debug_info=False)
            for mode in ("detect", "raise")
        ]
        for manager in managers:
            manager.start_debug_session("overlapping")
        assert torch.is_anomaly_check_nan_enabled()

        managers[order[0]].stop_debug_session()
        assert torch.is_anomaly_enabled()
        assert torch.is_anomaly_check_nan_enabled() == (order[1] == 1)
        managers[order[1]].stop_debug_session()

        assert not torch.is_anomaly_enabled()


class TestGradientChecks:
    """One module a turn."""

    def test_models_that_take_turns_are_checked_both(self):
        manager = stability(enable_grad_check=True, grad_check_every=3)
        first, second = nn.Linear(4, 4), nn.Sequential(nn.Linear(4, 1))
        manager.start_debug_session("turns")
        for number in range(24):
            model = (first, second)[number % 2]
            model.zero_grad()
            loss = second(first(torch.randn(8, 4))).square().mean()
            loss.backward()
            manager.step(model, loss, torch.optim.SGD(model.parameters(), lr=0.01))
        manager.stop_debug_session()

        checks = manager.get_debug_summary()["gradient_checks"]
        assert set(checks["passed"]) == {"Linear", "0"}
        assert (checks["skipped"], hooks_of(first), hooks_of(second)) == ({}, 0, 0)

    def test_every_module_has_its_turn_and_the_wrong_one_is_told_once(self):
        emitter = MemoryEmitter()
        model = nn.Sequential(nn.Linear(4, 6), WrongLayer(), nn.Linear(6, 1))
        manager = stability(emitter, enable_grad_check=True, grad_check_every=1, grad_check_budget_s=30.0)
        manager.start_debug_session("turns")

        results = train(model, manager, steps=8)
        manager.stop_debug_session()

        checked = [result["debug_info"]["gradient_check"]["module"] for result in results[1:]]
        assert checked == ["0", "1", "2", "0", "1", "2", "0"]
        summary = manager.get_debug_summary()
        assert summary["gradient_checks"]["passed"] == {"0": 3, "2": 2}
        assert summary["gradient_checks"]["failed"] == {"1": 2}
        assert summary["anomalies_by_kind"] == {"gradient_check_failed": 1}
        assert "1: the gradient of output 0 with respect to input 0" in summary["last_anomaly"]["message"]
        assert [artifact.name for artifact in emitter.artifacts].count("gradient_check_failed") == 1

    def test_with_a_share_of_the_time_checks_and_profiles_keep_to_it(self):
        manager = stability(
            enable_grad_check=True, enable_memory_debugging=True, memory_profiling=True, check_max_share=0.1
        )
        manager.start_debug_session("share")

        begun = time.perf_counter()
        results = train(Network(), manager, steps=400)
        elapsed = time.perf_counter() - begun
        manager.stop_debug_session()

        checks = [info["gradient_check"] for result in results if "gradient_check" in (info := result["debug_info"])]
        profiles = [number for number, result in enumerate(results) if "memory_profile" in result["debug_info"]]
        seconds = [check["seconds"] for check in checks]
        assert 2 <= len(checks) < 200
        assert sum(seconds) <= 0.1 * elapsed + 2 * max(seconds)
        assert profiles[0] == 1
        assert 2 <= len(profiles) < 400

    def test_checks_come_at_their_interval(self):
        manager = stability(enable_grad_check=True, grad_check_every=3, grad_check_budget_s=30.0)
        manager.start_debug_session("interval")

        results = train(Network(), manager, steps=8)
        manager.stop_debug_session()

        assert [number for number, result in enumerate(results) if "gradient_check" in result["debug_info"]] == [
            1,
            4,
            7,
        ]

    @pytest.mark.parametrize(
        ("fields", "reason"),
        [({"grad_check_numerical": False}, "dense"), ({"grad_check_budget_s": 1e-9}, "out of time")],
    )
    def test_what_is_skipped_is_counted_by_reason(self, fields, reason):
        manager = stability(enable_grad_check=True, grad_check_every=1, **fields)
        manager.start_debug_session("skips")

        train(nn.Sequential(nn.Linear(4, 2)), manager, steps=3)
        manager.stop_debug_session()

        assert manager.get_debug_summary()["gradient_checks"]["skipped"] == {reason: 2}

    def test_a_module_that_is_not_called_gives_its_turn_away(self):
        model = Network()
        model.spare = nn.Linear(2, 2)
        manager = stability(enable_grad_check=True, grad_check_every=2, grad_check_budget_s=30.0)
        manager.start_debug_session("spare")

        train(model, manager, steps=11)
        manager.stop_debug_session()

        assert manager.get_debug_summary()["gradient_checks"]["skipped"] == {"not called": 1}


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
        train(model, wrapper.manager, steps=2)
        raise ZeroDivisionError("in the loop")

    alerts = [artifact for artifact in emitter.artifacts if artifact.kind == "alert"]
    assert [alert.name for alert in alerts] == [
        "debug_session_started",
        "training_error",
        "debug_session_stopped",
    ]
    assert (alerts[1].message, alerts[1].step) == ("ZeroDivisionError: in the loop", 1)
    (text,) = [artifact for artifact in emitter.artifacts if artifact.name == "stability/debug/error"]
    assert '"iteration": 2' in text.text


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
