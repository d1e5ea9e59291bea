"""The training path only enqueues work for a device: nothing on it waits until values have come to the host."""

import pytest
import torch
from pretended_device import DEVICE, tried_device
from tracker_adapters.testing import MemoryEmitter

import stepscope
from debuggers.diagnosis.facts import FACTS_NAME
from debuggers.diagnosis.stored_facts import decode
from debuggers.host_arrays.deferred import DeferredTensor
from debuggers.measurement.measure import measure
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager

STEPS = 6


def network():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Linear(8, 16), torch.nn.BatchNorm1d(16), torch.nn.ReLU(), torch.nn.Linear(16, 16), torch.nn.Tanh(),
        torch.nn.Linear(16, 2),
    )  # fmt: skip


OPTIONS = {
    "standard": {},
    "full": {"config": "full", "max_overhead": None},
}


@pytest.mark.parametrize("with_kernels", [True, pytest.param(False, marks=pytest.mark.slow)])
@pytest.mark.parametrize(
    ("loop", "wants", "nan_at"),
    [
        ("watch", "standard", None),
        pytest.param("session", "full", None, marks=pytest.mark.slow),
        ("watch", "full", 3),
        pytest.param("session", "standard", None, marks=pytest.mark.slow),
        pytest.param("watch", "full", None, marks=pytest.mark.slow),
        pytest.param("session", "full", 3, marks=pytest.mark.slow),
    ],
)
def test_no_step_waits_for_the_device(loop, wants, nan_at, with_kernels, tmp_path, monkeypatch):  # noqa: PLR0917
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    data = torch.randn(STEPS, 4, 8)
    if nan_at is not None:
        data[nan_at, 0, 0] = torch.nan
    with (
        stepscope.open_run(tmp_path / "run", sinks=[]) as run,
        tried_device(monkeypatch, with_kernels=with_kernels) as device,
    ):
        session = stepscope.watch(model, optimizer, run=run, **OPTIONS[wants])
        for step in range(STEPS):
            loss = model(data[step]).square().mean()
            optimizer.zero_grad()
            loss.backward()
            if loop == "session":
                session.step(loss, step=step)
            run.scalar("mine", loss, step=step)
            run.histogram("weights", model[0].weight, step=step)
            optimizer.step()
        waits = list(device.waits)
        session.close()
    assert waits == []
    record = stepscope.read_run(tmp_path / "run")
    assert record.scalars("mine").steps.tolist() == list(range(STEPS))
    assert any(info.name.startswith("gradient_norm/") for info in record.names())


def test_what_is_known_is_stored_during_a_training_on_a_device(monkeypatch):
    """Of one that is killed there is a diagnosis, and its parameters are described as they were."""
    model, emitter = network(), MemoryEmitter()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    expected = {name: one.detach().double().mean().item() for name, one in model.named_parameters()}
    with tried_device(monkeypatch) as device:
        session = stepscope.watch(model, optimizer, run=emitter)
        for _ in range(12):
            optimizer.zero_grad()
            model(torch.randn(4, 8, device=DEVICE)).square().mean().backward()
            optimizer.step()
        waits, texts = list(device.waits), [one for one in emitter.artifacts if one.name == FACTS_NAME]
        session.close()
    assert waits == []
    assert len(texts) == 2
    for text in texts:
        facts, _ = decode(text.text)
        assert {one.name: one.mean for one in facts.parameters} == pytest.approx(expected, abs=1e-6)


def test_a_stability_manager_waits_once_a_step(monkeypatch):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    manager = NumericalStabilityManager(GradientClippingConfig(max_norm=0.01), NaNHandlingConfig())
    with tried_device(monkeypatch) as device:
        for step in range(STEPS):
            loss = model(torch.randn(4, 8, device=DEVICE)).square().mean()
            optimizer.zero_grad()
            loss.backward()
            manager.step(model, loss, optimizer)
            optimizer.step()
            assert [wait.partition(":")[0] for wait in device.waits] == ["tolist"] * (step + 1)


def test_the_device_is_noticed_and_so_is_waiting_for_it(monkeypatch):
    weight = torch.ones(3)
    with tried_device(monkeypatch) as device:
        assert weight.device == DEVICE
        assert not weight.is_cpu
        assert (weight + 1).is_cuda
        assert torch.zeros(1).is_cpu
        pending = measure([weight, weight * 2])
        copy = DeferredTensor(weight)
        assert (pending.ready(), device.waits) == (False, [])
        copy.resolve()
        pending.resolve()
        assert [wait.partition(":")[0] for wait in device.waits] == ["Event.synchronize"] * 2


@pytest.mark.parametrize("wants", ["standard", pytest.param("full", marks=pytest.mark.slow)])
def test_what_a_graph_captures_is_not_measured_and_an_alert_says_so(wants, tmp_path, monkeypatch):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    events = []
    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, tried_device(monkeypatch) as device:
        session = stepscope.watch(model, optimizer, run=run, **OPTIONS[wants])
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: True)
        for step in range(STEPS):
            monkeypatch.setattr(torch.cuda, "is_current_stream_capturing", lambda step=step: step in (2, 3))
            recorded = len(device.events)
            optimizer.zero_grad()
            model(torch.ones(4, 8, device=DEVICE)).square().mean().backward()
            optimizer.step()
            events.append(len(device.events) - recorded)
        monkeypatch.setattr(torch.cuda, "is_initialized", lambda: False)
        session.close()
    assert [count > 0 for count in events] == [True, True, False, False, True, True]
    record = stepscope.read_run(tmp_path / "run")
    told = [alert.message for alert in record.alerts() if "a CUDA graph is being captured" in alert.message]
    assert told
    assert len(set(told)) == len(told)


def test_a_device_that_fails_does_not_stop_the_training_by_what_was_measured_on_it(tmp_path, monkeypatch):
    model = network()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)

    def fail(event):
        raise RuntimeError("CUDA error: unspecified launch failure")

    with stepscope.open_run(tmp_path / "run", sinks=[]) as run, tried_device(monkeypatch) as device:
        session = stepscope.watch(model, optimizer, run=run, **OPTIONS["full"])
        for step in range(STEPS):
            if step == 3:
                monkeypatch.setattr(type(device.events[0]), "query", fail)
                monkeypatch.setattr(type(device.events[0]), "synchronize", fail)
            optimizer.zero_grad()
            model(torch.ones(4, 8, device=DEVICE)).square().mean().backward()
            optimizer.step()
        session.close()
    record = stepscope.read_run(tmp_path / "run")
    assert any("unspecified launch failure" in alert.message for alert in record.alerts())
