"""A session's limits end its tools with a word, and neither finding nor raising; what is raised is recorded before."""

import json
import math

import pytest
import torch
from torch import nn
from tracker_adapters.artifacts import Alert, Scalar
from tracker_adapters.testing import MemoryEmitter

import stepscope
from stability import (
    AutogradAnomalyError,
    GradientClippingConfig,
    NaNHandlingConfig,
    NumericalStabilityManager,
    PyTorchDebuggingConfig,
    StabilityError,
    create_training_wrapper,
)


@pytest.fixture(autouse=True)
def _anomaly_mode_is_off_again():
    yield
    assert not torch.is_anomaly_enabled()


def training(emitter=None, **debug):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 8), nn.Linear(8, 1))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    config = PyTorchDebuggingConfig(**{"save_debug_info": False, **debug})
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(), config, emitter=emitter)
    return model, optimizer, manager


def run(model, optimizer, step, numbers, *, bad=(), square_root=()):
    results = []
    for number in numbers:
        optimizer.zero_grad()
        outputs = model(torch.full((8, 4), math.nan) if number in bad else torch.randn(8, 4))
        if number in square_root:
            outputs = (outputs * 0).sqrt()
        loss = outputs.square().mean()
        loss.backward()
        results.append(step(model, loss, optimizer))
        optimizer.step()
    return results


def of(emitter, kind):
    return [artifact for artifact in emitter.artifacts if isinstance(artifact, kind)]


RAISE = {"enable_autograd_anomaly": True, "autograd_anomaly_mode": "raise"}


@pytest.mark.parametrize(
    ("limit", "reason"),
    [
        ({"max_debug_iterations": 3}, "3 steps (max_debug_iterations)"),
        ({"debug_timeout": 1e-9}, "1e-09 s (debug_timeout)"),
    ],
)
def test_what_a_limit_ends_is_told_once_and_in_the_summary(limit, reason):
    emitter = MemoryEmitter()
    model, optimizer, manager = training(emitter, enable_memory_debugging=True, enable_autograd_anomaly=True, **limit)
    manager.start_debug_session("x")
    run(model, optimizer, manager.step, range(7), bad=[6])
    summary = manager.get_debug_summary()

    collected = 3 if "max_debug_iterations" in limit else 0
    told = [alert for alert in of(emitter, Alert) if alert.name == "debug_tools_ended"]
    assert [alert.level for alert in told] == ["warning"]
    assert reason in told[0].message
    assert "anomaly mode, memory debugging" in told[0].message
    assert summary["notes"] == [told[0].message]
    assert summary["tools_ended"] == {
        "tools": ["anomaly mode", "memory debugging"],
        "step": max(0, collected - 1),
        "reason": reason,
    }
    assert (summary["total_iterations"], summary["collected_iterations"]) == (7, collected)
    assert summary["anomalies_by_kind"] == {"nan_loss": 1, "nan_gradient": 1}


def test_tools_that_no_limit_ended_are_not_told():
    model, optimizer, manager = training(enable_memory_debugging=True)
    manager.start_debug_session("x")
    run(model, optimizer, manager.step, range(3))
    manager.stop_debug_session()

    summary = manager.get_debug_summary()
    assert (summary["tools_ended"], summary["collected_iterations"], summary["notes"]) == (None, 3, [])


@pytest.mark.parametrize("limit", [{"max_debug_iterations": 2}, {"debug_timeout": 1e-9}])
def test_a_session_that_is_to_raise_does_so_beyond_its_limits_until_it_stops(limit):
    model, optimizer, manager = training(**RAISE, **limit)
    manager.start_debug_session("x")
    run(model, optimizer, manager.step, range(5))
    with pytest.raises(AutogradAnomalyError, match="step 5: nan_loss"):
        run(model, optimizer, manager.step, [5], bad=[5])
    assert manager.history[-1].anomalies == ("nan_loss", "nan_gradient")

    manager.stop_debug_session()
    run(model, optimizer, manager.step, [6], bad=[6])


