"""A batch with NaN leaves nothing in the running statistics when something is done about it."""

import json
import math

import pytest
import torch
from torch import nn

import stepscope
from stability import GradientClippingConfig, NaNHandlingConfig, NumericalStabilityManager, create_training_wrapper
from stability.handling.buffers import BufferKeeper

BATCHES = [torch.randn(6, 4, generator=torch.Generator().manual_seed(seed)) for seed in range(8)]


def train(handling_type, poisoned=(), left_out=()):
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))
    model.register_buffer("mask", torch.ones(4))
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.01)
    manager = NumericalStabilityManager(
        GradientClippingConfig(clipping_type="none"),
        NaNHandlingConfig(handling_type=handling_type, **({"snapshot_every": 1} if handling_type == "restore" else {})),
    )
    for number, batch in enumerate(BATCHES):
        if number in left_out:
            continue
        inputs = torch.where(torch.arange(6)[:, None] == 2, math.nan, batch) if number in poisoned else batch
        for _ in range(2):  # two micro-batches
            loss = model(inputs).square().mean() / 2
            loss.backward()
        manager.step(model, loss, optimizer)
        optimizer.step()
        optimizer.zero_grad()
    return model


def test_after_a_skip_the_model_is_what_it_is_without_the_batch():
    skipped, expected = train("skip", poisoned={3, 4}).state_dict(), train("skip", left_out={3, 4}).state_dict()
    assert all(torch.equal(skipped[name], expected[name]) for name in expected)


@pytest.mark.parametrize(
    "handling_type", ["skip", "replace", "gradient_zeroing", "gradient_scaling", "restore", "adaptive"]
)
def test_no_handling_type_leaves_nan_behind(handling_type):
    model = train(handling_type, poisoned={2, 5})
    assert all(buffer.isfinite().all() for buffer in model.buffers())
    assert model.eval()(BATCHES[0]).isfinite().all()


def test_detection_leaves_everything_as_it_is():
    assert train("detect", poisoned={7})[1].running_mean.isnan().all()


def test_buffers_that_somebody_exchanged_are_left_alone():
    model = nn.BatchNorm1d(2)
    keeper = BufferKeeper()
    keeper.keep(model)
    model.running_mean = torch.full((2,), 7.0)
    assert keeper.put_back(model) == ([], [])
    assert model.running_mean.tolist() == [7.0, 7.0]


class RunningMean(nn.Module):
    """Exchanges its buffer in each forward pass."""

    def __init__(self):
        super().__init__()
        self.layer = nn.Linear(4, 1)
        self.register_buffer("mean", torch.zeros(()))

    def forward(self, inputs):
        self.mean = 0.9 * self.mean + 0.1 * inputs.detach().mean()
        return self.layer(inputs - self.mean)


def poisoned_first_step(model, manager, optimizer):
    """One bad step, then good ones; returns what the bad one gave."""
    results = []
    for number, batch in enumerate(BATCHES):
        inputs = torch.where(torch.arange(6)[:, None] == 2, math.nan, batch) if number == 0 else batch
        optimizer.zero_grad()
        loss = model(inputs).square().mean()
        loss.backward()
        results.append(manager.step(model, loss, optimizer))
        optimizer.step()
    return results[0]


def batch_norm():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.ReLU(), nn.Linear(4, 1))


def lazy():
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(4, 4), nn.LazyBatchNorm1d(), nn.ReLU(), nn.LazyLinear(1))


HANDLING = ["skip", "replace", "gradient_zeroing", "gradient_scaling", "restore", "adaptive"]


@pytest.mark.parametrize("handling_type", HANDLING)
@pytest.mark.parametrize("make", [batch_norm, lazy])
def test_a_fault_in_the_very_first_step_leaves_no_nan_and_says_what_begins_anew(make, handling_type):
    model = make()
    model(BATCHES[1])
    model[1].reset_running_stats()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(handling_type=handling_type))

    result = poisoned_first_step(model, manager, optimizer)

    assert all(buffer.isfinite().all() for buffer in model.buffers())
    assert result["nan_stats"]["buffers_reset"] == ["1.running_mean", "1.running_var"]
    told = result["debug_info"]["anomaly_details"][0]["message"]
    assert "no state of 1.running_mean, 1.running_var was saved" in told