def test_what_step_raises_is_recorded_and_the_session_goes_on_with_the_next_step(tmp_path):
    with stepscope.open_run(tmp_path / "run", sinks=[]) as record:
        model, optimizer, manager = training(record, enable_autograd_anomaly=True, autograd_anomaly_mode="raise")
        manager.start_debug_session("x")
        config = stepscope.DebugConfig(max_overhead=None)
        with stepscope.DebugSession(model, optimizer, run=record, stability=manager, config=config) as session:
            for number in range(4):
                optimizer.zero_grad()
                loss = model(torch.full((8, 4), math.nan) if number == 2 else torch.randn(8, 4)).square().mean()
                with torch.autograd.set_detect_anomaly(mode=False):
                    loss.backward()
                if number == 2:
                    with pytest.raises(AutogradAnomalyError):
                        session.step(loss)
                else:
                    session.step(loss)
                    optimizer.step()
    manager.stop_debug_session()
    read = stepscope.read_run(tmp_path / "run")
    assert read.scalars("loss").steps.tolist() == [0, 1, 2, 3]
    assert math.isnan(read.scalars("loss").values[2])
    assert read.scalars("stability/score").steps.tolist() == [0, 1, 2, 3]
    assert {"nan_loss", "nan_gradient"} <= {alert.name for alert in read.alerts() if alert.step == 2}


@pytest.mark.filterwarnings("ignore:Error detected in SqrtBackward0")
@pytest.mark.parametrize("way", ["wrapper", "session"])
def test_what_torch_raises_in_backward_is_recorded_with_its_place(way, tmp_path):
    emitter = MemoryEmitter()
    model, optimizer, manager = training(
        emitter, **RAISE, save_debug_info=True, debug_output_dir=str(tmp_path), debug_file_prefix="d"
    )
    if way == "wrapper":
        configs = GradientClippingConfig(), NaNHandlingConfig()
        context = manager = step = create_training_wrapper(*configs, manager.debugging._config, emitter=emitter)
    else:
        manager.start_debug_session("x")
        context = stepscope.DebugSession(model, optimizer, stability=manager, config="economy")

        def step(model, loss, optimizer):
            return context.step(loss)

    with pytest.raises(RuntimeError, match="SqrtBackward0"), context:
        run(model, optimizer, step, range(6), square_root=[4])
    manager.stop_debug_session()

    summary = manager.get_debug_summary()
    assert summary["anomalies_by_kind"] == {"nan_gradient": 1}
    assert summary["last_anomaly"]["step"] == 4
    assert "SqrtBackward0 at" in summary["last_anomaly"]["message"]
    assert "test_debug_limits.py" in summary["last_anomaly"]["message"]
    assert "(outputs * 0).sqrt()" in summary["last_anomaly"]["message"]
    alerts = [alert for alert in of(emitter, Alert) if alert.name == "nan_gradient"]
    assert [(alert.step, alert.level) for alert in alerts] == [(4, "error")]
    last = manager.history[-1]
    assert (last.step, last.anomalies, last.stability_score) == (4, ("nan_gradient",), 0.0)
    assert math.isfinite(last.loss)
    assert [one.step for one in of(emitter, Scalar) if one.name == "stability/loss"] == [0, 1, 2, 3, 4]
    (file,) = tmp_path.glob("d_anomalies_*.json")
    assert [entry["kind"] for entry in json.loads(file.read_text())] == ["nan_gradient"]


@pytest.mark.parametrize("error", [RuntimeError("something else"), ValueError("Function 'X' returned nan values")])
def test_other_errors_are_no_anomalies(error):
    model, optimizer, manager = training(**RAISE)
    manager.start_debug_session("x")
    run(model, optimizer, manager.step, range(2))
    manager.stop_debug_session(error)

    assert manager.get_debug_summary()["anomalies_detected"] == 0
    assert len(manager.history) == 2


@pytest.mark.parametrize(
    ("clipping", "loss_of", "backward"),
    [
        ({}, lambda loss: loss, False),
        ({}, lambda loss: torch.stack([loss, loss]), True),
        ({"clipping_type": "layer_wise", "layer_thresholds": {"nothing": 1.0}}, lambda loss: loss, True),
        ({"clipping_type": "agc", "agc_exclude": ("nothing",)}, lambda loss: loss, True),
    ],
    ids=["no gradient", "no scalar", "layer_wise", "agc"],
)
def test_of_a_refused_step_nothing_is_emitted_and_no_step_is_counted(clipping, loss_of, backward, tmp_path):
    model, optimizer, _ = training()
    with stepscope.open_run(tmp_path / "run", sinks=[]) as record:
        manager = NumericalStabilityManager(GradientClippingConfig(**clipping), NaNHandlingConfig(), emitter=record)
        with stepscope.DebugSession(model, optimizer, run=record, stability=manager) as session:
            loss = model(torch.randn(8, 4)).square().mean()
            if backward:
                loss.backward()
            with pytest.raises(StabilityError):
                session.step(loss_of(loss), metrics={"accuracy": 0.5})
            record.flush_store()
            assert not stepscope.read_run(tmp_path / "run").names()
            if not clipping:
                optimizer.zero_grad()
                loss = model(torch.randn(8, 4)).square().mean()
                loss.backward()
                assert session.step(loss)["step"] == 0