@pytest.mark.parametrize("way", ["keep_buffers", "wrapper", "session"])
@pytest.mark.parametrize("make", [batch_norm, RunningMean])
def test_buffers_that_were_kept_before_the_first_step_come_back_exactly(make, way):
    model = make()
    with torch.no_grad():
        model(BATCHES[3])
    before = {name: buffer.clone() for name, buffer in model.named_buffers()}
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    configs = GradientClippingConfig(), NaNHandlingConfig(handling_type="skip")
    manager = create_training_wrapper(*configs, model=model if way == "wrapper" else None)
    if way == "keep_buffers":
        manager.keep_buffers(model)
    loss = model(torch.full((6, 4), math.nan)).square().mean() if way != "session" else None
    if way == "session":
        session = stepscope.DebugSession(model, optimizer, stability=manager, config="economy").start()
        loss = model(torch.full((6, 4), math.nan)).square().mean()
    loss.backward()
    result = manager.step(model, loss, optimizer) if way != "session" else session.step(loss)
    if way == "session":
        session.stop()

    assert result["nan_stats"]["buffers_reset"] == result["nan_stats"]["buffers_left"] == []
    assert all(torch.equal(buffer, before[name]) for name, buffer in model.named_buffers())


@pytest.mark.parametrize("handling_type", HANDLING)
def test_a_fault_in_the_first_step_after_resuming_goes_back_to_the_checkpoint(handling_type):
    config = NaNHandlingConfig(handling_type=handling_type)
    first = NumericalStabilityManager(GradientClippingConfig(), config)
    model = batch_norm()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.0)
    for batch in BATCHES:
        loss = model(batch).square().mean()
        loss.backward()
        first.step(model, loss, optimizer)
    checkpoint = json.loads(json.dumps(first.state_dict()))
    saved = {name: buffer.clone() for name, buffer in model.named_buffers()}

    resumed, second = batch_norm(), NumericalStabilityManager(GradientClippingConfig(), config)
    resumed.load_state_dict(model.state_dict())
    second.load_state_dict(checkpoint)
    loss = resumed(torch.full((6, 4), math.nan)).square().mean()
    loss.backward()
    result = second.step(resumed, loss, torch.optim.SGD(resumed.parameters(), lr=0.01))

    assert result["nan_stats"]["buffers_reset"] == []
    assert all(torch.equal(buffer, saved[name]) for name, buffer in resumed.named_buffers())


def test_a_pause_may_load_other_statistics():
    model = batch_norm()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(handling_type="skip"))
    with stepscope.DebugSession(model, optimizer, stability=manager, config="economy") as session:
        loss = model(BATCHES[0]).square().mean()
        loss.backward()
        session.step(loss)
        optimizer.step()
        with session.paused():
            model[1].load_state_dict(model[1].state_dict() | {"running_mean": torch.full((4,), 5.0)})
        loss = model(torch.full((6, 4), math.nan)).square().mean()
        loss.backward()
        session.step(loss)

    assert model[1].running_mean.tolist() == [5.0] * 4


def test_a_buffer_that_appeared_with_the_fault_and_cannot_be_known_is_named():
    model = RunningMean()
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    manager = NumericalStabilityManager(GradientClippingConfig(), NaNHandlingConfig(handling_type="skip"))
    loss = model(torch.full((6, 4), math.nan)).square().mean()
    loss.backward()
    result = manager.step(model, loss, optimizer)

    assert result["nan_stats"]["buffers_left"] == ["mean"]
    assert "mean cannot be reset" in result["debug_info"]["anomaly_details"][0]["message"]


def test_a_buffer_that_is_offloaded_is_left_alone():
    model = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4))
    keeper = BufferKeeper()
    keeper.keep(model)
    model[1].running_mean.untyped_storage().resize_(0)
    keeper.keep(model)
    model[1].running_var[:] = math.nan
    keeper.put_back(model)

    assert model[1].running_var.tolist() == [1.0] * 4
